"""Which weights training has changed."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from statistics import median
from typing import ClassVar

import torch
from torch import nn

from attnlab.checks.check import Case, Check
from attnlab.model.attention.argmax import Argmax
from attnlab.model.blocks import Attention, CrossAttention, PreNorm
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.runs.typed import Value

FAR_LESS = 1e-3


class Moved(Check):
    """Moved: has every tuned weight changed, and no frozen one?

    Formula: each parameter after training compared with its value before the first step: Δ = w′ − w. Frozen
    ones are the same bit by bit. Of tuned ones, a warning names those whose Δ is 0; whose w′ is only a
    smaller w (the part of Δ that is not along w is below 0.001 of it: weight decay alone); and whose Δ is
    below 0.001 of the median of all, both for each number and relative to the tensor's own size.

    When it helps: a frozen part that moved makes "only the adapter was tuned" untrue; a tuned one
    that did not was never reached by a gradient, or was not given to the optimizer.

    Cannot see: a part that moves like the others and learns nothing, such as one that a gradient of
    rounding errors moves; rows of a table that no text looks up.
    """

    when: ClassVar[tuple[When, ...]] = ("after",)
    limit: ClassVar[float] = 0.5

    def run(self, case: Case) -> Finding:
        if case.initial is None or case.step == 0:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "nothing_to_compare")
        initial = {name: p.detach().cpu() for name, p in case.initial().named_parameters()}
        named = {name: parameter.detach().cpu() for name, parameter in case.model.named_parameters()}
        tuned = {name for name, parameter in case.model.named_parameters() if parameter.requires_grad}
        untaught, barely = taught_nothing(case.model), barely_taught(case.model)
        return self.judge(case.when, named, initial, tuned, untaught=untaught, barely=barely)

    def judge(
        self,
        when: When,
        named: Mapping[str, torch.Tensor],
        initial: Mapping[str, torch.Tensor],
        tuned: set[str],
        *,
        untaught: Collection[str] = (),
        barely: Collection[str] = (),
    ) -> Finding:
        """Parameters, or the same part of each, now and before the first step."""
        same = {name for name, value in named.items() if name in initial and equal(value, initial[name])}
        strayed = named.keys() - tuned - same
        if strayed:
            return self.finding(when, Outcome.FAIL, "strayed", float(len(strayed)), names=sorted(strayed))
        still = (tuned & same) - set(untaught)
        if tuned and still == tuned:
            return self.finding(when, Outcome.FAIL, "none", float(len(still)), tuned=len(tuned))
        if still:
            names = sorted(still)
            return self.finding(when, Outcome.WARN, "still", float(len(still)), names=names, tuned=len(tuned))
        slow = lagging(named, initial, tuned - set(barely))
        if slow:
            return self.finding(when, Outcome.WARN, "slow", float(len(slow)), moves=slow, tuned=len(tuned))
        return self.finding(
            when, Outcome.PASS, "moved", 0.0, tuned=len(tuned), frozen=len(named) - len(tuned)
        )


@dataclass(frozen=True)
class Movement:
    """How far a tensor moved: in the mean of its numbers, relative to its size, and beside a mere scaling."""

    each: float
    relative: float
    beside_scaling: float  # of Δ

    @staticmethod
    def of(value: torch.Tensor, before: torch.Tensor) -> Movement:
        new, old = value.double().flatten(), before.detach().cpu().double().flatten()
        size, moved = float(old.norm()), float((new - old).norm())
        relative = moved / size if size else 0.0  # from nothing: what each number moved must do
        scaled = old * (new @ old / (old @ old)) if size and len(old) > 1 else old
        beside = float((new - scaled).norm()) / moved if moved else 1.0
        return Movement(moved / len(old) ** 0.5, relative, beside)


def lagging(
    named: Mapping[str, torch.Tensor], initial: Mapping[str, torch.Tensor], judged: Collection[str]
) -> list[dict[str, Value]]:
    """Parameters that moved by weight decay alone, or so many times less than the median."""
    moves = {name: Movement.of(named[name], initial[name]) for name in judged if name in initial}
    if not moves:
        return []
    each = median(move.each for move in moves.values())
    relative = median(move.relative for move in moves.values() if move.relative or not move.each)
    slow: list[dict[str, Value]] = []
    for name, move in moves.items():
        if move.beside_scaling < FAR_LESS:
            slow.append({"name": name, "less": None, "relative": move.relative})
        elif move.each < FAR_LESS * each and move.relative < FAR_LESS * relative:
            slow.append({"name": name, "less": each / move.each, "relative": move.relative})
    return slow


def barely_taught(model: nn.Module) -> set[str]:
    """What no gradient reaches but rounding: an argmax's scores, and the keys' bias, which is the same for
    every key, so that a softmax ignores it."""
    biases = {name for name, _ in model.named_parameters() if name.endswith("projections.key.bias")}
    return taught_nothing(model) | biases


def equal(value: torch.Tensor, before: torch.Tensor) -> bool:
    return value.shape == before.shape and torch.equal(value, before.detach().cpu())


def taught_nothing(model: nn.Module) -> set[str]:
    """What only an argmax's scores use: it is constant almost everywhere, and gives that no gradient."""
    hard = [
        name
        for name, layer in model.named_modules()
        if isinstance(layer, Attention)
        and any(isinstance(part, Argmax) and not part.straight_through for part in layer.rule.modules())
    ]
    scored = re.compile(r"projections\.(query|key)(_norm)?\.|positions\.table")
    named = {name for name, _ in model.named_parameters() if hard and scored.search(name)}
    scores = {name for name in named if "positions" in name or any(name.startswith(place) for place in hard)}
    return scores | {
        f"{place}.norm.{name}"  # it feeds the queries of cross-attention alone
        for place, part in model.named_modules()
        if isinstance(part, PreNorm) and isinstance(part.inner, CrossAttention) and f"{place}.inner" in hard
        for name, _ in part.norm.named_parameters()
    }
