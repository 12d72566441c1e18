"""What a study came to, as facts: results.json is this record, written and read back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, Required, TypedDict

import attnlab.studies.wording as wording
from attnlab.evaluation.comparison import Comparison, nan_of
from attnlab.metrics.metric import Estimate
from attnlab.runs.findings import BAD, COLLAPSES, Outcome
from attnlab.runs.reason import Reason, reasons_phrase
from attnlab.runs.result import AlignmentMap, RunResult
from attnlab.runs.summary import Histogram
from attnlab.runs.typed import Value
from attnlab.studies.headline import headline

FORMAT = 2
"""Of results.json. Without it, a file is of a version that kept sentences in the place of comparisons."""
OF_MAJORITY = ("majority", "collapse")
"""The checks that a classifier without knowledge fails."""


class NoteKind(StrEnum):
    """What a reader must know beside the numbers; its words are in `studies/wording.py`."""

    RESIZED = "resized"
    SAME_CONFIG = "same_config"
    NO_RATE = "no_rate"
    EDGE_RATE = "edge_rate"
    LEFT_OVER = "left_over"
    LEFT_OUT = "left_out"
    UNKNOWN_SEEDS = "unknown_seeds"
    UNASKED_DRAWS = "unasked_draws"
    FIXED_PARTS = "fixed_parts"
    SORTED_BATCHES = "sorted_batches"
    ONE_BATCH = "one_batch"
    IDLE_SEEDS = "idle_seeds"
    MIXED_RUNS = "mixed_runs"
    BUSY_MACHINE = "busy_machine"
    UNLIKE_MACHINES = "unlike_machines"
    NOT_COMPARED = "not_compared"
    FAILED_RUNS = "failed_runs"
    BY_BYTES = "by_bytes"
    OTHER_MEANING = "other_meaning"  # of single runs side by side
    UNFAIR = "unfair"
    UNLEARNED_RUNS = "unlearned_runs"
    UNSOUND_RUNS = "unsound_runs"
    UNFINISHED_RUN = "unfinished_run"
    PART_OF_DEV = "part_of_dev"
    KNOWN_ROWS = "known_rows"  # of single runs and of arms
    UNREAD_ROWS = "unread_rows"
    OTHER_SEEDS = "other_seeds"
    SINGLE_RUNS = "single_runs"
    TEXTS_NOT_PAIRED = "texts_not_paired"
    RUNS_FAILED = "runs_failed"  # why a study's results are not what was asked for
    ARM_REFUSED = "arm_refused"
    ARM_INVALID = "arm_invalid"
    TIME_TO_LOSS = "time_to_loss"  # of built-in studies
    NOT_LEARNED = "not_learned"
    HEADS_PREDICTED = "heads_predicted"
    SAME_AT_EVERY_SIZE = "same_at_every_size"
    OTHER_BY_SIZE = "other_by_size"
    OTHER_TASKS = "other_tasks"
    RECOMMENDED = "recommended"
    TOLD = "told"


@dataclass(frozen=True)
class Note:
    kind: NoteKind
    values: Mapping[str, Value] = field(default_factory=dict, hash=False)

    @classmethod
    def of_rows(cls, name: str, run: RunResult) -> Note | None:
        """That rows of dev were trained on before, or could not be compared, under the name of a run or arm;
        None where neither is so."""
        own = [finding for finding in run.checks if finding.check == "scored_rows"]
        bad = next((finding for finding in own if finding.outcome in BAD), None)
        if bad is not None:
            return cls(NoteKind.KNOWN_ROWS, {"name": name, "kind": bad.kind, "rows": dict(bad.values)})
        unread = next((u for finding in own if (u := finding.values.get("unread"))), None)
        return None if unread is None else cls(NoteKind.UNREAD_ROWS, {"name": name, "unread": unread})

    @classmethod
    def of_text(cls, text: str) -> Note:
        """A note in a study's own words."""
        return cls(NoteKind.TOLD, {"text": text})

    def __str__(self) -> str:
        return wording.note_sentence(self.kind, self.values)

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind.value, "values": dict(self.values)}

    @classmethod
    def of_json(cls, record: Mapping[str, Any]) -> Note:
        return cls(NoteKind(record["kind"]), record["values"])


@dataclass(frozen=True)
class TunedRate:
    """A learning rate that was tried for an arm, and its value on dev; None where the run failed."""

    arm: str
    learning_rate: float
    metric: str
    value: float | None
    chosen: bool


@dataclass(frozen=True)
class NamedMeasure:
    """A number of the study's runs, as its readers need it."""

    name: str
    definition: str = ""
    lower_is_better: bool = True
    signature: str = ""
    """How a package that defines the measure computed it, as it says itself; several where runs differ."""

    def as_json(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value != "" or name != "signature"}


class ArmState(StrEnum):
    FINISHED = "finished"
    INVALID = "invalid"
    FAILED = "failed"
    MISSING = "missing"
    REFUSED = "refused"


@dataclass(frozen=True, kw_only=True)
class ArmOutcome:
    """An arm over its seeds. `reasons` say why it is not finished, or which runs it lacks."""

    name: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    budget: Mapping[str, Any] = field(default_factory=dict)
    learning_rate: float | None = None
    steps: float | None = None
    tokens: float | None = None
    flops: float | None = None
    parameters: int | None = None
    tuned_parameters: int | None = None
    flops_per_token: float | None = None
    state: ArmState = ArmState.FINISHED
    reasons: tuple[Reason, ...] = ()
    unsound: tuple[str, ...] = ()
    scores: Mapping[str, Estimate] = field(default_factory=dict)
    tried: int = 0

    @property
    def reason(self) -> str:
        """Why it is not finished, in words."""
        return reasons_phrase(self.reasons)

    @property
    def sound(self) -> bool:
        """Whether its numbers mean what they say."""
        return self.state is not ArmState.INVALID

    def as_json(self) -> dict[str, Any]:
        """`status` and `reason` as words too, which nothing reads back where there are `reasons`."""
        reasons = [reason.as_json() for reason in self.reasons]
        if self.state is ArmState.REFUSED:
            words = {"name": self.name, "status": self.state.value, "reason": self.reason}
            return words | {"reasons": reasons}
        tuned = {} if self.tuned_parameters is None else {"tuned_parameters": self.tuned_parameters}
        return {
            "name": self.name,
            "changes": dict(self.changes),
            "budget": dict(self.budget),
            "learning_rate": self.learning_rate,
            "steps": self.steps,
            "tokens": self.tokens,
            "flops": self.flops,
            "parameters": self.parameters,
            **tuned,
            "flops_per_token": self.flops_per_token,
            "status": self.state.value,
            "reason": self.reason,
            "unsound": list(self.unsound),
            "metrics": {name: score.as_json() for name, score in self.scores.items()},
            "tried": self.tried,
            "reasons": reasons,
        }

    @classmethod
    def of_json(cls, record: Mapping[str, Any]) -> ArmOutcome:
        same = ("learning_rate", "steps", "tokens", "flops", "parameters", "tuned_parameters")
        error = Reason.error(str(record.get("reason") or ""))
        reasons = map(Reason.of_json, record["reasons"]) if "reasons" in record else filter(None, [error])
        return cls(
            name=record["name"],
            changes=record.get("changes") or {},
            budget=record.get("budget") or {},
            **{name: record.get(name) for name in (*same, "flops_per_token")},
            state=ArmState(record.get("status") or "finished"),
            reasons=tuple(reasons),
            unsound=tuple(record.get("unsound") or ()),
            scores={name: score_of(score) for name, score in (record.get("metrics") or {}).items() if score},
            tried=record.get("tried") or 0,
        )


def score_of(record: Mapping[str, Any]) -> Estimate:
    value, low, high = (nan_of(record.get(name)) for name in ("value", "low", "high"))
    return Estimate(value, low, high, record.get("n") or 0)


@dataclass(frozen=True, kw_only=True)
class StudyFacts:
    """The study itself, for its readers."""

    name: str = "study"
    question: str = ""
    hypothesis: str = ""
    card: str = ""
    baseline: str = ""
    against: Mapping[str, str] = field(default_factory=dict)
    metric: str = "loss"
    metrics: tuple[NamedMeasure, ...] = ()
    seeds: tuple[int, ...] = ()
    quick: bool = False
    budget: Mapping[str, Any] = field(default_factory=dict)
    match: str = ""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    tuning: tuple[TunedRate, ...] = ()

    @property
    def baselines(self) -> tuple[str, ...]:
        """What arms are compared with, the study's own first."""
        return tuple(dict.fromkeys([self.baseline, *self.against.values()]))

    def as_json(self, notes: Sequence[Note]) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in FACTS}
        values |= {"metrics": [metric.as_json() for metric in self.metrics], "seeds": list(self.seeds)}
        values |= {"notes": [str(note) for note in notes], "tuning": [vars(rate) for rate in self.tuning]}
        return values

    @classmethod
    def of_json(cls, record: Mapping[str, Any]) -> StudyFacts:
        known = {name: record[name] for name in FACTS if record.get(name) is not None}
        known |= {
            "metrics": tuple(NamedMeasure(**metric) for metric in record.get("metrics") or ()),
            "seeds": tuple(record.get("seeds") or ()),
            "tuning": tuple(TunedRate(**rate) for rate in record.get("tuning") or ()),
        }
        return cls(**known)


class ArmsAttention(TypedDict, total=False):
    """The attention weights of one sentence in every arm: [layer][head][query][key]."""

    sentence: str
    tokens: list[str]
    arms: Mapping[str, list[list[list[list[float]]]]]
    allowed: Mapping[str, list[list[int]]]


class StartRecord(TypedDict, total=False):
    """What arms begin from: a path, or a run that was trained first with what became of it."""

    name: Required[str]
    folder: Required[str]
    config: Mapping[str, Any]
    status: str
    seed: int
    steps: int
    tokens: int
    seconds: float
    parameters: int
    unsound: Sequence[str]
    metrics: Mapping[str, float]


class MachineRecord(TypedDict, total=False):
    """Where a study ran."""

    system: str
    processor: str
    cores: int | None
    threads_per_run: int


class SeriesRecord(TypedDict, total=False):
    """A line of a study's own figure, with its band where it has one."""

    name: Required[str]
    x: Required[Sequence[float | None]]
    y: Required[Sequence[float]]
    low: Sequence[float] | None
    high: Sequence[float] | None


class FigureRecord(TypedDict):
    """A study's own figure."""

    title: str
    x: str
    y: str
    log_x: bool
    log_y: bool
    series: Sequence[SeriesRecord]
    note: str


class TableRecord(TypedDict):
    """A study's own table; a cell is a number, a text or empty."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    note: str


FACTS = (
    *("name", "question", "hypothesis", "card", "baseline", "against", "metric", "metrics", "seeds"),
    *("quick", "budget", "match", "overrides"),
)
PARTS = (
    *("attention", "alignment", "figures", "tables", "lengths", "starts", "configs", "versions"),
    *("fingerprints", "machine", "date", "again"),
)
"""What results.json holds as it is."""
KEYS = {"study", "verdict", "arms", "refused", "runs", "comparisons", "format", "notes", *PARTS}


@dataclass(frozen=True, kw_only=True)
class StudyOutcome:
    """Every run, every arm with its scores, every comparison that is allowed, and what a reader must know.

    The verdict is said of these; it is written, and never read.
    """

    study: StudyFacts
    arms: tuple[ArmOutcome, ...] = ()
    refused: tuple[ArmOutcome, ...] = ()
    runs: tuple[RunResult, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    notes: tuple[Note, ...] = ()
    attention: ArmsAttention = field(default_factory=ArmsAttention)
    alignment: Mapping[str, AlignmentMap] = field(default_factory=dict)
    """By arm, of arms that read a source apart and look at it."""
    figures: Sequence[FigureRecord] = ()
    tables: Sequence[TableRecord] = ()
    lengths: Histogram = field(default_factory=Histogram)
    starts: Sequence[StartRecord] = ()
    configs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    versions: Mapping[str, Any] = field(default_factory=dict)
    fingerprints: Mapping[str, Any] = field(default_factory=dict)
    machine: MachineRecord = field(default_factory=MachineRecord)
    date: str = ""
    again: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further keys of a study's own `summarise`."""

    @property
    def all_arms(self) -> tuple[ArmOutcome, ...]:
        """Those that could not be built, too, first."""
        return (*self.refused, *self.arms)

    @cached_property
    def at_majority(self) -> dict[str, tuple[list[int], int]]:
        """The arms of which runs ended at the majority share: these seeds, of how many that trained."""
        by_arm = {}
        for arm in dict.fromkeys(run.arm for run in self.runs if learned_nothing(run)):
            trained = [run for run in self.runs if run.arm == arm and run.trained]
            by_arm[arm] = [run.seed for run in trained if learned_nothing(run)], len(trained)
        return by_arm

    @property
    def headline(self) -> str:
        """The study's answer, in at most 160 characters."""
        return headline(self)

    @property
    def verdict(self) -> str:
        """The study's answer, with what each comparison rests on."""
        return wording.verdict_sentences(self)

    def comparison_of(self, arm: str) -> Comparison | None:
        """An arm's comparison by the study's own metric."""
        mine = (
            comparison
            for comparison in self.comparisons
            if comparison.arm == arm and comparison.metric == self.study.metric
        )
        return next(mine, None)

    def runs_of(self, arm: str) -> list[RunResult]:
        return [run for run in self.runs if run.arm == arm]

    def as_json(self) -> dict[str, Any]:
        """As results.json holds it. Maps of attention are told by arm, and a run's initial weights, a line
        for each parameter, stay in its own folder."""
        runs = [replace(run, attention=None, alignment=None, initial=None).as_json() for run in self.runs]
        values = {
            "study": self.study.as_json(self.notes),
            "verdict": self.verdict,
            "arms": [arm.as_json() for arm in self.arms],
            "refused": [arm.as_json() for arm in self.refused],
            "runs": runs,
            "comparisons": [comparison.as_json() for comparison in self.comparisons],
            **{name: getattr(self, name) for name in PARTS},
            **self.extra,
            "format": FORMAT,
            "notes": [note.as_json() for note in self.notes],
        }
        return dict(without_nan(values))

    @classmethod
    def of_json(cls, record: Mapping[str, Any]) -> StudyOutcome:
        """A study as it was written. Of one without a format its baselines, arms and runs: its comparisons
        are computed anew from the folders of its runs."""
        missing = [part for part in ("study", "runs") if part not in record]
        if missing:
            raise ValueError(f"Results need a study and its runs; {', '.join(missing)} is missing.")
        new = record.get("format") == FORMAT
        texts = [Note.of_text(text) for text in record["study"].get("notes") or ()]
        return cls(
            study=StudyFacts.of_json(record["study"]),
            arms=tuple(map(ArmOutcome.of_json, record.get("arms") or ())),
            refused=tuple(map(ArmOutcome.of_json, record.get("refused") or ())),
            runs=tuple(map(RunResult.of_json, record["runs"])),
            comparisons=tuple(map(Comparison.of_json, record.get("comparisons") or () if new else ())),
            notes=tuple(map(Note.of_json, record["notes"])) if new and "notes" in record else tuple(texts),
            **{name: record[name] for name in PARTS if record.get(name)},
            extra={name: value for name, value in record.items() if name not in KEYS},
        )


def learned_nothing(run: RunResult) -> bool:
    """Whether a run failed these checks by no more than ending at the majority share; where labels were mixed
    up it did not, which is a fault."""
    failed = [
        finding for finding in run.checks if finding.outcome is Outcome.FAIL and finding.check in OF_MAJORITY
    ]
    return bool(failed) and all(
        finding.check == "collapse" or finding.kind in COLLAPSES for finding in failed
    )


def without_nan(value: Any) -> Any:
    """JSON knows no nan: what is not known is null."""
    if isinstance(value, Mapping):
        return {name: without_nan(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_nan(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
