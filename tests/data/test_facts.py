"""Questions made on the spot: answers are in place, and names alone do not tell which questions have one."""

from collections import Counter

import pytest

from attnlab.config.values import ConfigError
from attnlab.data.corpora import CORPORA
from attnlab.data.corpora.facts import PEOPLE, RELATIONS
from attnlab.data.errors import DataError


def test_answers_stand_in_their_passage_and_the_rest_is_not_said():
    examples = list(CORPORA.build("facts(examples=500, facts=3)").read())
    assert len(examples) == 500 and 0.4 < sum(not one.answers for one in examples) / 500 < 0.6
    for one in examples:
        person = next(name for name in PEOPLE if name in one.text)
        relation = next(found for found in RELATIONS if one.text == found.asked.format(person))
        told = [value for value in relation.values if f"{person} {relation.said} {value}." in one.pair]
        assert [answer.text for answer in one.answers] == told
        assert all(one.pair[a.start :].startswith(a.text) for a in one.answers)
        assert person in one.pair, "the name alone does not decide it"
    assert len({one.pair for one in examples}) > 490
    assert Counter(one.pair.count(".") for one in examples) == {3: 500}


def test_the_same_settings_give_the_same_questions():
    one, same, other = (CORPORA.build(f"facts(examples=20, seed={seed})") for seed in (1, 1, 2))
    assert list(one.read()) == list(same.read()) != list(other.read())
    assert one.fingerprint() == same.fingerprint() != other.fingerprint()


@pytest.mark.parametrize(
    "wrong", ["facts=1", "facts=99", "unanswerable=1.0", "unanswerable=-0.1", "examples=0"]
)
def test_impossible_settings_are_refused(wrong):
    with pytest.raises((DataError, ConfigError), match=wrong.partition("=")[0]):
        CORPORA.build(f"facts({wrong})")
