"""What is reported of a split beside its metrics, and what a score is compared with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from attnlab.data.example import Example
from attnlab.data.labels import Labels
from attnlab.metrics.classes import ClassScores
from attnlab.runs.findings import Finding, collapse_sentence

WRONG = 10
"""Mistakes that are shown."""
SHOWN = 160
"""Characters of a text that are shown."""


class PredictingTask(Protocol):
    """What a report needs of a task: how labels are read, and predictions in a person's words."""

    labels: Labels

    def label_of(self, example: Example) -> Any: ...

    def predictions(self, columns: Mapping[str, Any], texts: Sequence[Example]) -> Sequence[Any]: ...


@dataclass(frozen=True)
class Mistake:
    """A text that was got wrong: what was right, what was predicted, and how sure the model was."""

    place: str
    text: str
    label: Any
    prediction: Any
    confidence: float | None = None


@dataclass(frozen=True)
class MajorityShare:
    """The most frequent label, and what always saying it would give."""

    label: str
    share: float


@dataclass(frozen=True)
class Confusion:
    """How often each class (row) was called each (column)."""

    names: list[str]
    counts: list[list[int]]


@dataclass(frozen=True)
class ReliabilityBin:
    """Predictions of about one confidence: its mean, the share that is right, and how many they are."""

    confidence: float
    accuracy: float
    n: int


@dataclass(frozen=True)
class ThresholdUse:
    """The thresholds of answers that were used, and what one chosen on these very questions would have
    pretended."""

    how: str
    least: float
    most: float
    folds: int
    f1: float
    tuned_here: float
    pretended_f1: float


@dataclass(frozen=True)
class CurvePoint:
    """What a threshold would give."""

    threshold: float
    used: bool
    answered: int
    f1: float
    exact: float


@dataclass(frozen=True)
class WrongAnswer:
    """A question that was got wrong, and how far its margin was from the threshold."""

    place: str
    question: str
    answer: str
    gold: str
    f1: float
    margin: float


@dataclass(frozen=True)
class AnswersReport:
    """How many of n questions were answered, and by which threshold."""

    answered: int
    answerable: int
    n: int
    threshold: ThresholdUse
    curve: tuple[CurvePoint, ...]
    wrong: tuple[WrongAnswer, ...]


@dataclass(frozen=True, kw_only=True)
class TargetReport:
    """What is reported beside the metrics; None is what a target has not. `checks` are of the predictions."""

    majority: MajorityShare | None = None
    classes: tuple[ClassScores, ...] | None = None
    confusion: Confusion | None = None
    reliability: tuple[ReliabilityBin, ...] | None = None
    answers: AnswersReport | None = None
    mistakes: tuple[Mistake, ...] | None = None
    checks: tuple[Finding, ...] | None = None
    mistakes_first: bool = False

    def as_json(self) -> dict[str, Any]:
        return dict(self._entries())

    def _entries(self) -> Iterator[tuple[str, Any]]:
        names = ["majority", "classes", "confusion", "answers"]
        for name in ["mistakes", *names] if self.mistakes_first else [*names, "mistakes"]:
            part = getattr(self, name)
            if part is not None:
                yield name, [asdict(row) for row in part] if isinstance(part, tuple) else asdict(part)
        if self.checks is not None:
            yield "checks", [finding.as_json() for finding in self.checks]
            yield "collapsed", collapse_sentence(self.checks)


@dataclass(frozen=True)
class Baseline:
    """The accuracy, or another metric, of a way to predict that was not trained on the task, over n texts;
    of words the accuracy is over n tokens."""

    name: str
    value: float
    interval: tuple[float, float] | None
    n: int
    definition: str
    metric: str = "accuracy"

    def __str__(self) -> str:
        between = "" if self.interval is None else " ({:.4f} to {:.4f})".format(*self.interval)
        return f"{self.name} {self.value:.4f}{between}"


def baselines_sentence(baselines: Sequence[Baseline]) -> str:
    """All in one line; nothing where there are none."""
    if not baselines:
        return ""
    groups: dict[str, list[Baseline]] = {}
    for baseline in baselines:
        groups.setdefault(baseline.metric.replace("_", " "), []).append(baseline)
    return " ".join(
        f"Baselines ({metric}, n = {sizes_phrase(group)}): {', '.join(map(str, group))}."
        for metric, group in groups.items()
    )


def sizes_phrase(baselines: Sequence[Baseline]) -> str:
    return " and ".join(f"{n:,}" for n in sorted({baseline.n for baseline in baselines}))


def shown(example: Example) -> str:
    """The beginning of a text, or of two."""
    text = " ".join(" / ".join(part for part in (example.text, example.pair) if part).split())
    if not text and example.image is not None:
        text = example.image.name or example.place
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
