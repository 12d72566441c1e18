"""Every measure of a model's losses with its definition and its interval."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from attnlab.evaluation.documents import DocumentLosses
from attnlab.evaluation.evaluation_result import DefinedScore
from attnlab.evaluation.statistics import loss_interval
from attnlab.metrics import METRICS
from attnlab.metrics.measures import measure_of
from attnlab.targets.wording import DEFINITIONS as DEFINITIONS_BY_TARGET
from attnlab.targets.wording import LABELLED

if TYPE_CHECKING:
    from attnlab.session.trained import Trained

DEFINITIONS = {
    "unknown_share": "share of the targets that are unknown words, predicted as such, not by their letters",
    "targets": "tokens that were predicted",
    "texts": "texts scored; intervals are over others like them",
}
MASKED = {
    "loss": "nats per hidden token, many hidden at once",
    "perplexity": "e^loss of hidden tokens; not of a text: see pseudo-perplexity",
    "targets": "tokens that were hidden and predicted",
}
THREE_MASKS = {
    "loss": "nats per hidden token, many hidden at once, seen from both sides, the left or a source by turns"
}
PART = "a part of the loss, nats per target"


def scores_of(
    losses: DocumentLosses, definitions: Mapping[str, str] = DEFINITIONS, first: Sequence[str] = ()
) -> dict[str, DefinedScore]:
    """Each metric by its name, some first, with its definition, and its interval where it has one."""
    built = {name: METRICS.build(name) for name in dict.fromkeys([*first, *METRICS])}
    metrics = {name: metric for name, metric in built.items() if metric.applies(losses.examples)}
    count = losses.score.tokens
    values: dict[str, float] = {name: metric.value(losses.examples) for name, metric in metrics.items()}
    values |= {"unknown_share": losses.unknown_share} if "bits_per_byte" in metrics else {}
    values |= {name: part / max(1, count) for name, part in losses.parts.items()}
    values |= {"targets": count, "texts": int((losses.targets > 0).sum())}
    usual = {name: measure_of(name).definition for name in metrics}
    defined = {**usual, **definitions, **sum_of(losses.parts), **unspelt(losses.unknown_share)}
    finite = [name for name in metrics if math.isfinite(values[name])]  # others fail their confirmation
    intervals = {name: loss_interval(losses, name).interval for name in finite}
    signatures = {name: metric.signature(losses.examples) for name, metric in metrics.items()}
    return {
        name: DefinedScore(value, defined.get(name, PART), intervals.get(name), signatures.get(name, ""))
        for name, value in values.items()
    }


def values_and_intervals(
    scores: Mapping[str, DefinedScore],
) -> tuple[dict[str, float], dict[str, tuple[float, float] | None]]:
    """Both apart, of those that are metrics the intervals."""
    values = {name: score.value for name, score in scores.items()}
    return values, {name: score.interval for name, score in scores.items() if name in METRICS}


def sum_of(parts: Collection[str]) -> dict[str, str]:
    """The definitions of a loss that has several parts, the words' first."""
    if not parts:
        return {}
    named, first = " + ".join(parts), next(iter(parts))
    return {
        "loss": f"{named}, a sum of {len(parts)} losses: nats per hidden token",
        "perplexity": f"e^{first} of hidden tokens; not of a text: see pseudo-perplexity",
    }


def unspelt(share: float) -> dict[str, str]:
    """What bits per byte are worth where words were unknown: their bytes count, their letters are free."""
    if not share:
        return {}
    reason = f"{share:.1%} of the targets are unknown words, whose spelling is not paid for"
    return {
        "bits_per_byte": f"bits per byte of UTF-8 text; {reason}: not comparable with another tokenizer's"
    }


def definitions_for(trained: Trained) -> dict[str, str]:
    """What the measures mean for this model."""
    if not trained.task.predicts_words:
        return DEFINITIONS_BY_TARGET.get(trained.task.target.name, LABELLED)
    if not trained.fills:
        return DEFINITIONS
    return DEFINITIONS | MASKED | (THREE_MASKS if trained.task.marks_source else {})
