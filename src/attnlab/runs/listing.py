"""Runs in rows: what became of each, how it went, what it came to; the same in a terminal and on a page."""

from __future__ import annotations

from collections.abc import Sequence

from attnlab.documents.nodes import Below, Inline, Number, Sparkline, state
from attnlab.documents.numbers import short
from attnlab.documents.palette import Ink
from attnlab.metrics.measures import form_of, title_of
from attnlab.runs.summary import RunSummary


def cells(summary: RunSummary, span: tuple[float, float] | None) -> tuple[Inline, ...]:
    """A run in a row: its name, what became of it, how it went, what it came to and how long it took."""
    run, date = summary.result, summary.date[:16].replace("T", " ")
    invalid = run.status == "finished" and run.sound is False
    why = ("stopped by " if run.failures and run.sound is None else "") + ", ".join(run.failures)
    became = state("invalid" if invalid else run.status), (Below(why) if why else "")
    about = Below(f"{run.steps:,} steps" + (f", {date}" if date else ""))
    score = metric_number(summary.metric, run.metrics.get(summary.metric), sound=not invalid)
    named = score, Below(title_of(summary.metric))
    return (run.folder, about), became, sparkline(summary, span), named, Number(run.seconds, form="seconds")


def sparkline(summary: RunSummary, span: tuple[float, float] | None, own_ink: Ink | None = None) -> Inline:
    curve, broken = summary.curve, summary.result.status in ("failed", "damaged")
    if len(curve.values) < 2:
        return "✗" if broken else "–"
    ends = " to ".join(short(value) for value in (curve.values[0], curve.values[-1]))
    said = f"{curve.name} {ends} in {summary.result.steps:,} steps"
    return Sparkline(curve.shares, curve.values, said, span, broken, own_ink)


def comparable(summary: RunSummary) -> tuple[str, str]:
    """What runs share whose curves are drawn on one scale: the metric, and what it was measured on."""
    return summary.curve.name, str(summary.result.fingerprints.get("data"))


def value_spans(summaries: Sequence[RunSummary]) -> dict[tuple[str, str], tuple[float, float]]:
    """The lowest and highest value of each group of comparable curves."""
    values: dict[tuple[str, str], list[float]] = {}
    for summary in summaries:
        values.setdefault(comparable(summary), []).extend(summary.curve.values)
    return {group: (min(own), max(own)) for group, own in values.items() if own}


def metric_number(name: str, value: float | None, *, sound: bool = True) -> Number:
    """A score as its kind is written: a share in percent, a loss to four decimals, a count whole."""
    if name.endswith("seconds"):
        return Number(value, form="seconds", sound=sound)
    if form_of(name) == "percent":
        return Number(value, form="percent", decimals=1, sound=sound)
    small = isinstance(value, float) and abs(value) < 100
    return Number(value, decimals=4 if small else 0, sound=sound)
