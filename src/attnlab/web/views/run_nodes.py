"""What a run's page and its file show, as nodes of a document."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from attnlab.config.setting_cards import overview
from attnlab.config.wording import count_of, first_few
from attnlab.documents.nodes import (
    Bar,
    Definitions,
    Details,
    Inline,
    Items,
    Node,
    Notice,
    Number,
    Reference,
    Sentence,
    Table,
    TableColumn,
    listed,
    state,
    strong,
)
from attnlab.documents.numbers import duration, value_text
from attnlab.metrics.measures import title_of
from attnlab.runs.checkpoints import Checkpoints
from attnlab.runs.findings import Findings, Naming, collapse_sentence, shortfall_sentence
from attnlab.runs.listing import metric_number
from attnlab.runs.metrics_file import METRICS_FILE, last_events
from attnlab.runs.result import RunState
from attnlab.web.course import RunCourse
from attnlab.web.indexed import IndexedRun
from attnlab.web.views.rows import score_of, state_of
from attnlab.web.views.run_record import record_of

STEPS_SHOWN = 4
"""Of samples.txt, the latest first; the others are folded."""
SAMPLES = 1 << 18
"""Bytes at the end of samples.txt that are read."""


# ---------------------------------------------------------------- the answer
def headline(run: IndexedRun) -> str:
    """What it came to, or how far it is."""
    result, metric = run.summary.result, run.summary.metric
    value = result.metrics.get(metric)
    score = f"{title_of(metric)} {value_text(metric_number(metric, value))}" if value is not None else ""
    at = f"after {count_of(run.step, 'step')}"
    match run.state:
        case RunState.RUNNING | RunState.PREPARING:
            share = f"{100 * run.share:.0f}% of its budget, {count_of(run.step, 'step')}"
            return f"Running: {share}" if run.step else "Preparing: reading text, making checks"
        case RunState.INVALID:
            return f"Invalid: failed {first_few(result.failures, 3)}"
        case RunState.FINISHED:
            return f"{score[:1].upper()}{score[1:]} {at}" if score else f"Finished {at}"
        case RunState.INTERRUPTED:
            return f"Interrupted {at}{f', {score}' if score else ''}"
        case RunState.CONVERTED:
            return "An imported model"
        case _:
            return (
                f"{run.state.value.capitalize()} {at}" if run.summary.config else "Damaged: it cannot be read"
            )


def notices(run: IndexedRun) -> list[Node]:
    """What has to be known before any number is believed."""
    result = run.summary.result
    shown: list[Node] = []
    if run.state is RunState.INVALID:
        failed = listed(result.failures)
        shown.append(
            Notice((strong("✗ Invalid."), " Failed ", failed, ": its numbers cannot be trusted."), "invalid")
        )
    if advice := collapse_sentence(result.checks) or shortfall_sentence(result.checks):
        shown.append(Notice(advice, "quick"))
    if result.reason and run.state in (RunState.FAILED, RunState.DAMAGED):
        shown.append(Notice((strong(f"✗ {run.state.value.capitalize()}."), f" {result.reason}"), "invalid"))
    if not run.summary.whole and result.metrics and not run.grows and run.state is not RunState.INTERRUPTED:
        shown.append(Notice("Its scores are of a part of dev (training.evaluate_batches), not of all of it."))
    return shown


def live_parts(run: IndexedRun, course: RunCourse, named: Naming = str) -> dict[str, list[Node]]:
    """What changes while a run goes on; `named` makes of a check's name what is shown for it."""
    return {
        "notices": notices(run),
        "summary": [facts(run, course)],
        "checks": checks(run, named),
        "samples": samples(run.folder),
        "checkpoints": checkpoints(run),
        "warnings": [Items([*course.warnings])] if course.warnings else [Sentence("Nothing warned.", "fine")],
    }


def facts(run: IndexedRun, course: RunCourse) -> Definitions:
    """How far it is, and what it costs."""
    result, record = run.summary.result, record_of(run.folder)
    noticed = run.state in (RunState.INVALID, RunState.FAILED, RunState.DAMAGED)  # a notice says why
    became = state(run.state) if noticed else state_of(run)
    items: list[tuple[Inline, Inline]] = [("state", became), ("score", score_of(run))]
    if run.grows:
        items.append(("progress", (Bar(run.share), f" {100 * run.share:.0f}%")))
        items.append(("time left", duration(run.seconds_left, 0) if run.seconds_left is not None else "–"))
    items.append(("trained", Number(result.seconds or course.place[-1], form="seconds")))
    speed = run.tokens_per_second or _last(course, "tokens/s")
    items.append(("tokens/s", Number(speed, form="count") if speed else "–"))
    for name, value in (("parameters", record.get("parameters")), ("tokens", course.place[1])):
        items.append((name, Number(value, form="count") if value else "–"))
    items.append(("FLOPs", Number(course.place[2] or None, form="scaled")))
    items.append(("seed", str(result.seed)))
    if course.ends and run.grows:
        items.append(("budget", course.ends))
    return Definitions(items, "facts")


def _last(course: RunCourse, name: str) -> float | None:
    series = course.series.get(name)
    return series.values[-1] if series is not None and series.at else None


# ---------------------------------------------------------------- is it real?
def checks(run: IndexedRun, named: Naming = str) -> list[Node]:
    findings = Findings(run.summary.result.checks)
    if not findings:
        return [Sentence("No check was made yet.", "fine")]
    whole = Details("Every finding", findings.nodes(whole=True, named=named))
    return [Sentence(strong(f"{findings.verdict}.")), *findings.nodes(named=named), whole]


def card_of_check(name: str) -> Inline:
    """A check's name, which leads to its card where it has one; a run may have checks of its own."""
    return Reference(name, f"/parts/checks/{name}") if name in overview()["checks"] else name


# ---------------------------------------------------------------- what it wrote and kept
def samples(folder: Path) -> list[Node]:
    """What it wrote at each evaluation, the latest first."""
    steps = sample_steps(folder / "samples.txt")
    if not steps:
        return [Sentence("It has written no text: not yet, or because its task writes none.", "fine")]

    def shown(part: Sequence[tuple[str, list[str]]]) -> list[Node]:
        return [
            node
            for step, texts in part
            for node in (Sentence(strong(step)), Items(texts, "samples", ordered=True))
        ]

    latest, earlier = steps[:STEPS_SHOWN], steps[STEPS_SHOWN:]
    more: list[Node] = [Details(f"Earlier steps ({len(earlier)})", shown(earlier))] if earlier else []
    return [*shown(latest), *more]


def sample_steps(file: Path) -> list[tuple[str, list[str]]]:
    """The texts of each step, the latest first."""
    try:
        with file.open("rb") as stream:
            size = file.stat().st_size
            stream.seek(max(0, size - SAMPLES))
            text = stream.read().decode(errors="replace")
    except OSError:
        return []
    steps: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("step "):
            steps.append((line, []))
        elif steps and line.strip():
            number, _, words = line.partition(". ")
            steps[-1][1].append(words if number.isdecimal() else line)
    return steps[::-1]


def checkpoints(run: IndexedRun) -> list[Node]:
    """The steps that are kept, and which of them is opened."""
    steps = Checkpoints.of(run.folder).steps()
    if not steps:
        return [Sentence("No checkpoint was written yet.", "fine")]
    best = record_of(run.folder).get("best") or {}
    scores = _scores_by_step(run)
    rows: list[tuple[Inline, ...]] = []
    for step in reversed(steps):
        role = "opened by default: chosen on dev" if step == best.get("step") else ""
        role = role or ("the last" if step == steps[-1] else "")
        value = scores.get(step)
        rows.append((f"step {step:,}", metric_number(run.summary.metric, value), role))
    columns = ("checkpoint", TableColumn(title_of(run.summary.metric), right=True), "")
    return [Table(columns, rows)]


def _scores_by_step(run: IndexedRun) -> dict[int, float]:

    events = [
        event for event in last_events(run.folder / METRICS_FILE, 1 << 20) if event["event"] == "evaluated"
    ]
    metric = run.summary.metric
    return {
        event["step"]: {"loss": event["loss"], **event["scores"]}.get(metric, event["loss"])
        for event in events
    }
