"""Made splits: nobody changes sides when rows are added, and equal texts stay together."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnlab.data.corpora.corpus import Corpus
from attnlab.data.errors import DataError
from attnlab.data.example import Example
from attnlab.data.labels import WRITTEN
from attnlab.data.splits import Splits, passage_trace, trace

TEXTS = st.lists(st.text(min_size=1), min_size=1, max_size=50)


class Held(Corpus):
    """Examples from a list."""

    def __init__(self, examples: list[Example], given: tuple[str, ...] = ("train",)):
        self.examples, self._given = examples, given

    @property
    def given(self) -> tuple[str, ...]:
        return self._given

    def read(self, split: str = "train") -> Iterator[Example]:
        return iter(self.examples)

    def fingerprint(self) -> str:
        return "held"


@given(texts=TEXTS, added=TEXTS, seed=st.integers(0, 3))
def test_rows_added_later_move_nobody(texts: list[str], added: list[str], seed: int) -> None:
    def sides(of: list[str]) -> dict[str, str]:
        splits = Splits(Held([]), 0.3, 0.3, seed)
        return {t: splits.side(Example(t)) for t in of}

    before, after = sides(texts), sides([*added, *texts, *added])
    assert all(after[t] == side for t, side in before.items())


@given(texts=TEXTS)
def test_every_row_is_in_exactly_one_split(texts: list[str]) -> None:
    splits = Splits(Held([Example(t) for t in texts]), 0.3, 0.3)
    parts: list[set[str]] = []
    count = 0
    for name in splits.names:
        try:
            part = [e.text for e in splits.read(name)]
        except DataError as error:
            assert "No text was assigned to the split" in str(error)
            continue
        count += len(part)
        parts.append(set(part))
    assert count == len(texts)
    assert sum(map(len, parts)) == len(set(texts)), "equal texts are never on both sides"


def test_shares_are_kept_and_another_seed_draws_others() -> None:
    corpus = Held([Example(f"text number {i}") for i in range(4000)])
    dev = {e.text for e in Splits(corpus, 0.1, 0.2, 0).read("dev")}
    test = {e.text for e in Splits(corpus, 0.1, 0.2, 0).read("test")}
    assert 340 < len(dev) < 460 and 720 < len(test) < 880
    assert {e.text for e in Splits(corpus, 0.3, 0.2, 0).read("test")} == test, (
        "a larger dev share leaves test alone"
    )
    assert {e.text for e in Splits(corpus, 0.1, 0.2, 1).read("test")} != test


def test_questions_on_one_passage_stay_together() -> None:
    splits = Splits(Held([]), 0.4, 0.3)
    for passage in map(str, range(50)):
        sides = {splits.side(Example(f"question {q}", pair=passage)) for q in range(10)}
        assert len(sides) == 1


def test_given_splits_are_left_alone() -> None:
    corpus = Held([Example(str(i)) for i in range(200)], given=("train", "dev"))
    splits = Splits(corpus, 0.5, 0.0)
    assert splits.names == ("train", "dev")
    assert len(list(splits.read("train"))) == 200
    with pytest.raises(DataError, match=r"set data\.test_share to make it"):
        list(splits.read("test"))


def test_labels_are_ordered_and_traces_ignore_case_and_space() -> None:
    numbers = WRITTEN.summary(Example("x", label=label) for label in ["10", "9", "9", "-1"])
    assert numbers.names == ("-1", "9", "10") and numbers.counts == (1, 2, 1)
    assert WRITTEN.summary(Example("x", label=label) for label in ["b", "a", "10"]).names == (
        "10",
        "a",
        "b",
    )
    assert trace(Example("A  film\n")) == trace(Example("a film")) != trace(Example("a film", pair="b"))


def test_passages_and_groups_have_traces_of_their_own() -> None:
    assert passage_trace(Example("who?", pair="A  Film")) == passage_trace(Example("why?", pair="a film"))
    assert passage_trace(Example("who?", pair="a", group="g")) == passage_trace(Example("why?", group="g"))
    assert passage_trace(Example("a text alone")) is None


@pytest.mark.parametrize("given", [("train",), ("train", "dev")])
def test_one_reading_gives_what_reading_split_by_split_gives(given: tuple[str, ...]) -> None:
    splits = Splits(Held([Example(f"text {n}") for n in range(200)], given), 0.2, 0.2, 1)
    every = list(splits.every())
    for name in splits.names:
        assert [e for split, e in every if split == name] == list(splits.read(name))
    assert {split for split, _ in every} == set(splits.names)


def test_a_training_split_without_text_is_told_the_shares_that_took_it() -> None:
    splits = Splits(Held([Example("a single document")]), 0.5, 0.49999999)
    with pytest.raises(DataError, match=r"Lower data\.dev_share and data\.test_share"):
        list(splits.read("train"))
