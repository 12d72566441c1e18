"""A handful of tokens, learned by heart."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import ClassVar

import torch
from torch import Tensor

from attnlab.checks.check import Case, Check
from attnlab.checks.real import batch_of, piece, prepared_of
from attnlab.model.heads.boundary import SpanBoundary
from attnlab.model.isolation import copy_of
from attnlab.model.losses import IGNORE
from attnlab.model.model import Model
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.targets.target import entropy
from attnlab.tasks.task import Prepared, Spans, Task
from attnlab.training.updates import AdamWUpdate, ParameterGroup

ROWS, LENGTH = 2, 16
EXAMPLES = 12
"""Rows that are learned where each is one target."""
ATTEMPTS = ((0.6, 80), (0.3, 80), (0.1, 80), (0.03, 320))
"""Rates and steps, tried in turn, each from the start; rates are divided by the width: no one suits every
model. A high one may learn how often targets occur with weights so large that inputs hardly matter beside
them, and stay there: the last is low, and long."""
SHARE = 0.3
DEEPEST = 100
"""Layers beyond which it is not tried."""


class Overfit(Check):
    """Overfit: can the model memorise 2 × 16 tokens of real text, or 12 labels or answers?

    Formula: at most 80 steps of Adam on a copy without dropout, at up to three rates, and 320 at a
    low one, until loss ≤ f + 0.3·(b − f). Here f is what no weights can go below (different targets
    in contexts that masks and positions do not tell apart), and b is the best that a model can do
    which does not look at its input: the entropy of these targets.

    When it helps: a model that cannot learn a few tokens has a fault (gradients that do not arrive,
    an input that is cut off, targets that do not belong to it), and no amount of text will help.

    Cannot see: a part that others make up for on so few tokens, or one that learns too slowly for
    the run's own rate and budget; models of more than 100 layers are not tried.
    """

    when: ClassVar[tuple[When, ...]] = ("before",)
    limit: ClassVar[float] = 1.5
    same_for_seeds: ClassVar[bool] = True

    def run(self, case: Case) -> Finding:
        if case.config.adapter.kind != "full":
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "frozen")
        if case.config.model.layers > DEEPEST:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "too_deep", most=DEEPEST)
        rows = ROWS if case.task.predicts_words else EXAMPLES
        prepared = prepared_of(case, piece(batch_of(case, least=LENGTH), rows, LENGTH))
        if not prepared.count:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "no_target", rows=ROWS, length=LENGTH)
        wanted = wanted_of(case, prepared)
        first, best, steps = learned(case.model, case.task, prepared, wanted)
        values = {"first": first, "best": best, "steps": steps, "wanted": wanted}
        outcome, kind = (Outcome.PASS, "learned") if best <= wanted else (Outcome.FAIL, "not_learned")
        return self.finding(case.when, outcome, kind, best, targets=prepared.count, **values)


def wanted_of(case: Case, prepared: Prepared) -> float:
    """The loss that is to be reached, per target as the task counts them."""
    if case.task.target.by_token:
        return goal(case.model, prepared)
    return label_goal(case.task, prepared)


def learned(model: Model, task: Task, prepared: Prepared, wanted: float) -> tuple[float, float, int]:
    """The first loss, the best one, and the steps until then."""
    first, best, taken = math.nan, math.inf, 0
    for rate, steps in ATTEMPTS:
        losses = course(copy_of(model).eval(), task, prepared, wanted, rate / model.trunk.width, steps)
        taken += len(losses) - 1
        first, best = losses[0], min(best, *losses)
        if best <= wanted:
            break
    return first, best, taken


def course(
    model: Model, task: Task, prepared: Prepared, wanted: float, rate: float, steps: int
) -> list[float]:
    """The loss before each step; the last one is before none."""
    tuned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = AdamWUpdate([ParameterGroup(tuned, rate)], betas=(0.9, 0.95))
    losses: list[float] = []
    with torch.random.fork_rng(), torch.enable_grad():
        for _ in range(steps + 1):
            loss = task.loss(model, prepared)
            parts = max(len(loss.parts), 1)
            losses.append(float(loss.mean.detach()) / parts)
            if losses[-1] <= wanted or not math.isfinite(losses[-1]):
                break
            optimizer.zero_grad()
            loss.mean.backward()
            optimizer.step()
    return losses


def goal(model: Model, prepared: Prepared) -> float:
    """The loss that shows that the inputs were learned, and not only how often each target occurs."""
    places = (prepared.targets != IGNORE).nonzero().tolist()
    targets = [int(prepared.targets[row, place]) for row, place in places]
    blind = entropy([0] * len(targets), targets)
    floor = entropy(contexts(model, prepared, places), targets)
    spans = prepared.spans
    if spans is not None and isinstance(model.head, SpanBoundary):
        boundary = entropy(
            boundaries(model, prepared, spans), prepared.targets[spans.row, spans.place].tolist()
        )
        floor = (floor + boundary) / 2  # the loss is a mean of both guesses
    return max(
        floor + SHARE * (blind - floor),
        floor + 0.05 * math.log(model.vocabulary),
    )


def label_goal(task: Task, prepared: Prepared) -> float:
    """The same for labels: what is left to guess of those that stand on one and the same text."""
    texts = [tuple(ids) for ids in told_apart(prepared.ids, prepared.vectors).tolist()]
    blind, floor = (task.target.uncertainty(prepared.targets, given) for given in ([0] * len(texts), texts))
    return max(floor + SHARE * (blind - floor), floor + 0.05 * task.blind_loss(prepared))


def boundaries(model: Model, prepared: Prepared, spans: Spans) -> list[Hashable]:
    """What a head that guesses from a span's boundaries sees: the tokens on both sides, and the place."""
    rows, steps = spans.row.tolist(), (spans.place - spans.start).tolist()
    left = contexts(model, prepared, list(zip(rows, (spans.start - 1).tolist(), strict=True)))
    right = contexts(model, prepared, list(zip(rows, (spans.end + 1).tolist(), strict=True)))
    return list(zip(left, right, steps, strict=True))


def contexts(model: Model, prepared: Prepared, places: Sequence[Sequence[int]]) -> list[Hashable]:
    """The context of each (row, place): equal for two places that no weights can tell apart."""
    by_row = {row: contexts_of_row(model, prepared, row) for row in {row for row, _ in places}}
    return [by_row[row][place] for row, place in places]


def contexts_of_row(model: Model, prepared: Prepared, row: int) -> list[Hashable]:
    which = torch.tensor([row])
    source, source_tokens, vectors = prepared.source, prepared.source_tokens, prepared.vectors
    return model.trunk.contexts(
        told_apart(prepared.ids, vectors if source is None else None)[row],
        prepared.tokens.select(which),
        types=None if prepared.types is None else prepared.types[row],
        source=None if source is None else told_apart(source, vectors)[row],
        source_tokens=None if source_tokens is None else source_tokens.select(which),
    )


def told_apart(ids: Tensor, vectors: Tensor | None) -> Tensor:
    """(B,T) a number for each token, equal for equal ids with equal vectors; the ids, without vectors."""
    if vectors is None:
        return ids
    both = torch.cat([ids[..., None].to(vectors), vectors], -1)
    numbers: Tensor = both.flatten(0, 1).unique(dim=0, return_inverse=True)[1]
    return numbers.view(ids.shape)
