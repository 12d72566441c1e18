"""The record: learning rates, every run, every config, and how to get the same again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attnlab.config.wording import count_of, first_upper
from attnlab.documents.nodes import (
    Below,
    CardItem,
    Cards,
    Code,
    Definitions,
    Details,
    Inline,
    Node,
    Sentence,
    Sign,
    Table,
    TableColumn,
    TableRow,
    muted,
    strong,
)
from attnlab.documents.numbers import anything, estimate_of
from attnlab.runs.result import RunResult, RunState
from attnlab.studies.outcome import TunedRate
from attnlab.studies.report.metric_display import DisplayedMetric, metric
from attnlab.studies.report.study_results import Arm, StudyResults

COSTS = ("steps", "tokens", "seconds", "tokens_per_second")
TITLES = {"machine": "Machine", "versions": "Versions", "fingerprints": "Fingerprints"}


def tuning(study: StudyResults) -> list[Node]:
    """The grid of learning rates, tuned with equal effort for every arm."""
    tried = study.facts.tuning
    if not tried:
        return []
    rates = sorted({row.learning_rate for row in tried})
    by_rate = {(row.arm, row.learning_rate): row for row in tried}
    arms = [arm for arm in study.arms if any(row.arm == arm.name for row in tried)]
    title = first_upper(metric(study, tried[0].metric).title)
    caption = (
        f"{title} at each learning rate, the same rates for every arm, one run each (interval unknown); ● "
        "was chosen."
    )
    rows = [(arm.shown, *(_tried(arm, by_rate.get((arm.name, rate))) for rate in rates)) for arm in arms]
    return [Table(["arm", *(TableColumn(f"{rate:g}", right=True) for rate in rates)], rows, caption=caption)]


def _tried(arm: Arm, row: TunedRate | None) -> Inline:
    if row is None:
        return None
    number = estimate_of({"value": row.value}, sound=arm.sound)
    return (Sign("●", "chosen"), " ", strong(number)) if row.chosen else number


def runs(study: StudyResults) -> list[Node]:
    """Every run by itself."""
    rows = list(study.runs())
    if not rows:
        return []
    names = dict.fromkeys(name for _, run in rows for name in run.metrics)
    metrics = [metric(study, name) for name in [*names, "seconds", "tokens_per_second"]]
    metrics = [m for m in metrics if any(_value(run, m) is not None for _, run in rows)]
    columns = [
        *(TableColumn("arm"), TableColumn("seed", right=True), TableColumn("status")),
        *(TableColumn(name, right=True) for name in ("steps", "tokens")),
        *(TableColumn(m.title, m.definition, right=True) for m in metrics),
        TableColumn("folder"),
    ]
    table = Table(
        columns,
        [_run(arm, run, metrics) for arm, run in rows],
        caption="Single runs (n = 1, so without interval); the same to the last digit is in runs.csv.",
        look="wide dense",
    )
    return [Details(f"{count_of(len(rows), 'run')}, one row each", [table], only_pages=True)]


def _run(arm: Arm, run: RunResult, metrics: list[DisplayedMetric]) -> TableRow:
    sound = arm.sound and run.status is not RunState.INVALID
    counts = (estimate_of({"value": _cost(run, name)}, form="count") for name in ("steps", "tokens"))
    numbers = (estimate_of({"value": _value(run, m)}, form=m.form, sound=sound) for m in metrics)
    status = (run.status.value, Below(str(run.reason))) if run.reason else run.status.value
    folder = Code(run.folder) if run.folder else ""
    return TableRow((arm.shown, str(run.seed), status, *counts, *numbers, folder), sound=sound)


def _value(run: RunResult, measure: DisplayedMetric) -> float | None:
    return run.metrics.get(measure.name, _cost(run, measure.name))


def _cost(run: RunResult, name: str) -> float | None:
    """What the run took; a nought of a run without a result means that nobody knows."""
    took: float = getattr(run, name) if name in COSTS else 0
    return took if took or (run.trained and name in COSTS) else None


def configs(study: StudyResults) -> list[Node]:
    """The exact config of the base, and what differs between the arms."""
    all_configs = study.outcome.configs
    if not all_configs:
        return []
    base = all_configs.get("base") or {}
    changed = {arm.name: arm.outcome.changes for arm in study.arms}
    keys = sorted({key for changes in changed.values() for key in changes})
    differing = Table(
        ["field", *(TableColumn(arm.shown) for arm in study.arms)],
        [(Code(key), *(_setting(changed[arm.name], base, key) for arm in study.arms)) for key in keys],
        caption="All that differs between the arms; muted values are the base's.",
        look="wide",
    )
    whole = [_whole(name, list(flat(config))) for name, config in all_configs.items()]
    return [*([differing] if keys else []), *whole]


def _whole(name: str, fields: list[tuple[str, Any]]) -> Details:
    rows = [(Code(key), Code(anything(value))) for key, value in fields]
    return Details(f"Config {name}: {len(rows)} fields", [Definitions(rows, "config")])


def flat(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Fields by their dotted names, as --set takes them."""
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _setting(changes: Mapping[str, Any], base: Mapping[str, Any], key: str) -> Inline:
    """The arm's own value, or the base's."""
    return anything(changes[key]) if key in changes else muted(anything(_at(base, key)))


def _at(config: Any, key: str) -> Any:
    """The value at a dotted name."""
    for name in key.split("."):
        config = config.get(name) if isinstance(config, Mapping) else None
    return config


def origin(study: StudyResults) -> list[Node]:
    """Where the numbers come from, and how to get them again."""
    again, date = study.outcome.again, study.outcome.date
    columns = [CardItem("Date", [Sentence(date)])] if date else []
    for part, title in TITLES.items():
        facts = getattr(study.outcome, part)
        rows = list(flat(facts)) if isinstance(facts, Mapping) else [("", facts)]
        facts_shown = [(name.replace("_", " "), anything(value)) for name, value in rows]
        columns += [CardItem(title, [Definitions(facts_shown, "config")])] if facts_shown else []
    return [
        *([Code(" ".join(again.split()))] if again else []),
        *([Cards(columns, "columns")] if columns else []),
    ]
