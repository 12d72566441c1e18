"""The report's numbers as text, with what stands beside each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attnlab.documents.nodes import Form
from attnlab.documents.numbers import NOTHING, beside, decimals, estimate_of, known, value_text


@dataclass(frozen=True)
class FigureText:
    """One number of a table: its exact value, its text, and its interval and n."""

    value: float | None
    text: str
    beside: Sequence[str] = ()
    n: int | None = None


def exact(value: Any, form: Form = "plain") -> FigureText:
    """A number that was counted, not estimated."""
    return column([{"value": value}], form)[0]


def column(estimates: Iterable[Mapping[str, Any] | None], form: Form = "plain") -> list[FigureText]:
    """The numbers of one column, with the same decimals all the way down."""
    numbers = [estimate_of(estimate, form=form) for estimate in estimates]
    places = decimals(numbers)
    return [
        FigureText(number.value, value_text(number, places), beside(number, places), number.n)
        if known(number.value)
        else FigureText(None, NOTHING)
        for number in numbers
    ]


def spread(values: Sequence[Any]) -> dict[str, Any]:
    """Mean, lowest and highest of the seeds: a description, not a confidence interval."""
    values = [value for value in values if known(value)]
    if not values:
        return {}
    several = len(values) > 1
    return {
        "value": math.fsum(values) / len(values),
        "low": min(values) if several else None,
        "high": max(values) if several else None,
        "n": len(values),
    }
