"""What a run's page and its file show, as nodes of a document."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attnlab.config.files import to_json
from attnlab.config.schema import Config
from attnlab.config.values import ConfigError
from attnlab.config.wording import count_of, first_few
from attnlab.documents.nodes import (
    Axis,
    Bar,
    Code,
    Control,
    Definitions,
    Details,
    Figure,
    Inline,
    Items,
    Level,
    Line,
    Lines,
    Name,
    Node,
    Notice,
    Number,
    Sentence,
    Table,
    TableColumn,
    listed,
    strong,
)
from attnlab.documents.numbers import duration, value_text
from attnlab.documents.palette import ink
from attnlab.metrics import METRICS
from attnlab.metrics.measures import form_of, title_of
from attnlab.runs.checkpoints import Checkpoints
from attnlab.runs.faults import FAULTS, RunError, read_object
from attnlab.runs.findings import Findings, collapse_sentence, shortfall_sentence
from attnlab.runs.listing import metric_number
from attnlab.runs.metrics_file import METRICS_FILE, last_events
from attnlab.runs.record import RECORD, RunRecord
from attnlab.runs.result import RunState
from attnlab.runs.summary import read_baselines
from attnlab.web.course import GrowingCourse
from attnlab.web.index import IndexedRun
from attnlab.web.views.rows import score_of, state_of

STEPS_SHOWN = 4
"""Of samples.txt, the latest first; the others are folded."""
SAMPLES = 1 << 18
"""Bytes at the end of samples.txt that are read."""
AXES = {"step": "step", "tokens": "tokens", "flops": "FLOPs", "seconds": "seconds"}
SPLITS = {"training": ink(0), "dev": ink(1)}
"""The colours of a run's own curves."""
COST = ("learning rate", "gradient norm", "tokens/s")


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
    if told := collapse_sentence(result.checks) or shortfall_sentence(result.checks):
        shown.append(Notice(told, "quick"))
    if result.reason and run.state in (RunState.FAILED, RunState.DAMAGED):
        shown.append(Notice((strong("✗ Failed."), f" {result.reason}"), "invalid"))
    if not run.summary.whole and result.metrics and not run.grows and run.state is not RunState.INTERRUPTED:
        shown.append(Notice("Its scores are of a part of dev (training.evaluate_batches), not of all of it."))
    return shown


def live_parts(run: IndexedRun, course: GrowingCourse) -> dict[str, list[Node]]:
    return {
        "notices": notices(run),
        "summary": [facts(run, course)],
        "checks": checks(run),
        "samples": samples(run.folder),
        "checkpoints": checkpoints(run),
        "warnings": [Items(course.warnings)] if course.warnings else [Sentence("Nothing warned.", "fine")],
    }


def facts(run: IndexedRun, course: GrowingCourse) -> Definitions:
    """How far it is, and what it costs."""
    result, record = run.summary.result, record_of(run.folder)
    items: list[tuple[Inline, Inline]] = [("state", state_of(run)), ("score", score_of(run))]
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
        items.append(("ends", course.ends))
    return Definitions(items, "facts")


def _last(course: GrowingCourse, name: str) -> float | None:
    series = course.series.get(name)
    return series.values[-1] if series is not None and series.at else None


# ---------------------------------------------------------------- curves
def curves(run: IndexedRun, course: GrowingCourse) -> list[Node]:
    """Losses and scores, and what training cost, over steps, tokens, FLOPs or seconds."""
    if not course.series:
        return [Sentence("No step was taken yet.", "fine")]
    losses = [name for name in ("train loss", "dev loss") if name in course.series]
    scores = [name for name in course.series if name.removeprefix("dev ") in METRICS and name != "dev loss"]
    quantities = {"loss": losses} | {title_of(name.removeprefix("dev ")): [name] for name in scores}
    quantities |= {name: [name] for name in COST if name in course.series}
    levels = [
        Level(one["name"], one["value"])
        for one in baselines_of(run.folder)
        if one["metric"] == run.summary.metric
    ]
    return [_figure("course", {name: own for name, own in quantities.items() if own}, course, levels, run)]


def baselines_of(folder: Path) -> Sequence[Any]:
    try:
        return read_baselines(folder)
    except (RunError, ConfigError, *FAULTS):
        return ()


def _figure(
    anchor: str,
    quantities: Mapping[str, Sequence[str]],
    course: GrowingCourse,
    levels: Sequence[Level],
    run: IndexedRun,
) -> Figure:
    views = {}
    for place, (title, names) in enumerate(quantities.items() or [("loss", ())]):
        for number, (axis, called) in enumerate(AXES.items()):
            lines = [
                Line(whose, own.places(axis), own.values, ink=SPLITS[whose], label=name)
                for name in names
                for whose, own in [(split_of(name), course.series[name])]
            ]
            known = levels if title_of(run.summary.metric) == title else ()
            percent = any(form_of(name.removeprefix("dev ")) == "percent" for name in names)
            up = Axis(title, form="percent" if percent else "plain")
            views[f"{place},{number}"] = [Lines(lines, Axis(called), up, levels=known)]
    return Figure(
        views,
        anchor=anchor,
        alt="The course of the run",
        controls=[Control("Show", list(quantities) or ["loss"]), Control("over", list(AXES.values()))],
        legend=[
            (Name(whose, own), whose)
            for whose, own in SPLITS.items()
            if whose in {split_of(name) for name in course.series}
        ],
    )


def split_of(series: str) -> str:
    """Whose values a curve shows: of training, or of dev."""
    return "dev" if series.startswith("dev ") else "training"


# ---------------------------------------------------------------- is it real?
def checks(run: IndexedRun) -> list[Node]:
    findings = Findings(run.summary.result.checks)
    if not findings:
        return [Sentence("No check was made yet.", "fine")]
    whole = Details("Every finding", findings.nodes(whole=True))
    return [Sentence(strong(f"{findings.verdict}.")), *findings.nodes(), whole]


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
        told = "opened by default: chosen on dev" if step == best.get("step") else ""
        told = told or ("the last" if step == steps[-1] else "")
        value = scores.get(step)
        rows.append((f"step {step:,}", metric_number(run.summary.metric, value), told))
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


# ---------------------------------------------------------------- what it is
def still_parts(run: IndexedRun) -> dict[str, list[Node]]:
    """What does not change while it runs."""
    return {
        "What differs from the defaults": config_nodes(run),
        "Data": data_nodes(run),
        "Record": record_nodes(run),
    }


def config_nodes(run: IndexedRun) -> list[Node]:
    """The settings that are not at their defaults, and all of them on request."""
    usual, own = dict(_settings(to_json(Config()))), dict(_settings(run.summary.config))
    changed = [key for key, value in own.items() if not _same(value, usual.get(key))]
    rows = [(Code(key), Code(_plain(own[key])), Code(_plain(usual.get(key, "–")))) for key in changed]
    columns = (TableColumn("setting", whole=True), "here", "default")
    nothing = Sentence("Nothing: every setting is at its default.")
    return [Table(columns, rows) if rows else nothing, _whole_config(run)]


def _settings(settings: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Each setting by its dotted name; a choice with its options is one."""
    for name, value in settings.items():
        key = f"{above}.{name}" if above else str(name)
        if isinstance(value, Mapping) and "kind" not in value:
            yield from _settings(value, key)
        else:
            yield key, value


def _same(value: Any, usual: Any) -> bool:
    """Whether a setting is at its default; a default choice may leave options out."""
    if isinstance(value, Mapping) and isinstance(usual, Mapping):
        return all(value.get(name) == own for name, own in usual.items())
    return bool(value == usual)


def _whole_config(run: IndexedRun) -> Node:
    rows = [(Code(key), Code(_plain(value))) for key, value in _settings(run.summary.config)]
    return Details(
        "All settings", [Table((TableColumn("setting", whole=True), "value"), rows)], only_pages=True
    )


def _plain(value: Any) -> str:
    if isinstance(value, Mapping) and "kind" in value:
        options = ", ".join(f"{name}={_plain(own)}" for name, own in value.items() if name != "kind")
        return f"{value['kind']}({options})" if options else str(value["kind"])
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def data_nodes(run: IndexedRun) -> list[Node]:
    """Which text, how it was cut, and by which fingerprints it is known."""
    record = record_of(run.folder)
    rows: list[tuple[Inline, ...]] = []
    for split, cut in (record.get("truncation") or {}).items():
        shares = [
            Number(cut.get(name), form="percent", decimals=2)
            for name in ("texts_cut_share", "tokens_cut_share")
        ]
        rows.append(
            (split, Number(cut.get("texts"), form="count"), Number(cut.get("tokens"), form="count"), *shares)
        )
    columns = [TableColumn("split"), *(TableColumn(name, right=True) for name in CUTS)]
    given = record.get("data") or {}
    prints: list[tuple[Inline, Inline]] = [
        (f"fingerprint of {split}", Code(str(value))) for split, value in given.items()
    ]
    prints += [
        ("tokenizer", Code(str(record.get("tokenizer", "–")))),
        ("start", str(record.get("start", "scratch"))),
    ]
    corpus = _plain(run.summary.config.get("data", {}).get("corpus", "–"))
    shown: list[Node] = [Definitions([("corpus", Code(corpus)), *prints], "config")]
    return [Table(columns, rows, title="What was cut off"), *shown] if rows else shown


CUTS = ("texts", "tokens", "texts cut", "tokens cut")


def record_nodes(run: IndexedRun) -> list[Node]:
    record = record_of(run.folder)
    versions = [(name, str(value)) for name, value in (record.get("versions") or {}).items()]
    again = shlex.join(["attnlab", "train", "--from", str(run.folder)])
    return [
        Sentence("The same again, in a new folder:"),
        Code(again),
        Definitions([("identity", Code(str(record.get("identity", "–")))), *versions], "config"),
    ]


def record_of(folder: Path) -> Mapping[str, Any]:
    """run.json as it is; empty where it cannot be read, which the run's state says."""
    try:
        return read_object(folder / RECORD, RunRecord)
    except (RunError, ConfigError, OSError):
        return {}
