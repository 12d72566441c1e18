"""A run as a row of a list, and its state wherever it is shown."""

from __future__ import annotations

import time
from urllib.parse import quote

from markupsafe import Markup

from attnlab.documents.html import inline
from attnlab.documents.markup import element
from attnlab.documents.nodes import Below, Inline, Number, Tone, state, toned
from attnlab.documents.numbers import duration
from attnlab.documents.palette import Ink
from attnlab.metrics.measures import title_of
from attnlab.runs.listing import metric_number, sparkline
from attnlab.runs.result import RunState
from attnlab.web.indexed import NEWS, IndexedRun

Span = tuple[float, float] | None


def page_of(address: str, kind: str = "runs") -> str:
    return f"/{kind}/{quote(address)}"


def progress_bar(share: float) -> Markup:
    """How much of the budget is used up."""
    width = 100 * min(1.0, max(0.0, share))
    done = {
        "role": "progressbar",
        "aria_valuenow": round(width),
        "aria_valuemin": "0",
        "aria_valuemax": "100",
    }
    return element(
        "span",
        element("i", style=f"width: {width:.1f}%"),
        class_="progress",
        aria_label="of the budget",
        **done,
    )


def because(run: IndexedRun) -> Inline:
    """Why a run is in its state, or how long it still takes."""
    result = run.summary.result
    if run.state is RunState.INTERRUPTED and result.status is not RunState.INTERRUPTED:
        return f"no news from {run.elsewhere}" if run.elsewhere else "its process is gone; resume it"
    if run.grows:
        silent = time.time() - run.heard
        if silent > NEWS and run.step:
            return toned(Tone.WARNING, f"last heard {duration(silent, 0)} ago")
        if run.share >= 1:
            return "last checks"
        return f"{duration(run.seconds_left, 0)} left" if run.seconds_left is not None else ""
    if result.failures:
        return ("stopped by " if result.sound is None else "") + ", ".join(result.failures)
    return str(result.reason or "")


def state_of(run: IndexedRun) -> Inline:
    """Its state with why, or with the time that is left."""
    why = because(run)
    return (state(run.state), (Below(why) if why else ""))


def score_of(run: IndexedRun) -> Inline:
    """By which its best checkpoint is chosen; of one that was not scored yet, the loss of its last step."""
    summary = run.summary
    value = summary.result.metrics.get(summary.metric)
    if value is None and run.loss is not None:
        return (metric_number("loss", run.loss), Below("training loss"))
    sound = run.state is not RunState.INVALID
    return (metric_number(summary.metric, value, sound=sound), Below(title_of(summary.metric)))


def name_of(run: IndexedRun, shown: str = "") -> Markup:
    """Its name, which leads to its page, and how far it came."""
    date = run.summary.date[:16].replace("T", " ")
    about = f"{run.step:,} steps" + (f", {date}" if date else "")
    link = element("a", element("bdi", shown or run.address), href=page_of(run.address))
    return link + element("small", about, class_="beside")


def cells_of(run: IndexedRun, span: Span, own: Ink | None) -> list[tuple[str, Markup, str | float]]:
    """The cells of a row: class, content, and what it is sorted by."""
    summary, result = run.summary, run.summary.result
    bar = Markup(" ") + progress_bar(run.share) if run.grows else Markup("")
    value = result.metrics.get(summary.metric, run.loss)
    seconds = inline(Number(result.seconds, form="seconds"))
    return [
        ("col-state", inline(state_of(run)) + bar, run.state.value),
        ("col-curve", inline(sparkline(summary, span, own)), ""),
        ("number col-score", inline(score_of(run)), "" if value is None else value),
        ("number col-time", seconds, result.seconds),
    ]


def row_of(run: IndexedRun, span: Span, own: Ink | None = None) -> Markup:
    """The inside of a run's row on the list; its curve in the ink of its arm."""
    label = f"Compare {run.address}"
    box = element("input", type="checkbox", name="run", value=run.address, aria_label=label)
    head = element("th", name_of(run), scope="row", data_value=run.address, data_study=run.study)
    rest = [
        element("td", content, class_=look, data_value=value)
        for look, content, value in cells_of(run, span, own)
    ]
    when = element("td", run.heard, hidden=True, class_="col-when", data_value=run.heard)
    return Markup("").join([element("td", box, class_="picked"), head, *rest, when])
