"""Whether two results may stand side by side: decided here alone.

Studies, `attnlab compare`, the tables of a report and the check of runs all ask `comparability`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from attnlab.metrics import METRICS
from attnlab.metrics.measures import Measure, measures
from attnlab.metrics.metric import is_of_texts
from attnlab.runs.reason import Reason, ReasonKind
from attnlab.runs.result import RunResult

SURVIVES = "bits_per_byte"
"""The one loss that a change of tokenizer leaves comparable."""

UNKNOWN = "unknown_share"
"""Where it is above 0 even that does not survive: unknown words have bytes, but no letter is predicted."""

SAME_BYTES = 0.02
"""The first token of each row of a long text is not predicted, and is another stretch of text under another
tokenizer: with rows of 50 tokens or more these are 2% of the bytes at the most."""

ROW_LABELS = {"label", "labels", "number"}
"""Each row has one, whatever of the row a model reads."""
LABELS = ROW_LABELS | {"tag_counts"}
OF_LABELS = ("loss", "train_loss")
"""Of a run that is judged by LABELS these count texts or words, whatever the tokenizer."""

Aspect = Literal["metric", "tokenizer", "evaluation set", "data order"]


@dataclass(frozen=True, kw_only=True)
class Basis:
    """What a run's numbers rest on; None is what it does not say. `part` is how much of dev was scored,
    `given` are the rows and the text of a dev file of its own, `batches` marks of those that it was really
    fed, by their count."""

    task: Any = None
    tokenizer: str | None = None
    text: str | None = None
    dev: str | None = None
    part: Any = "all"
    train: str | None = None
    order: Any = None
    seed: int | None = None
    given: Mapping[str, str] = field(default_factory=dict)
    batches: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, run: RunResult, *, part: Any = "all") -> Basis:
        """Of what a run came to; a study scores all of dev."""
        trace = run.trace or {}
        return cls.of_fingerprints(
            run.fingerprints,
            part=part,
            seed=run.seed,
            batches=trace.get("batches") or {},
            metrics=run.metrics,
        )

    @classmethod
    def of_fingerprints(cls, prints: Mapping[str, Any], **known: Any) -> Basis:
        """Of the fingerprints that a run recorded, and what else is known of it."""
        data = prints.get("data")
        splits = data if isinstance(data, Mapping) else {"dev": data}
        own: dict[str, Any] = {name: prints.get(name) for name in ("task", "tokenizer", "text", "order")}
        given = prints.get("given") or {}
        return cls(**own, dev=splits.get("dev"), train=splits.get("train"), given=given, **known)

    def says(self, aspect: Aspect) -> bool:
        """Whether the run says what decides this."""
        values = {
            "metric": self.task,
            "tokenizer": self.tokenizer,
            "evaluation set": self.dev,
            "data order": self.order,
        }
        return values[aspect] is not None


@dataclass(frozen=True)
class Difference:
    """One thing that two results do not share."""

    aspect: Aspect
    reason: Reason


@dataclass(frozen=True)
class Comparability:
    """`judged` keeps two numbers from meaning the same; `trained` leaves their meaning, but they are not
    results of equals."""

    judged: tuple[Difference, ...]
    trained: tuple[Difference, ...]

    @property
    def reasons(self) -> list[Reason]:
        """Why the numbers do not mean the same; none where they do."""
        return [difference.reason for difference in self.judged]

    @property
    def doubts(self) -> list[Reason]:
        """Why they are not results of equals; none where they are."""
        return [difference.reason for difference in self.trained]


def comparability(
    one: Basis,
    other: Basis,
    *,
    metric: str = "loss",
    own: Mapping[str, Measure] | None = None,
    changed: Collection[str] = (),
) -> Comparability:
    """How two results differ in what a metric of them rests on.

    `own` are a study's own measures. `changed` are the settings that are changed on purpose: data that differ
    by them are the point.
    """
    judged = judged_apart(one, other, metric, measures(own).get(metric))
    return Comparability(tuple(judged), tuple(trained_apart(one, other, changed)))


def judged_apart(one: Basis, other: Basis, metric: str, known: Measure | None) -> Iterator[Difference]:
    written = metric in METRICS and is_of_texts(METRICS[metric])  # the same whatever task and tokens wrote it
    if known is not None and known.of_task and one.task != other.task and not written:
        yield Difference("metric", Reason(ReasonKind.OTHER_TASK))
    same_tokens = one.tokenizer == other.tokenizer
    if not same_tokens and counts_tokens(metric) and not of_labels(metric, one, other, LABELS):
        values = {"metric": metric, "instead": SURVIVES}
        yield Difference("tokenizer", Reason(ReasonKind.OTHER_TOKENIZER, values))
    same_rows = same(one.dev, other.dev) or same_given(one, other, "dev")
    same_text = same(one.text, other.text) or same_given(one, other, "dev text")
    of_rows = written or of_labels(metric, one, other, ROW_LABELS)  # whatever columns and tokens were read
    if not (same_rows or (same_text and (of_rows or not same_tokens))):
        yield Difference("evaluation set", Reason(ReasonKind.OTHER_DEV))
    elif one.part != other.part:
        parts = [str(one.part), str(other.part)]
        yield Difference("evaluation set", Reason(ReasonKind.OTHER_PART, {"parts": parts}))
    if metric == SURVIVES and not same_tokens:
        yield from (Difference("tokenizer", reason) for reason in unspelt(one.metrics, other.metrics))


def same(one: str | None, other: str | None) -> bool:
    """Whether both are known, and equal."""
    return one == other and one is not None


def same_given(one: Basis, other: Basis, what: str) -> bool:
    """Whether both runs have the same dev file, whatever else was held out of their other text."""
    return same(one.given.get(what), other.given.get(what))


def counts_tokens(metric: str) -> bool:
    """Whether a number is one of tokens, whatever it makes of them; not where it is of bytes or of texts."""
    return metric not in METRICS or "targets" in METRICS[metric].needs


def of_labels(metric: str, one: Basis, other: Basis, labels: Collection[str]) -> bool:
    """Whether a metric of two runs counts labels of these kinds. Losses do where a metric beside them does:
    one of the runs may have no numbers yet."""
    names = {*one.metrics, *other.metrics} if metric in OF_LABELS and one.task == other.task else {metric}
    return any(not {*labels}.isdisjoint(METRICS[name].needs) for name in names if name in METRICS)


def unspelt(one: Mapping[str, float], other: Mapping[str, float]) -> Iterator[Reason]:
    """Why bits per byte of two tokenizers may not be set side by side, by the two runs' numbers."""
    share = max(one.get(UNKNOWN, 0.0), other.get(UNKNOWN, 0.0))
    if share:
        yield Reason(ReasonKind.UNKNOWN_WORDS, {"share": share, "metric": SURVIVES})
    sizes = [scored_bytes(numbers) for numbers in (one, other)]
    if not math.isclose(*sizes, rel_tol=SAME_BYTES):
        yield Reason(ReasonKind.OTHER_BYTES, {"bytes": sizes})


def scored_bytes(metrics: Mapping[str, float]) -> float:
    """How many bytes of text stand behind a run's bits per byte, by its own numbers; 0 where it has none."""
    bits = metrics.get("loss", 0.0) * metrics.get("targets", 0.0) / math.log(2)
    return bits / metrics[SURVIVES] if metrics.get(SURVIVES) else 0.0


def trained_apart(one: Basis, other: Basis, changed: Collection[str]) -> Iterator[Difference]:
    """Other examples, or the same in another order; with another seed they have another order anyway."""
    if any(key.startswith("data.") for key in changed) or tokens_by_start(one, other, changed):
        return
    first = first_difference(one.batches, other.batches)
    if one.train != other.train:
        yield Difference("data order", Reason(ReasonKind.OTHER_EXAMPLES))
    elif one.seed != other.seed:
        return
    elif one.order != other.order:
        yield Difference("data order", Reason(ReasonKind.OTHER_ORDER))
    elif first:
        yield Difference("data order", Reason(ReasonKind.OTHER_BATCHES, {"batch": first}))


def tokens_by_start(one: Basis, other: Basis, changed: Collection[str]) -> bool:
    """Whether the same texts are other tokens to two arms because their starts have their own tokenizers."""
    return "start" in changed and one.tokenizer != other.tokenizer and one.text == other.text


def first_difference(one: Mapping[str, str], other: Mapping[str, str]) -> int:
    """The first count that both trails have marked and differ at; 0 where there is none."""
    counts = sorted(int(count) for count in one.keys() & other.keys())
    return next((count for count in counts if one[str(count)] != other[str(count)]), 0)
