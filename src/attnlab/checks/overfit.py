"""A handful of tokens, learnt by heart."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import ClassVar

import torch
from torch import Tensor

from attnlab.checks.check import Case, Check, Finding, When
from attnlab.checks.paths import declared, joined
from attnlab.checks.real import batch_of, copy_of, piece, prepared_of
from attnlab.model.losses import IGNORE
from attnlab.model.model import Model
from attnlab.objectives.objective import Objective, Prepared
from attnlab.training.updates import AdamWUpdate, Group

ROWS, LENGTH = 2, 16
RATES = (0.3, 0.9, 0.1)
"""Tried in turn, each from the start and divided by the width: no one rate suits every model."""
STEPS = 80
SHARE = 0.3


class Overfit(Check):
    """Overfit: can the model learn 2 × 16 tokens of real text by heart?

    Formula: at most 80 steps of Adam on a copy without dropout, at up to three rates, until
    loss ≤ f + 0.3·(b − f). Here f is what no model can go below (equal contexts with different
    targets), and b is the best that a model can do which does not look at its input: the entropy of
    these targets.

    When it helps: a model that cannot learn a few tokens has a fault (gradients that do not arrive,
    an input that is cut off, targets that do not belong to it), and no amount of text will help.
    """

    when: ClassVar[tuple[When, ...]] = ("before",)
    limit: ClassVar[float] = 1.5

    def run(self, case: Case) -> Finding:
        prepared = prepared_of(case, piece(batch_of(case, least=LENGTH), ROWS, LENGTH))
        if not prepared.count:
            return self.not_applicable(case, f"no target is among the first {ROWS} × {LENGTH} tokens")
        wanted = goal(case.model, prepared)
        first, best, steps = learnt(case.model, case.objective, prepared, wanted)
        told = (
            f"{prepared.count} targets: loss {first:.2f} → {best:.2f} in {steps} steps; "
            f"{wanted:.2f} was to be reached"
        )
        if best <= wanted:
            return self.passed(case, told, best)
        return self.failed(
            case,
            told,
            best,
            meaning="The model cannot learn a handful of tokens by heart: something in it does not learn.",
            fix="Look for a part that no gradient reaches, an input that does not arrive, or targets that "
            "belong to other inputs.",
        )


def learnt(model: Model, objective: Objective, prepared: Prepared, wanted: float) -> tuple[float, float, int]:
    """The first loss, the best one, and the steps until then."""
    first, best, steps = math.nan, math.inf, 0
    for rate in RATES:
        width = model.trunk.main.embedding.tokens.embedding_dim
        losses = course(copy_of(model).eval(), objective, prepared, wanted, rate / width)
        steps += len(losses) - 1
        first, best = losses[0], min(best, *losses)
        if best <= wanted:
            break
    return first, best, steps


def course(model: Model, objective: Objective, prepared: Prepared, wanted: float, rate: float) -> list[float]:
    """The loss before each step; the last one is before none."""
    tuned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = AdamWUpdate([Group(tuned, rate)], betas=(0.9, 0.95))
    losses: list[float] = []
    with torch.random.fork_rng(), torch.enable_grad():
        for _ in range(STEPS + 1):
            found = objective.loss(model, prepared)
            parts = max(len(found.parts), 1)
            losses.append(float(found.mean.detach()) / parts)
            if losses[-1] <= wanted or not math.isfinite(losses[-1]):
                break
            optimizer.zero_grad()
            found.mean.backward()
            optimizer.step()
    return losses


def goal(model: Model, prepared: Prepared) -> float:
    """The loss that shows that the inputs were learnt, and not only how often each target occurs."""
    kept = (prepared.targets != IGNORE).nonzero().tolist()
    targets = [int(prepared.targets[row, place]) for row, place in kept]
    blind = entropy([0] * len(targets), targets)
    floor = entropy(contexts(model, prepared, kept), targets)
    return max(
        floor + SHARE * (blind - floor),
        floor + 0.05 * math.log(model.trunk.main.embedding.tokens.num_embeddings),
    )


def entropy(given: Sequence[Hashable], targets: Sequence[int]) -> float:
    """Nats a target that are left when what is given is known."""
    groups, pairs = Counter(given), Counter(zip(given, targets, strict=True))
    return sum(n * math.log(groups[context] / n) for (context, _), n in pairs.items()) / len(targets)


def contexts(model: Model, prepared: Prepared, places: Sequence[Sequence[int]]) -> list[Hashable]:
    """What each place can see, by the declared masks."""
    found: list[Hashable] = []
    reach: dict[int, Tensor] = {}
    for row, place in places:
        if row not in reach:
            tokens = prepared.tokens.select(torch.tensor([row]))
            reach[row] = joined(declared(model.trunk.main, tokens))
        seen = reach[row][place].nonzero()[:, 0]
        position = prepared.tokens.position.expand(len(prepared.ids), -1)[row]
        source = () if prepared.source is None else tuple(prepared.source[row].tolist())
        at = int(position[place])
        found.append((at, tuple(prepared.ids[row, seen].tolist()), tuple(position[seen].tolist()), source))
    return found
