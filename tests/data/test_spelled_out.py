"""Numbers and dates in words: the answers by another route, and no answer of dev in train."""

import inspect
import re
import textwrap
from datetime import datetime

import pytest

from attnlab.config.values import ConfigError
from attnlab.data.corpora import CORPORA
from attnlab.data.corpora.spelled_out import MONTHS, number_in_words
from attnlab.data.errors import DataError
from attnlab.data.splits import Splits

UNITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
VALUES = {
    **{word: number for number, word in enumerate(UNITS)},
    "eleven": 11,
    "twelve": 12,
    "thirteen": 13,
    "fourteen": 14,
    "fifteen": 15,
    "sixteen": 16,
    "seventeen": 17,
    "eighteen": 18,
    "nineteen": 19,
    "twenty": 20,
    "thirty": 30,
    "forty": 40,
    "fifty": 50,
    "sixty": 60,
    "seventy": 70,
    "eighty": 80,
    "ninety": 90,
}
SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9}


def value_of(words: str) -> int:
    """A number by adding up its words from the left."""
    total = part = 0
    for word in re.split("[ -]", words):
        if word in SCALES:
            total, part = total + part * SCALES[word], 0
        elif word == "hundred":
            part *= 100
        elif word != "and":
            part += VALUES[word]
    return total + part


@pytest.mark.parametrize("to", ["digits", "words"])
def test_numbers_are_their_words_added_up(to: str) -> None:
    examples = list(CORPORA.build(f"number_words(to={to}, examples=3000)").read())
    for example in examples:
        words, digits = (example.text, example.target) if to == "digits" else (example.target, example.text)
        assert words is not None and digits is not None
        assert str(value_of(words)) == digits
    lengths = {len(example.target if to == "digits" else example.text) for example in examples}
    assert lengths == set(range(1, 13))
    assert len({example.text for example in examples}) == len(examples)


def test_english_says_and_before_the_last_two_digits() -> None:
    assert number_in_words(305) == "three hundred and five"
    assert number_in_words(1_000_001) == "one million and one"
    assert number_in_words(12_340) == "twelve thousand three hundred and forty"
    assert number_in_words(0) == "zero"
    with pytest.raises(DataError, match="999,999,999,999"):
        number_in_words(10**12)


def day_of(words: str) -> datetime:
    """A date by its spelling, read by the standard library but for what is written out."""
    if words.startswith("the "):
        ordinal, rest = words.removeprefix("the ").split(" of ")
        month, year = rest.split(", ")
        return datetime(year_of(year), MONTHS.index(month) + 1, ordinal_of(ordinal))
    plain = re.sub(r"^\w+day, ", "", re.sub(r"(\d)(st|nd|rd|th)\b", r"\1", words))
    for form in ("%d of %B %Y", "%d %B %Y", "%B %d, %Y", "%d.%m.%Y"):
        try:
            return datetime.strptime(plain, form)
        except ValueError:
            continue
    raise AssertionError(words)


def ordinal_of(words: str) -> int:
    irregular = {"first": 1, "second": 2, "third": 3, "fifth": 5, "eighth": 8, "ninth": 9, "twelfth": 12}
    tens, _, last = words.rpartition("-")
    stem = last.removesuffix("th").replace("tie", "ty")
    return (VALUES[tens] if tens else 0) + irregular.get(last, VALUES.get(stem, 0))


def year_of(words: str) -> int:
    if "thousand" in words or "hundred" in words:
        return value_of(words)
    century, _, rest = words.partition(" ")
    return 100 * value_of(century) + value_of(rest.removeprefix("oh "))


@pytest.mark.parametrize("to", ["digits", "words"])
def test_dates_are_the_same_day_on_both_sides(to: str) -> None:
    for example in CORPORA.build(f"dates(to={to}, examples=3000)").read():
        words, digits = (example.text, example.target) if to == "digits" else (example.target, example.text)
        assert words is not None and digits is not None
        day = day_of(words)
        assert day.date().isoformat() == digits
        assert "day, " not in words or words.startswith(f"{day:%A}, ")


def test_a_date_in_another_spelling_is_in_the_same_split() -> None:
    splits = Splits(CORPORA.build("dates(examples=20_000)"), dev_share=0.3)
    answers = {split: {example.target for example in splits.read(split)} for split in ("train", "dev")}
    spelled = [example.target for example in splits.read("train")]
    assert len(spelled) > len(answers["train"]), "some days are there in several spellings"
    assert not answers["train"] & answers["dev"]


def test_options_are_checked() -> None:
    with pytest.raises(ConfigError, match="12"):
        CORPORA.build("number_words(digits=13)")
    with pytest.raises(ConfigError, match="digits"):
        CORPORA.build("dates(to=roman)")


def test_summaries_are_the_first_lines_of_docstrings_each_once() -> None:
    examples = list(CORPORA.build("summaries").read())
    assert len(examples) > 1000
    texts = [text for example in examples for text in (example.text, example.target)]
    assert len(set(texts)) == len(texts)
    assert all("\n" not in (example.target or "") for example in examples)
    first, body = str(inspect.getdoc(textwrap.wrap)).split("\n\n", 1)
    assert next(example.text for example in examples if example.target == first) == body
