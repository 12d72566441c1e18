"""What the folders of runs say: the state of each, how far it came, its last numbers, whether it is sound."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Required, TypedDict

from attnlab.config.imports import CodeRecord
from attnlab.config.values import ConfigError
from attnlab.runs.faults import FAULTS, RunError, read_object, reading
from attnlab.runs.findings import failed_checks, read_findings
from attnlab.runs.metrics_file import METRICS_FILE, RunCurve, curve_of, latest, read_events
from attnlab.runs.reason import Reason
from attnlab.runs.record import RECORD, fingerprints_of, read_record
from attnlab.runs.result import RunResult, RunState, read_result

STUDY_FILE = "study.json"
"""In the folder of a study, above those of its runs."""
STARTS = "starts"
"""There, the folder of the runs that its arms begin from."""


class ResolvedRecord(TypedDict, total=False):
    """A study with every arm's config, as study.json holds it."""

    study: Required[dict[str, Any]]
    identity: Required[str]
    configs: dict[str, dict[str, Any]]
    imports: list[CodeRecord]


class Histogram(TypedDict, total=False):
    """How many values lie between each two edges."""

    edges: list[float]
    counts: list[int]


class StudyRecord(ResolvedRecord, total=False):
    """What study.json holds; `lengths` are those of the baseline's training texts, in tokens."""

    threads: Required[int]
    versions: Required[dict[str, Any]]
    again: Required[str]
    lengths: Histogram


BASELINES = "baselines.json"
"""In a run's folder, what its scores are compared with."""


class BaselineRecord(TypedDict, total=False):
    """What is reached on dev without training on the task; `metric` says in what."""

    name: Required[str]
    value: Required[float]
    interval: list[float] | None
    n: int
    definition: str
    metric: Required[str]


class BaselinesRecord(TypedDict, total=False):
    """What baselines.json holds: the baselines, and how label words were asked for."""

    template: Required[str]
    words: Required[dict[str, str]]
    dev: list[BaselineRecord]


def read_baselines(folder: Path) -> list[BaselineRecord]:
    """The baselines of a run; none where it has not come to its end."""
    try:
        return read_object(folder / BASELINES, BaselinesRecord).get("dev", [])
    except FileNotFoundError:
        return []


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """A run's folder in short. `whole` says that its numbers are of all of dev.

    The result's status is that of the record, and its metrics are those of the last evaluation where nothing
    was measured after it.
    """

    name: str
    date: str
    whole: bool
    config: Mapping[str, Any]
    result: RunResult
    metric: str = "loss"
    """By which its best checkpoint is chosen."""
    curve: RunCurve = RunCurve()
    scored_step: int = 0
    """The step whose scores these are: the checkpoint that is opened, or the last of a study's run."""

    @classmethod
    def damaged(cls, folder: Path, why: str) -> RunSummary:
        """Of a run that cannot be read, or not be shown."""
        result = RunResult(status=RunState.DAMAGED, reason=Reason.error(why), folder=str(folder))
        return cls(name=folder.name, date="", whole=False, config={}, result=result)

    def as_json(self) -> dict[str, Any]:
        """All that a comparison goes by."""
        run = self.result
        return self.as_row() | {
            "whole": self.whole,
            "trace": run.trace,
            "initial": run.initial,
            "config": self.config,
            "scored_step": self.scored_step,
        }

    def as_row(self) -> dict[str, Any]:
        """What a list shows."""
        run = self.result
        return {
            "folder": run.folder,
            "name": self.name,
            "status": run.status,
            "seed": run.seed,
            "steps": run.steps,
            "date": self.date,
            "metric": self.metric,
            "sound": run.sound,
            "unsound": list(run.unsound),
            "failures": run.failures,
            "measures": run.metrics,
            "fingerprints": run.fingerprints,
        }


def runs_in(folder: Path) -> list[RunSummary]:
    """Every run below a folder, the newest last."""
    if not folder.is_dir():
        raise ConfigError(f"There is no folder {folder}; runs are in runs/ unless --out said otherwise.")
    places = sorted(file.parent for file in folder.rglob(RECORD))
    return sorted(map(summary_or_damage, places), key=lambda run: run.date)


def summary_or_damage(folder: Path) -> RunSummary:
    """A run in short; of a damaged one, what is wrong with it: it must not hide the others."""
    try:
        return read_summary(folder)
    except (ConfigError, RunError) as error:
        return RunSummary.damaged(folder, str(error))


def read_summary(
    folder: Path, *, within: Path | None = None, spent: Callable[[], float] | None = None
) -> RunSummary:
    """What a run's folder says of it, whatever became of it; nothing is read that is not `within` a place.

    `spent` gives the seconds of its steps, from who has read them; else they are read where the record does
    not tell.
    """
    record, measured = read_record(folder), read_result(folder)
    with reading(folder / RECORD):
        seconds = trained_seconds(folder, record, spent)
        scored = kept_evaluation(folder / METRICS_FILE, record)
        metric = str((record.get("best") or {}).get("metric", "loss"))
        return RunSummary(
            name=name_of(folder, within),
            date=str((record.get("versions") or {}).get("started", "")),
            whole=(measured is not None and measured.status == "finished") or whole_dev(record),
            config=record["config"],
            result=_result(folder, record, scored, measured or RunResult(), seconds),
            metric=metric,
            curve=curve_of(folder / METRICS_FILE, metric),
            scored_step=int(record.get("step") or 0) if measured else int(scored.get("step", 0)),
        )


def kept_evaluation(file: Path, record: Mapping[str, Any]) -> Mapping[str, Any]:
    """The evaluation of the checkpoint that is opened: of the step that dev chose, or the last so far."""
    last = latest(file, "evaluated").get("evaluated", {})
    chosen = (record.get("best") or {}).get("step")
    if chosen is None or last.get("step") == chosen:
        return last
    return next((event for event in read_events(file, "evaluated") if event["step"] == chosen), last)


def _result(
    folder: Path,
    record: Mapping[str, Any],
    scored: Mapping[str, Any],
    measured: RunResult,
    seconds: float,
) -> RunResult:
    """What the run came to: as it was measured, or as far as its own files tell."""
    last = latest(folder / METRICS_FILE, "stepped")
    evaluated = {"loss": scored["loss"], **scored["scores"]} if scored else {}
    findings = read_findings(folder)  # all there is of a run that was refused or killed
    return replace(
        measured,
        status=RunState(record.get("status", "unknown")),
        reason=Reason.error(record.get("error", "")),
        seed=record["seed"],
        folder=str(folder),
        steps=last["stepped"]["step"] if "stepped" in last else 0,
        seconds=seconds,
        flops=int(record.get("flops") or measured.flops),
        machines=tuple(record.get("machines") or measured.machines),
        unsound=tuple(record.get("unsound") or failed_checks(findings)),
        checks=tuple(findings),
        metrics={**evaluated, "seconds": seconds, **measured.metrics},
        fingerprints=fingerprints_of(record),
        trace=record.get("trace"),
        initial=record.get("initial"),
    )


def trained_seconds(
    folder: Path, record: Mapping[str, Any], spent: Callable[[], float] | None = None
) -> float:
    """As the run told when it ended; of one that did not, the sum of its steps, for which all is read."""
    if record.get("status") in ("finished", "interrupted") and "seconds" in record:
        return float(record["seconds"])
    if spent is not None:
        return spent()
    return sum(event["seconds"] for event in read_events(folder / METRICS_FILE, "stepped"))


def name_of(folder: Path, within: Path | None = None) -> str:
    """By the folder: the config's name with its hash, or study, arm and seed, or study and start."""
    if folder.name.startswith("seed-") and len(folder.parts) > 3:
        study, name = folder.parents[2], f"{folder.parent.name}, {folder.name.replace('-', ' ')}"
    elif folder.parent.name == STARTS and len(folder.parts) > 2:
        study, name = folder.parents[1], f"start {folder.name}"
    else:
        return folder.name
    file = study / STUDY_FILE
    if within is not None and not file.resolve().is_relative_to(within):
        return folder.name
    try:
        return f"{read_object(file, StudyRecord)['study']['name']}: {name}"
    except (RunError, ConfigError, OSError, *FAULTS):  # the study's own page or command says what is wrong
        return folder.name


def whole_dev(record: Mapping[str, Any]) -> bool:
    """Whether the run's own evaluations went over all of dev."""
    return bool(record["config"]["training"]["evaluate_batches"] == "all")
