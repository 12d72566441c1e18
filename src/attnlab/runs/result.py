"""What a run came to, as its worker measured it (result.json) and as all who ask after it read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, Required, TypedDict

from attnlab.runs.atomic import replace_json
from attnlab.runs.faults import read_object, reading
from attnlab.runs.findings import Finding, failures
from attnlab.runs.reason import Reason
from attnlab.runs.record import MachineKind

RESULT = "result.json"


class RunState(StrEnum):
    """What became of a run: `INVALID` finished with a failed check, `MISSING` has no result in its study."""

    FINISHED = "finished"
    INVALID = "invalid"
    FAILED = "failed"
    MISSING = "missing"
    RUNNING = "running"
    INTERRUPTED = "interrupted"
    PREPARING = "preparing"
    CONVERTED = "converted"
    DAMAGED = "damaged"
    UNKNOWN = "unknown"

    @classmethod
    def _missing_(cls, value: object) -> RunState:
        return cls.UNKNOWN


ENDED = (RunState.FINISHED, RunState.INVALID)
"""The states of a run that trained to its end: its numbers are there, sound or not."""

RENAMED = {
    "incremental_loss": "token_by_token_loss",
    "incremental_perplexity": "token_by_token_perplexity",
    "incremental_difference": "leak",
}
"""Metrics by the names that earlier versions wrote."""

LISTS = ("unsound", "samples", "probes", "machines")
"""Fields that a file holds as lists."""

Curve = Mapping[str, Sequence[float]]


class CutText(TypedDict):
    """What of a split was cut off."""

    texts: int
    texts_cut: int
    texts_cut_share: float
    tokens: int
    tokens_cut: int
    tokens_cut_share: float
    longest: int


class ScoredProbe(TypedDict, total=False):
    """A probe sentence and its loss."""

    text: Required[str]
    tokens: int
    unknown: int
    loss: float | None


class AttentionMap(TypedDict, total=False):
    """The weights of one sentence: [layer][head][query][key]; empty for a model that reads a source."""

    sentence: str
    tokens: list[str]
    weights: list[list[list[list[float]]]]
    allowed: list[list[int]]
    """1 where the mask lets a query see a key; of a pair that it forbids a weight is no choice."""


class HeadAlignment(TypedDict):
    """A head that looks from a target at its source, [written][source], and how far the output moves without
    it."""

    name: str
    weights: list[list[float]]
    effect: float


class AlignmentMap(TypedDict):
    """Cross-attention of a sentence and what the model writes for it, the heads by what the output loses
    without them; `effect` says what that is."""

    sentence: str
    source: list[str]
    written: list[str]
    effect: str
    heads: list[HeadAlignment]


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """One run, with what is known of it by now; `None` is what was not recorded.

    `status` is "finished", "failed", "invalid" (finished, and a check failed) or "missing" in a study, and
    that of its record elsewhere, such as "running"; `reason` says why it is not finished. `fingerprints` say
    what it was trained and judged on, `trace` and `initial` what it was really given (training/trace.py).
    `waited` is the share of its time that it waited for a processor that others had; `machines` are those
    that it was computed by, several where it was resumed elsewhere.
    `tuned` is how many of its parameters are trained, 0 where that was not recorded.
    `extra` is what a study's own measures add, by its own names.
    """

    status: RunState = RunState.MISSING
    reason: Reason | None = None
    arm: str = ""
    seed: int = 0
    folder: str = ""
    identity: str = ""
    ended: str = ""
    steps: int = 0
    tokens: int = 0
    flops: int = 0
    parameters: int = 0
    tuned: int = 0
    seconds: float = 0.0
    tokens_per_second: float = 0.0
    evaluation_seconds: float = 0.0
    waited: float | None = None
    machines: tuple[MachineKind, ...] = ()
    peak_memory_bytes: int = 0
    unsound: tuple[str, ...] = ()
    checks: tuple[Finding, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    fingerprints: Mapping[str, Any] = field(default_factory=dict)
    trace: Mapping[str, Mapping[str, str] | None] | None = None
    initial: Mapping[str, str] | None = None
    epoch_batches: int | None = None
    truncation: Mapping[str, CutText] = field(default_factory=dict)
    versions: Mapping[str, Any] = field(default_factory=dict)
    samples: tuple[str, ...] = ()
    quality: Mapping[str, float | None] = field(default_factory=dict)
    probes: tuple[ScoredProbe, ...] = ()
    attention: AttentionMap | None = None
    alignment: AlignmentMap | None = None
    curve: Curve = field(default_factory=dict)
    dev_curve: Curve = field(default_factory=dict)
    extra_curves: Mapping[str, Curve] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "status", RunState(self.status))

    @property
    def trained(self) -> bool:
        """Whether it came to its end, and so has numbers; whether they are sound is another question."""
        return self.status in ENDED

    @property
    def sound(self) -> bool | None:
        """Whether no check failed: while one has, no number of the run means what it says. A run that took no
        step has no numbers, and is neither."""
        return None if not self.steps and not self.trained else not self.unsound

    @property
    def failures(self) -> list[str]:
        """The failed checks in words, with the step where it is known."""
        return failures(self.checks) or list(self.unsound)

    def as_json(self) -> dict[str, Any]:
        """As result.json and the runs of results.json hold it; what was not recorded is left out."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "extra"}
        values |= {"sound": self.sound, "checks": [finding.as_json() for finding in self.checks]}
        values |= {"status": self.status.value, "reason": str(self.reason or "")}
        values["why"] = None if self.reason is None else self.reason.as_json()
        return {name: value for name, value in values.items() if value is not None} | dict(self.extra)

    @classmethod
    def of_json(cls, record: Mapping[str, Any]) -> RunResult:
        """A result as it was written, by this version or one before; a metric that is null is not known.

        One that does not say how it ended came to its end.
        """
        own = {f.name for f in fields(cls)} - {"extra"}
        values = {name: value for name, value in record.items() if name in own and value is not None}
        values |= {name: tuple(values.get(name, ())) for name in LISTS}
        why, text = record.get("why"), str(record.get("reason") or "")
        values["reason"] = Reason.of_json(why) if why else Reason.error(text)
        values["checks"] = tuple(Finding.of_json(finding) for finding in record.get("checks") or ())
        metrics = record.get("metrics") or {}
        known = {RENAMED.get(name, name): value for name, value in metrics.items() if value is not None}
        rest = {name: value for name, value in record.items() if name not in own | {"sound", "why"}}
        return cls(**{"status": RunState.FINISHED} | values | {"metrics": known, "extra": rest})


class WrittenResult(RunResult):
    """A result as its file holds it: its reason in words, and `why` as it was recorded."""

    reason: str  # type: ignore[assignment]
    status: str  # type: ignore[assignment]
    why: Mapping[str, Any]


def read_result(folder: Path) -> RunResult | None:
    """What a run's worker left; nothing where it has not come to an end."""
    file = folder / RESULT
    try:
        with reading(file):
            return RunResult.of_json(read_object(file, WrittenResult))
    except FileNotFoundError:
        return None


def write_result(folder: Path, result: RunResult) -> None:
    replace_json(folder / RESULT, result.as_json())
