"""Numbers as text: as many digits as their interval bears out, and never without it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeGuard

from attnlab.documents.nodes import Form, Number, Table

MOST_DECIMALS = 4
TIED = "\N{NO-BREAK SPACE}"
NOTHING = "–"
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def known(value: Any) -> TypeGuard[float]:
    """Whether this is a number at all; NaN and None both say that it is not known."""
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


def fixed(value: float, decimals: int, *, sign: bool = False) -> str:
    """1,234.50 with a true minus; what rounds to zero has no sign."""
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{abs(value):,.{decimals}f}"
    nothing = not any(digit in text for digit in "123456789")
    mark = "" if nothing else "−" if value < 0 else "+" if sign else ""
    return mark + text


def decimals(numbers: Iterable[Number]) -> int:
    """Decimals that a column needs: two digits of its narrowest interval, or four digits of its numbers; one
    of percentages that have no interval."""
    rows = [number for number in numbers if known(number.value) and math.isfinite(number.value)]
    halves = [(row.high - row.low) / 2 * _unit(row) for row in rows if known(row.low) and known(row.high)]
    halves = [half for half in halves if 0 < half < math.inf]
    if halves:
        wanted = 1 - math.floor(math.log10(min(halves)))
    elif any(row.form in ("percent", "points") for row in rows):
        wanted = 1
    else:
        largest = max((abs(row.value or 0) * _unit(row) for row in rows), default=0)
        wanted = 3 - math.floor(math.log10(largest)) if largest > 0 else 0
    return min(max(wanted, 0), MOST_DECIMALS)


def _unit(number: Number) -> float:
    return 100.0 if number.form in ("percent", "points") else 1.0


def column_decimals(table: Table) -> list[int | None]:
    """Those of every column; None where each number has its own, or there is none."""
    columns = map(table.column, range(len(table.heads)))
    return [decimals(numbers) if numbers else None for numbers in columns]


def duration(seconds: float, decimals: int = 1) -> str:
    """3.2 s, 3 min 09 s, 1 h 02 min."""
    if not math.isfinite(seconds):
        return "∞"
    sign, whole = "−" if seconds < 0 else "", round(abs(seconds))
    if whole < 60:
        return f"{fixed(seconds, min(decimals, 2))} s"
    hours, minutes = divmod(whole // 60, 60)
    return sign + (f"{hours} h {minutes:02} min" if hours else f"{minutes} min {whole % 60:02} s")


def scaled(value: float, _decimals: int = 0) -> str:
    """8.45 million, to three digits."""
    for size, word in ((1e15, "quadrillion"), (1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if math.isfinite(value) and abs(value) >= size:
            return f"{value / size:.3g} {word}"
    return fixed(value, 0)


def megabytes(value: float, _decimals: int = 0) -> str:
    return f"{fixed(value / 1e6, 0)} MB"


def chance(p: float, _decimals: int = 3) -> str:
    return "< 0.001" if p < 0.001 else fixed(p, 3)


FORMS: dict[str, Callable[[float, int], str]] = {
    "plain": fixed,
    "signed": lambda value, decimals: fixed(value, decimals, sign=True),
    "seconds": duration,
    "count": lambda value, _decimals: fixed(value, 0),
    "scaled": scaled,
    "bytes": megabytes,
    "percent": lambda value, decimals: f"{fixed(100 * value, decimals)}%",
    "points": lambda value, decimals: f"{fixed(100 * value, decimals, sign=True)} points",
    "chance": chance,
    "general": lambda value, _decimals: anything(value),
}


def value_text(number: Number, places: int | None = None) -> str:
    """The number itself, in these decimals or its own; a dash where it is not known."""
    if not known(number.value):
        return NOTHING
    if number.decimals is not None:
        places = number.decimals
    return FORMS[number.form](number.value, decimals([number]) if places is None else places)


def interval_text(low: float, high: float, decimals: int, form: Form = "plain") -> str:
    """5.841 to 5.865; points are named by the number before it."""
    if form == "points":
        low, high, form = 100 * low, 100 * high, "signed"
    ends = [FORMS[form](end, decimals).replace(" ", TIED) for end in (low, high)]
    long = any(TIED in end for end in ends)  # a line may end between them
    return (" to " if long else f"{TIED}to{TIED}").join(ends)


def beside(number: Number, places: int | None = None) -> list[str]:
    """What belongs to a number: its interval, or that there is none, and n."""
    if not known(number.value):
        return []
    if number.decimals is not None:
        places = number.decimals
    places = decimals([number]) if places is None else places
    text = []
    if known(number.low) and known(number.high):
        text.append(interval_text(number.low, number.high, places, number.form))
    elif number.without_interval:
        text.append(number.without_interval)
    return text + ([f"n{TIED}={TIED}{number.n:,}"] if number.n else [])


def crossed(number: Number) -> bool:
    """Whether an invalid number is marked with ✗: a stroke through it would hide its minus."""
    signed = number.form in ("signed", "points") or (known(number.value) and number.value < 0)
    return not number.sound and signed


def power(value: float) -> str:
    """A number of a logarithmic axis: 10³, or 2,048 where it is no power of ten."""
    exponent = math.log10(value) if value > 0 else math.nan
    if abs(exponent - round(exponent)) < 1e-9 and abs(exponent) >= 3:
        return f"10{str(round(exponent)).translate(RAISED)}"
    return short(float(value))


def short(value: float | None) -> str:
    """A bare number to three digits, whole and large ones in full: 0.0352, 12,346, 10⁻⁶."""
    if not known(value):
        return NOTHING if value is None else "not a number"
    if isinstance(value, int) or math.isinf(value) or 1000 <= abs(value) < 1e6:
        return fixed(value, 0)
    digits, _, power = f"{value:.3g}".replace("-", "−").partition("e")
    if not power:
        return digits
    raised = str(int(power.replace("−", "-"))).translate(RAISED)
    return f"10{raised}" if digits == "1" else f"{digits}×10{raised}"


def estimate_of(estimate: Mapping[str, Any] | None, **options: Any) -> Number:
    """A number of a results file: value, low, high and n; one without `low` is a single run's."""
    if not estimate or not known(estimate.get("value")):
        return Number(None, **options)
    low, high = (end if known(end := estimate.get(name)) else None for name in ("low", "high"))
    n = estimate.get("n")
    without = _unknown_interval(n) if "low" in estimate else ""
    return Number(estimate["value"], low, high, n, without_interval=without, **options)


def _unknown_interval(n: int | None) -> str:
    return "interval unknown (one seed)" if n == 1 else "interval unknown"


def spread(values: Sequence[Any], **options: Any) -> Number:
    """Mean, lowest and highest of the seeds: a description, not a confidence interval."""
    values = [value for value in values if known(value)]
    if not values:
        return Number(None, **options)
    low, high = (min(values), max(values)) if len(values) > 1 else (None, None)
    mean, n = math.fsum(values) / len(values), len(values)
    return Number(mean, low, high, n, without_interval=_unknown_interval(n), **options)


def anything(value: Any) -> str:
    """A value of a config or of a study's own table, as text."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return NOTHING
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return fixed(value, 0) if abs(value) >= 10_000 else fixed(value, 0).replace(",", "")
    if isinstance(value, float):
        whole = value.is_integer() and abs(value) < 1e15
        return fixed(value, 0) if whole else f"{value:.5g}".replace("-", "−")
    if isinstance(value, list | tuple):
        return ", ".join(map(anything, value))
    if isinstance(value, Mapping):
        options = ", ".join(f"{key} = {anything(part)}" for key, part in value.items() if key != "kind")
        return options if "kind" not in value else f"{value['kind']}({options})" if options else value["kind"]
    return str(value)
