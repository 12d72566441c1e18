"""A study from its plan to its report: every arm × seed as a job of its own, resumable, balanced by seed."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, cast

from attnlab.config.files import to_json
from attnlab.config.values import Choice, ConfigError
from attnlab.documents.nodes import DocumentPage, Table
from attnlab.documents.notebook import SelfShowing
from attnlab.runs.atomic import replace_bytes, replace_json
from attnlab.runs.faults import FAULTS, RunError, read_object, reading
from attnlab.runs.folder import lock, make_folder
from attnlab.runs.record import differences
from attnlab.runs.result import RunResult, RunState
from attnlab.runs.summary import STUDY_FILE, ResolvedRecord, StudyRecord
from attnlab.runs.typed import Value
from attnlab.session.session import step_flops
from attnlab.studies import report
from attnlab.studies.capacity import capacity_of, devices_of
from attnlab.studies.earlier_runs import ready
from attnlab.studies.engines import ENGINES, engine_choice
from attnlab.studies.engines.engine import Job, JobRequest, Queue, View
from attnlab.studies.first_runs import train_starts
from attnlab.studies.live_view import live
from attnlab.studies.outcome import ArmOutcome, Note, NoteKind, StudyOutcome, TunedRate
from attnlab.studies.prepare import prepare_data
from attnlab.studies.resolved import Resolved, from_record, resolve, to_record
from attnlab.studies.results import gather
from attnlab.studies.shown import measured_number
from attnlab.studies.spec import Study
from attnlab.studies.tuning import tune_rates
from attnlab.studies.wording import failed_runs_phrase, refused_sentence, verdict_phrase
from attnlab.training.interrupt import Interrupt
from attnlab.training.machine import cores, threads_for_step, versions

RESULTS = "results.json"


@dataclass(frozen=True, repr=False)
class EndedStudy(SelfShowing):
    """A study that has ended, or was stopped by a signal; its results are what there is so far.

    `allowed` are the arms that are meant to fail checks; `on` is the engine that it ran on.
    """

    folder: Path
    outcome: StudyOutcome
    signal: int = 0
    allowed: frozenset[str] = frozenset()
    on: Choice = Choice("local")

    @property
    def results(self) -> dict[str, Any]:
        """What results.json holds."""
        return self.outcome.as_json()

    @property
    def runs(self) -> list[RunResult]:
        """What each run came to."""
        return list(self.outcome.runs)

    @property
    def failed(self) -> list[str]:
        """The runs that did not come to their end, and why, in words."""
        causes: dict[tuple[str, str], list[RunResult]] = {}
        for run in self.runs:
            if run.status is RunState.FAILED:
                causes.setdefault((run.arm, run.reason.kind if run.reason else ""), []).append(run)
        return list(map(failed_runs_phrase, causes.values()))

    @property
    def faults(self) -> list[Note]:
        """Why its results are not what was asked for: failed runs, and arms invalid without being allowed."""
        failed: list[Value] = [
            {"arm": run.arm, "seed": run.seed} for run in self.runs if run.status is RunState.FAILED
        ]
        faults = [Note(NoteKind.RUNS_FAILED, {"failed": failed, "runs": len(self.runs)})] if failed else []
        faults += [Note(NoteKind.ARM_REFUSED, reasons_of(arm)) for arm in self.outcome.refused]
        return faults + [
            Note(NoteKind.ARM_INVALID, reasons_of(arm) | {"unsound": list(arm.unsound)})
            for arm in self.outcome.arms
            if not arm.sound and not (arm.name in self.allowed and arm.unsound)
        ]

    def document(self) -> DocumentPage:
        study = self.outcome.study
        verdicts = {row.arm: verdict_phrase(row) for row in self.outcome.comparisons}
        verdicts[study.baseline] = "baseline"
        rows = [
            (
                arm.name,
                measured_number(arm.scores.get(study.metric), sound=arm.sound),
                verdicts.get(arm.name, arm.state.value),
            )
            for arm in self.outcome.arms
        ]
        headline = f"{self.outcome.headline} Report: {self.folder / 'report.html'}"
        return DocumentPage("study", headline, [Table(("arm", study.metric, "verdict"), rows)])

    def report(self, file: str | Path) -> Path:
        """The report as one HTML file at this place."""
        written = Path(file)
        replace_bytes(written, (self.folder / "report.html").read_bytes())
        return written


class RunnableStudy(Study):
    """A study that can be run: what `lab.study` gives."""

    @classmethod
    def of(cls, study: Study) -> RunnableStudy:
        return cls(**{f.name: getattr(study, f.name) for f in fields(study)})

    def run(
        self,
        out: str | Path | None = None,
        *,
        jobs: int = 0,
        resume: bool = False,
        on: str = "local",
        address: str = "",
        progress: bool = True,
    ) -> EndedStudy:
        """Train, measure, compare and report, as `attnlab run` does; `progress=False` shows nothing."""
        resolved, engine = resolve(self), engine_choice(on, address)
        with live(shown=progress) as view:
            folder = Path(out or default_folder(resolved))
            return run_study(resolved, folder, jobs=jobs, resume=resume, on=engine, view=view)


def reasons_of(arm: ArmOutcome) -> dict[str, Value]:
    """An arm with why it is not finished, as the values of a note."""
    return {"arm": arm.name, "reasons": [reason.as_json() for reason in arm.reasons]}


def unseen(work: Sequence[Job]) -> None:
    """No view."""


def run_study(
    resolved: Resolved,
    folder: Path,
    *,
    jobs: int = 0,
    resume: bool = False,
    on: str | Choice = "local",
    view: View = unseen,
    again: str = "",
    tell: Callable[[str], None] = lambda message: None,
) -> EndedStudy:
    """Train and measure every arm with every seed, compare, and write the report.

    `resume` continues a study: runs that are done stay, and arms, seeds and budget may have grown.
    `jobs` is how many runs go at once, 0 for as many as there is room for: it changes nothing but the
    time, since a run's number of threads is the study's and stays with it. `on` is the engine that executes
    them, by its name in ENGINES.
    """
    with ENGINES.build(on) as engine:
        engine.refuse(devices_of(resolved), threads_for(resolved))
        make_folder(folder)
        for arm, reason in resolved.refused.items():
            tell(refused_sentence(arm, reason))
        with lock(folder / "lock"):
            record = _record(resolved, folder, resume=resume, again=again)
            interrupt, threads = Interrupt(), record["threads"]
            capacity = capacity_of(engine, devices_of(resolved), jobs=jobs, threads=threads)
            queue = Queue(engine, jobs=capacity.jobs, threads=threads, view=view, interrupt=interrupt)
            tell(capacity.sentence(len(work_of(resolved, folder))))
            replace_json(folder / STUDY_FILE, record)
            with interrupt.heard():
                resolved, tuning = train_starts(resolved, folder, queue), list[TunedRate]()
            if not interrupt.asked:
                record["lengths"] = prepare_data(resolved)
                replace_json(folder / STUDY_FILE, record)
                with interrupt.heard():
                    resolved, tuning = tune_rates(resolved, folder, queue)
                    queue.run(ready(work_of(resolved, folder), tell))
            outcome = gather(resolved, folder, record=record, tuning=tuning)
            replace_json(folder / RESULTS, outcome.as_json())
            report.write(outcome, folder)
    allowed = frozenset(resolved.study.allow)
    return EndedStudy(folder, outcome, interrupt.signal, allowed, ENGINES.resolve(on))


def _record(resolved: Resolved, folder: Path, *, resume: bool, again: str) -> StudyRecord:
    """study.json as it begins, or as it stands; refused where it would become another study."""
    record = read_study_record(folder)
    if record and not resume:
        raise ConfigError(
            f"{folder} already holds a study; continue it with --resume, which trains only what is new, or "
            "give another --out."
        )
    with reading(folder / STUDY_FILE):
        changes = other_study(resolved, record) if record else []
    if changes:
        raise ConfigError(
            f"{folder} holds another study: {'; '.join(changes)}. Continue that one with: attnlab run "
            f"--resume --out {folder}, or give another --out."
        )
    begun = {"threads": threads_for(resolved), "versions": versions()}
    before = record["again"] if record else f"attnlab run --resume --out {folder}"
    return cast(StudyRecord, {**begun, **(record or {}), **to_record(resolved), "again": again or before})


def other_study(resolved: Resolved, record: ResolvedRecord) -> list[str]:
    """How a folder's study differs from this one in what all its runs share; nothing where it is this one.

    One that an earlier version began is told by today's names.
    """
    if record["identity"] == resolved.identity:
        return []
    return list(map(str, differences(resolve(from_record(record)).shared, resolved.shared)))


def read_study_record(folder: Path) -> StudyRecord | None:
    """A study's study.json, where there is one."""
    file = folder / STUDY_FILE
    return cast(StudyRecord, read_object(file, StudyRecord)) if file.is_file() else None


def read_outcome(folder: Path) -> StudyOutcome:
    """What a study came to, as its results.json holds it."""
    file = folder / RESULTS
    if not file.is_file():
        raise ConfigError(f"{folder} holds no results of a study: there is no {RESULTS} in it.")
    with reading(file):
        return StudyOutcome.of_json(json.loads(file.read_text(encoding="utf-8")))


def work_of(resolved: Resolved, folder: Path) -> list[Job]:
    """Arm by arm within each seed, so that a study that is half done is balanced already."""
    study = resolved.study
    first = {arm: run_folder(folder, arm, study.all_seeds[0]) for arm in resolved.configs}
    return [
        Job(arm, seed, request_of(resolved, arm, seed, run_folder(folder, arm, seed), first=first[arm]))
        for seed in study.all_seeds
        for arm in resolved.configs
    ]


def request_of(
    resolved: Resolved, arm: str, seed: int, folder: Path, *, first: Path | None = None
) -> JobRequest:
    """A run of an arm; attention is drawn for the first seed, whose run is in the folder `first`."""
    study = resolved.study
    return JobRequest(
        folder=str(folder),
        config=to_json(resolved.config(arm, seed)),
        allow=tuple(study.allow.get(arm, ())),
        probes=tuple(study.probes),
        sentence=study.sentence if seed == study.all_seeds[0] else "",
        extras=study.extras,
        imports=tuple(resolved.imports),
        first="" if first in (None, folder) else str(first),
    )


def default_folder(resolved: Resolved, runs: Path = Path("runs")) -> Path:
    """Where a study is kept unless a person says: the same study, grown or not, the same place."""
    usual = runs / f"{resolved.study.name}-{resolved.identity[:8]}"
    if usual.exists():
        return usual
    for file in sorted(runs.glob(f"{resolved.study.name}-*/{STUDY_FILE}")):
        with contextlib.suppress(ConfigError, RunError, *FAULTS):  # of one that needs what is not here
            record = read_study_record(file.parent)
            if record and not other_study(resolved, record):
                return file.parent  # of an earlier version, which named it otherwise
    return usual


def run_folder(folder: Path, arm: str, seed: int) -> Path:
    return folder / "runs" / arm / f"seed-{seed}"


def threads_for(resolved: Resolved) -> int:
    """The threads of each run: as many as its steps have work for, and no more than the cores divided among
    as many runs as could go at once.

    Not among --jobs: other threads round otherwise, and a study's numbers must not depend on its jobs.
    """
    runs = len(resolved.configs) * len(resolved.study.all_seeds)
    wanted = max(threads_for_step(step_flops(config)) for config in resolved.configs.values())
    return min(wanted, max(1, cores() // min(cores(), runs)))
