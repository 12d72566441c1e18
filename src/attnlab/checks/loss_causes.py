"""Why a reported loss is not the recomputed one: each cause is tried, and that which explains it is named."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attnlab.data.batch import Batch
from attnlab.evaluation.evaluator import Evaluator
from attnlab.model.frozen import dropouts
from attnlab.model.losses import IGNORE
from attnlab.model.tokens import Tokens
from attnlab.runs.typed import Value
from attnlab.tasks.task import Prepared

CLOSE = 1e-6
"""Relative: how well a cause explains a loss."""


@dataclass(frozen=True)
class Losses:
    """What was reported, and what each target (n) of each batch loses when its text is read alone."""

    reported: float
    each: Sequence[Tensor]
    batches: Sequence[Prepared]
    of_text: Sequence[tuple[float, int]]

    @property
    def total(self) -> float:
        return math.fsum(nats for each in self.each for nats in each.tolist())

    @property
    def loss(self) -> float:
        return self.total / max(1, sum(map(len, self.each)))


def same(one: float, other: float) -> bool:
    return math.isfinite(one) and abs(one - other) <= CLOSE * max(1.0, abs(other))


def cause_of(evaluator: Evaluator, losses: Losses) -> dict[str, Value]:
    """The cause that explains a loss, with what it holds; nothing where none does."""
    for cause, number in by_arithmetic(losses):
        if same(number, losses.reported) and not same(number, losses.loss):
            return {"cause": cause}
    if same(mean_of(evaluator), losses.loss):  # nothing is wrong with the losses themselves
        return {}
    for cause, repaired in repairs(evaluator):
        if same(mean_of(repaired), losses.loss):
            return {"cause": cause}
    return added_penalty(evaluator, losses)


def by_arithmetic(losses: Losses) -> Iterator[tuple[str, float]]:
    """Other means and divisors of the same nats."""
    means = [float(each.mean()) for each in losses.each if len(each)]
    texts = [nats / targets for nats, targets in losses.of_text if targets]
    yield "mean_of_means", math.fsum(means) / max(1, len(means))
    yield "mean_of_texts", math.fsum(texts) / max(1, len(texts))
    flat = [nats for each in losses.each for nats in each.tolist()]
    for some in (means, texts, flat):
        yield "exponentials", math.log(math.fsum(map(math.exp, some)) / max(1, len(some)))
    yield "bits", losses.loss / math.log(2)
    count, rows = sum(map(len, losses.each)), sum(len(one.ids) for one in losses.batches)
    counts = {
        "places": sum(one.ids.numel() for one in losses.batches),
        "rows": rows,
        "batches": len(losses.batches),
        "one_more": count + 1,
        "one_less": count - 1,
        "texts": len(losses.of_text),
        "row_more": count + rows,
    }
    for divisor in counts.values():
        if divisor > 0 and divisor != count:
            yield "divisor", losses.total / divisor


def repairs(evaluator: Evaluator) -> Iterator[tuple[str, Evaluator]]:
    """The same evaluation with one thing put right."""
    with without_dropout(evaluator):
        yield "dropout", evaluator
    yield "precision", replace(evaluator, autocast=nullcontext)
    yield "positions", RepairedEvaluator.of(evaluator, "position")
    yield "documents", RepairedEvaluator.of(evaluator, "document")


@contextmanager
def without_dropout(evaluator: Evaluator) -> Iterator[None]:
    changed = [(part, name, rate) for part, name, rate in dropouts(evaluator.model.trunk)]
    for part, name, _ in changed:
        setattr(part, name, 0.0)
    try:
        yield
    finally:
        for part, name, rate in changed:
            setattr(part, name, rate)


@dataclass(frozen=True, kw_only=True)
class RepairedEvaluator(Evaluator):
    """An evaluator whose tokens have one coordinate as the batch itself says it."""

    coordinate: str = ""

    @classmethod
    def of(cls, evaluator: Evaluator, coordinate: str) -> RepairedEvaluator:
        return cls(**vars(evaluator) | {"coordinate": coordinate})

    def prepare(self, batch: Batch, number: int) -> Prepared:
        prepared = super().prepare(batch, number)
        plain = Tokens.of(prepared.ids.shape[1], real=batch.real, document=batch.document)
        right = {self.coordinate: getattr(plain, self.coordinate)}
        if self.coordinate == "position":
            right["bound"] = prepared.ids.shape[1]
        return replace(prepared, tokens=replace(prepared.tokens, **right))


@torch.no_grad()
def mean_of(evaluator: Evaluator) -> float:
    """The mean loss of all targets, as this evaluator has them; nan where it cannot be computed."""
    total, count = 0.0, 0
    try:
        for _, _, loss in evaluator.losses():
            words = loss.of_words
            total, count = total + float(words.total), count + int(words.count)
    except (RuntimeError, ValueError, TypeError, AttributeError):
        return math.nan
    return total / max(1, count)


@torch.no_grad()
def added_penalty(evaluator: Evaluator, losses: Losses) -> dict[str, Value]:
    """Whether what was added to every target is a constant share of smoothing or of log²Z, and which."""
    added, smooth, squares = [], [], []
    if not evaluator.task.predicts_words:
        return {}
    try:
        for (_, prepared, loss), each in zip(evaluator.losses(), losses.each, strict=True):
            scores = evaluator.model(**prepared.inputs)[prepared.targets != IGNORE].double()
            own = loss.of_words.each
            if own is None or len(own) != len(each):
                return {}
            added.append(own.double() - each)
            smooth.append(-scores.log_softmax(-1).mean(-1) - each)
            squares.append(scores.logsumexp(-1).square())
    except (RuntimeError, ValueError, TypeError, IndexError):
        return {}
    for cause, parts in (("smoothing", smooth), ("z_loss", squares)):
        extra, unit = torch.cat(added), torch.cat(parts)
        share = float((extra * unit).sum() / unit.square().sum().clamp(min=1e-30))
        if share > CLOSE and float((extra - share * unit).abs().max()) <= 1e-3 * float(extra.abs().max()):
            return {"cause": cause, "share": share}
    return {}
