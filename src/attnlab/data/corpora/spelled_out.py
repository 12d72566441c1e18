"""Numbers and dates in words, and the same in digits: short translations with known answers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from random import Random
from typing import Annotated, Literal

from attnlab.config.ranges import Range, Seed
from attnlab.data.corpora.synthetic import Drawn, Examples
from attnlab.data.errors import DataError
from attnlab.data.example import Example

ONES = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven"),
    *("twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
SCALES = ((10**9, "billion"), (10**6, "million"), (10**3, "thousand"))
MOST_DIGITS = 12
ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
"""Those that are not the number with "th"."""
MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
FIRST_DAY, LAST_DAY = date(1600, 1, 1), date(2399, 12, 31)

To = Literal["digits", "words"]
Digits = Annotated[int, Range(least=1, most=MOST_DIGITS)]


class SpelledOut(Drawn):
    """What can be written in words and in digits, drawn at random; no source is there twice.

    All spellings of one thing are in the same split: what dev asks for was never an answer in train.
    """

    def __init__(self, *, to: To = "digits", examples: Examples = 20_000, seed: Seed = 0):
        super().__init__(examples=examples, seed=seed)
        self.to = to

    def read(self, split: str = "train") -> Iterator[Example]:
        sources: set[str] = set()
        for example in super().read(split):
            if example.text not in sources:
                sources.add(example.text)
                digits = example.target if self.to == "digits" else example.text
                yield Example(example.text, target=example.target, group=digits)

    def pair(self, words: str, digits: str) -> tuple[list[str], list[str]]:
        """The words of source and target."""
        return (words.split(), [digits]) if self.to == "digits" else ([digits], words.split())


class NumberWords(SpelledOut):
    """`three hundred and five` → `305`, up to twelve digits; or back, with `to = "words"`.

    How many digits a number has is drawn evenly from 1 to `digits`: sources of 1 to 19 words.
    Digits come in the order of the words, and the zeros that no word stands for must be filled in.
    """

    def __init__(
        self,
        *,
        to: To = "digits",
        digits: Digits = MOST_DIGITS,
        examples: Examples = 20_000,
        seed: Seed = 0,
    ):
        super().__init__(to=to, examples=examples, seed=seed)
        if not 1 <= digits <= MOST_DIGITS:
            raise DataError(f"digits is {digits}; it must be from 1 to {MOST_DIGITS}.")
        self.digits = digits

    def draw(self, random: Random) -> tuple[list[str], list[str]]:
        digits = random.randint(1, self.digits)
        number = random.randrange(10 ** (digits - 1) if digits > 1 else 0, 10**digits)
        return self.pair(number_in_words(number), str(number))


class Dates(SpelledOut):
    """`3rd of May 1987` → `1987-05-03`, from six spellings; or back into that one, with `to = "words"`.

    Day, month and year change places, months and written-out numbers become digits, a weekday is left
    out. Years are from 1600 to 2399.
    """

    def draw(self, random: Random) -> tuple[list[str], list[str]]:
        day = date.fromordinal(random.randint(FIRST_DAY.toordinal(), LAST_DAY.toordinal()))
        spellings = date_spellings(day)
        words = random.choice(spellings) if self.to == "digits" else spellings[0]
        return self.pair(words, day.isoformat())


def number_in_words(number: int) -> str:
    """A number below a trillion in English words: 1,305 is "one thousand three hundred and five"."""
    if not 0 <= number < 10**MOST_DIGITS:
        raise DataError(f"{number} has no words here; give a number from 0 to {10**MOST_DIGITS - 1:,}.")
    parts, rest = list[str](), number
    for scale, name in SCALES:
        count, rest = divmod(rest, scale)
        if count:
            parts.append(f"{_below_thousand(count)} {name}")
    if rest or not parts:
        parts += ["and"] * (bool(parts) and rest < 100)
        parts.append(_below_thousand(rest))
    return " ".join(parts)


def _below_thousand(number: int) -> str:
    hundreds, rest = divmod(number, 100)
    parts = [f"{ONES[hundreds]} hundred"] if hundreds else []
    if rest or not hundreds:
        parts += ["and"] * bool(hundreds)
        parts.append(_below_hundred(rest))
    return " ".join(parts)


def _below_hundred(number: int) -> str:
    if number < 20:
        return ONES[number]
    tens, ones = divmod(number, 10)
    return TENS[tens] + (f"-{ONES[ones]}" if ones else "")


def date_spellings(day: date) -> tuple[str, ...]:
    """The ways in which a date is written, the first of which is written back."""
    month, ordinal = MONTHS[day.month - 1], _ordinal(day.day)
    return (
        f"{ordinal} of {month} {day.year}",
        f"{day.day} {month} {day.year}",
        f"{month} {day.day}, {day.year}",
        f"{WEEKDAYS[day.weekday()]}, {month} {ordinal}, {day.year}",
        f"{day.day}.{day.month}.{day.year}",
        f"the {_ordinal_in_words(day.day)} of {month}, {_year_in_words(day.year)}",
    )


def _ordinal(day: int) -> str:
    ending = "th" if day in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{day}{ending}"


def _ordinal_in_words(day: int) -> str:
    tens, dash, last = _below_hundred(day).rpartition("-")
    regular = f"{last[:-1]}ieth" if last.endswith("y") else f"{last}th"
    return f"{tens}{dash}{ORDINALS.get(last, regular)}"


def _year_in_words(year: int) -> str:
    """As it is said: nineteen eighty-seven, nineteen oh five, seventeen hundred, two thousand and four."""
    century, rest = divmod(year, 100)
    if century % 10 == 0:
        return number_in_words(year)
    if rest == 0:
        return f"{_below_hundred(century)} hundred"
    return f"{_below_hundred(century)} {'oh ' if rest < 10 else ''}{_below_hundred(rest)}"
