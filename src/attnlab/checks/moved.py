"""Which weights training has changed."""

from __future__ import annotations

import re
from typing import ClassVar

import torch
from torch import nn

from attnlab.checks.check import Case, Check, Finding, When
from attnlab.model.attention.argmax import Argmax
from attnlab.model.blocks import Attention
from attnlab.training.checkpoint import listed


class Moved(Check):
    """Moved: has every tuned weight changed, and no frozen one?

    Formula: each parameter after training beside its value before the first step, bit by bit.

    When it helps: a frozen part that moved makes "only the adapter was tuned" untrue; a tuned one
    that did not was never reached by a gradient, or was not given to the optimizer.
    """

    when: ClassVar[tuple[When, ...]] = ("after",)
    limit: ClassVar[float] = 0.5

    def run(self, case: Case) -> Finding:
        if case.initial is None or case.step == 0:
            return self.not_applicable(case, "there is nothing to compare: no step was made")
        initial = dict(case.initial().named_parameters())
        named = {name: parameter.detach().cpu() for name, parameter in case.model.named_parameters()}
        tuned = {name for name, parameter in case.model.named_parameters() if parameter.requires_grad}
        same = {name for name, value in named.items() if name in initial and equal(value, initial[name])}
        strayed = named.keys() - tuned - same
        if strayed:
            return self.failed(
                case,
                f"{len(strayed)} frozen parameters have moved: {listed(strayed)}",
                float(len(strayed)),
                meaning="More was tuned than is said: counts and comparisons of what was tuned are wrong.",
                fix="Give the optimizer only what is to be tuned, and load frozen weights before freezing.",
            )
        still = (tuned & same) - taught_nothing(case.model)
        if tuned and still == tuned:
            return self.failed(
                case,
                f"none of {len(tuned)} tuned parameters has moved",
                float(len(still)),
                meaning="Nothing was learnt: the model is the one that training began with.",
                fix="Look at the learning rate, and at what the optimizer was given.",
            )
        if still:
            return self.warned(
                case,
                f"{len(still)} of {len(tuned)} tuned parameters have not moved: {listed(still)}",
                float(len(still)),
                meaning="No gradient reached them, or the optimizer does not have them.",
                fix="Freeze what is not to be tuned; otherwise look where its gradient is lost.",
            )
        frozen = len(named) - len(tuned)
        return self.passed(case, f"{len(tuned)} tuned parameters moved, {frozen} frozen ones did not", 0.0)


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
    found = {name for name, _ in model.named_parameters() if hard and scored.search(name)}
    return {name for name in found if "positions" in name or any(name.startswith(place) for place in hard)}
