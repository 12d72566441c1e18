"""Numbers, lists and counts in a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


class Signed(float):
    """A number that is written with a true minus, whatever sentence it is put in."""

    def __format__(self, form: str) -> str:
        text = super().__format__(form)
        return f"−{text[1:]}" if text.startswith("-") else text


def with_true_minus(values: Any) -> Any:
    """The values of a sentence, their numbers written as a page writes them."""
    if isinstance(values, float):
        return Signed(values)
    if isinstance(values, Mapping):
        return {name: with_true_minus(value) for name, value in values.items()}
    return [with_true_minus(value) for value in values] if isinstance(values, (list, tuple)) else values


def in_words(items: Iterable[object]) -> str:
    """A list as a sentence has it: "a, b and c"; "none" where it is empty."""
    *first, last = [str(item) for item in items] or ["none"]
    return f"{', '.join(first)} and {last}" if first else last


def first_few(names: Iterable[str], most: int = 3) -> str:
    """The first names, and how many more there are: "a, b, c and 4 more"."""
    listed = list(names)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more if listed else "nothing"


def count_of(count: int, noun: str) -> str:
    """3 seeds, 1 seed."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def listing(values: Mapping[str, object]) -> str:
    """Names and values, where there is no sentence for them: "n 3, share 0.5"."""
    return ", ".join(f"{name} {value}" for name, value in values.items())


def percent(share: float) -> str:
    """A share to two digits, such as 88% or 0.34%; 100% means all, and 0% none."""
    if share in (0, 1):
        return f"{100 * share:.0f}%"
    return f"{100 * share:.2g}%" if share < 0.985 else f"{min(100 * share, 99.9):.1f}%"


def sentence(text: str) -> str:
    """With a capital letter, unless it begins with a formula, and a full stop."""
    text = text.strip()
    word = text[1:2].isalpha() or text[1:2].isspace()
    return (
        (text[:1].upper() if word else text[:1]) + text[1:] + ("" if not text or text[-1] in ".!?…" else ".")
    )


def first_upper(text: str) -> str:
    """With a capital letter; the others stay as they are, so that BLEU is not Bleu."""
    return text[:1].upper() + text[1:]


def phrase(text: str) -> str:
    """Within a sentence: without its capital and full stop."""
    return text[:1].lower() + text[1:].rstrip(".")


def range_of(least: int, most: int) -> str:
    """From the least to the most: "7 to 9", or "6" where they are one."""
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"
