"""Numbers as text: as many digits as their interval bears out, and never without it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

MOST_DECIMALS = 4
TIED = "\N{NO-BREAK SPACE}"


def known(value: Any) -> TypeGuard[float]:
    """Whether this is a number at all; NaN and None both say that it is not known."""
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


@dataclass(frozen=True)
class Figure:
    """One number of a table: its exact value, its text, and how sure it is."""

    value: float | None
    text: str
    interval: str = ""  # "[5.841, 5.865]", or why there is none
    n: int | None = None

    @property
    def beside(self) -> list[str]:
        """What stands beside the number: interval and n."""
        return list(filter(None, [self.interval, f"n{TIED}={TIED}{self.n}" if self.n else ""]))


NOTHING = Figure(None, "–")


def fixed(value: float, decimals: int, *, sign: bool = False) -> str:
    """1,234.50 with a true minus; what rounds to zero has no sign."""
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{abs(value):,.{decimals}f}"
    nothing = not any(digit in text for digit in "123456789")
    mark = "" if nothing else "−" if value < 0 else "+" if sign else ""
    return mark + text


def decimals(estimates: Iterable[Mapping[str, Any]]) -> int:
    """Decimals that a column needs: two digits of its narrowest interval, or four digits of its numbers."""
    rows = [e for e in estimates if known(e.get("value")) and math.isfinite(e["value"])]
    halves = [(e["high"] - e["low"]) / 2 for e in rows if known(e.get("low")) and known(e.get("high"))]
    halves = [half for half in halves if 0 < half < math.inf]
    if halves:
        wanted = 1 - math.floor(math.log10(min(halves)))
    else:
        largest = max((abs(e["value"]) for e in rows), default=0)
        wanted = 3 - math.floor(math.log10(largest)) if largest > 0 else 0
    return min(max(wanted, 0), MOST_DECIMALS)


def duration(seconds: float, decimals: int = 1) -> str:
    """3.2 s, 3:09, 1:02:09."""
    if not math.isfinite(seconds):
        return "∞"
    if abs(seconds) < 60:
        return f"{fixed(seconds, min(decimals, 2))} s"
    sign, whole = "−" if seconds < 0 else "", round(abs(seconds))
    hours, minutes = divmod(whole // 60, 60)
    return sign + (f"{hours}:{minutes:02}:" if hours else f"{minutes}:") + f"{whole % 60:02}"


def scaled(value: float, _decimals: int = 0) -> str:
    """8.45 million, to three digits."""
    for size, word in ((1e15, "quadrillion"), (1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if math.isfinite(value) and abs(value) >= size:
            return f"{value / size:.3g} {word}"
    return fixed(value, 0)


def megabytes(value: float, _decimals: int = 0) -> str:
    return f"{fixed(value / 1e6, 0)} MB"


FORMS: dict[str, Callable[[float, int], str]] = {
    "plain": fixed,
    "signed": lambda value, decimals: fixed(value, decimals, sign=True),
    "seconds": duration,
    "count": lambda value, _decimals: fixed(value, 0),
    "scaled": scaled,
    "bytes": megabytes,
}


def exact(value: Any, form: str = "plain") -> Figure:
    """A number that was counted, not estimated."""
    if not known(value):
        return NOTHING
    return Figure(value, FORMS[form](value, decimals([{"value": value}])))


def estimated(estimate: Mapping[str, Any] | None, places: int, form: str = "plain") -> Figure:
    """A number with its interval and n; with one seed, that the interval is unknown.

    One without `low` is a single run's, for tables that say so.
    """
    if not estimate or not known(estimate.get("value")):
        return NOTHING
    text, n = FORMS[form], estimate.get("n")
    if "low" not in estimate:
        interval = ""  # one run by itself, as its table says
    elif known(estimate.get("low")) and known(estimate.get("high")):
        interval = f"[{text(estimate['low'], places)},{TIED}{text(estimate['high'], places)}]"
    else:
        interval = "interval unknown (one seed)" if n == 1 else "interval unknown"
    return Figure(estimate["value"], text(estimate["value"], places), interval, n)


def column(estimates: Sequence[Mapping[str, Any] | None], form: str = "plain") -> list[Figure]:
    """The numbers of one column, with the same decimals all the way down."""
    places = decimals([e for e in estimates if e])
    return [estimated(estimate, places, form) for estimate in estimates]


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


def anything(value: Any) -> str:
    """A value of a config or of a study's own table, as text."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return fixed(value, 0) if abs(value) >= 10_000 else fixed(value, 0).replace(",", "")
    if isinstance(value, float):
        return (
            fixed(value, 0) if value.is_integer() and abs(value) < 1e15 else f"{value:.5g}".replace("-", "−")
        )
    if isinstance(value, list | tuple):
        return ", ".join(map(anything, value))
    if isinstance(value, Mapping):
        options = ", ".join(f"{key} = {anything(part)}" for key, part in value.items() if key != "kind")
        return options if "kind" not in value else f"{value['kind']}({options})" if options else value["kind"]
    return str(value)
