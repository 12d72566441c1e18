"""Padding and company: does a text's score depend on what else is in the batch?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from attnlab.checks.check import Case, Check, Moment
from attnlab.generation.decoder import padded
from attnlab.model.heads.head import Head
from attnlab.model.isolation import sample_of
from attnlab.model.model import Model
from attnlab.model.tokens import Tokens
from attnlab.runs.findings import Finding, Outcome, When

LENGTHS = (4, 7, 11)
EQUAL = 1e-9
"""Of the largest, in float64."""

Rows = list[list[int]]


class Invariance(Check):
    """Invariance: padding side, batch size and the other rows change neither scores nor gradients.

    Formula: three texts of different lengths are scored one by one, together padded on the right,
    together padded on the left, and in reverse order with others; scores of real tokens and the
    gradient of every parameter must agree, in a float64 copy, to 1e-9 of the largest.

    When it helps: a pad key that stays in a sum (linear attention's denominator), a position that
    counts padding, or statistics over the batch make results depend on the batch they were in.

    Cannot see: a dependence on more than three texts or on lengths above eleven tokens, and anything that
    shows in float32 alone.
    """

    when: ClassVar[tuple[When, ...]] = ("before",)
    limit: ClassVar[float] = 1.0
    samples_layers: ClassVar[bool] = True

    def run(self, case: Case) -> Finding:
        model, vocabulary = sample_of(case.model).double().eval(), case.dataset.tokenizer.size
        generator = torch.Generator().manual_seed(2)
        lengths = [min(length, case.config.longest_text) for length in LENGTHS]
        rows = [torch.randint(vocabulary, (n,), generator=generator).tolist() for n in lengths]
        alone = Scored(model, [[row] for row in rows], "right")
        backwards = Scored(model, [rows[::-1]], "right")
        backwards.scores.reverse()
        gaps = {
            "padded on the right": self.gap(Scored(model, [rows], "right"), alone),
            "padded on the left": self.gap(Scored(model, [rows], "left"), alone),
            "in another order": self.gap(backwards, alone),
        }
        return self.judge(case, gaps, len(rows), EQUAL)

    def judge(self, at: Moment, gaps: Mapping[str, float], texts: int, equal: float) -> Finding:
        """How far texts score differently in each arrangement than alone, of the largest; `equal` is no
        difference."""
        name, size = max(gaps.items(), key=lambda item: item[1])
        if size > equal:
            return self.finding(at, Outcome.FAIL, "differ", size, arrangement=name)
        return self.finding(at, Outcome.PASS, "agree", size, texts=texts, arrangements=len(gaps))

    @staticmethod
    def gap(scored: Scored, alone: Scored) -> float:
        """The largest difference in scores, of the largest score, or in gradients, of the largest one."""
        pairs = zip(scored.scores, alone.scores, strict=True)
        gaps = [distance(own, other, float(other.abs().max())) for own, other in pairs]
        largest = alone.largest_gradient  # some are zero but for rounding
        gaps += [distance(scored.gradient[name], other, largest) for name, other in alone.gradient.items()]
        return max(gaps)


def by_place_and_row(head: Head, hidden: Tensor, tokens: Tokens, *, training: bool) -> tuple[Tensor, Tensor]:
    """A score for each place, and what the head makes of the row as a whole where the places are the
    trunk's."""
    scores = head(hidden, tokens)
    return (scores, hidden.new_empty(len(hidden), 0)) if head.scores_words else (hidden, scores)


class Scored:
    """Batches of rows: each row's scores, and every parameter's gradient of a weighted sum of all of them."""

    def __init__(self, model: Model, batches: Sequence[Rows], side: str):
        model.zero_grad()
        self.scores = [scores for rows in batches for scores in self.of_batch(model, rows, side)]
        gradients = ((name, parameter.grad) for name, parameter in model.named_parameters())
        self.gradient = {name: gradient for name, gradient in gradients if gradient is not None}

    @cached_property
    def largest_gradient(self) -> float:
        return max(float(gradient.abs().max()) for gradient in self.gradient.values())

    def of_batch(self, model: Model, rows: Rows, side: str) -> list[Tensor]:
        """Each row's scores; gradients are added to the model's."""
        ids, real = padded(rows, side=side)
        tokens = Tokens.of(ids.shape[1], real=real, source=self.source(model, ids, real))
        inputs: dict[str, Any] = {}
        if model.trunk.reads_source:
            inputs = {"source": ids, "source_tokens": Tokens.of(ids.shape[1], real=real)}
        with torch.enable_grad():
            scores, whole = model(ids, tokens, objective=by_place_and_row, **inputs)
            kept = torch.ones_like(ids, dtype=torch.bool) if real is None else real
            of_real = whole[kept] if whole.ndim == 3 else whole  # a head may score place by place as well
            (weighted(scores[kept]) + weighted(of_real)).backward()
        return [
            torch.cat([row[where].flatten(), judged[where].flatten() if judged.ndim > 1 else judged]).detach()
            for row, where, judged in zip(scores, kept, whole, strict=True)
        ]

    @staticmethod
    def source(model: Model, ids: Tensor, real: Tensor | None) -> Tensor | None:
        """The first three tokens of each text, for masks that ask."""
        if not model.trunk.asks_for_source:
            return None
        kept = torch.ones_like(ids, dtype=torch.bool) if real is None else real
        return kept & (kept.long().cumsum(1) <= 3)


def weighted(scores: Tensor) -> Tensor:
    """Some sum of all scores (…,V), to take gradients of."""
    weights = torch.randn(scores.shape[-1], generator=torch.Generator().manual_seed(0))
    return (scores @ weights.to(scores)).nan_to_num().sum()


def distance(own: Tensor, other: Tensor, scale: float) -> float:
    """The largest difference, relative to a scale; what is no number is infinitely far."""
    return float((own - other).abs().max().nan_to_num(torch.inf)) / max(scale, 1e-30)
