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
from attnlab.metrics import METRICS
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


def name_of(run: IndexedRun) -> Markup:
    """Its name, which leads to its page, and how far it came."""
    link = element("a", element("bdi", run.address), href=page_of(run.address))
    return link + element("small", f"{run.step:,} steps", class_="beside")


def ranked_by(run: IndexedRun) -> dict[str, str]:
    """The measure of its score, and which side of it is better: unlike ones are not ranked in one list."""
    name = run.summary.metric
    if name not in run.summary.result.metrics:
        return {"data_measure": "training loss", "data_better": "lower"}
    better = METRICS[name].better if name in METRICS else "lower"
    return {"data_measure": title_of(name), "data_better": better}


def row_of(run: IndexedRun, span: Span, own: Ink | None = None) -> Markup:
    """The inside of a run's row on the list: each cell with what it is sorted by."""
    summary, result = run.summary, run.summary.result
    box = element(
        "input", type="checkbox", name="run", value=run.address, aria_label=f"Compare {run.address}"
    )
    bar = Markup(" ") + progress_bar(run.share) if run.grows else Markup("")
    score = result.metrics.get(summary.metric, run.loss)
    seconds, date = Number(result.seconds, form="seconds"), summary.date[:16].replace("T", " ")
    cells = [
        element("td", element("label", box), class_="picked"),  # as large as a finger, on a phone
        element("th", name_of(run), scope="row", data_value=run.address, data_study=run.study),
        element("td", inline(state_of(run)) + bar, class_="col-state", data_value=run.state.value),
        element("td", inline(sparkline(summary, span, own)), class_="col-curve"),
        element("td", inline(score_of(run)), class_="number col-score", data_value=score, **ranked_by(run)),
        element("td", inline(seconds), class_="number col-time", data_value=result.seconds),
        element("td", date or "–", class_="number col-when", data_value=summary.date),
    ]
    return Markup("").join(cells)
