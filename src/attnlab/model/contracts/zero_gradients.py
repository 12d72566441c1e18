"""Parameters whose gradient must be zero, each with its proof. Everything else must move."""

from __future__ import annotations

import re

from torch import Tensor

from attnlab.config.values import Choice
from attnlab.model.attention import ATTENTION
from attnlab.model.contracts.small_models import SmallModel


def expected_zero(case: SmallModel, name: str) -> str | None:
    """The reason why this parameter gets no gradient in this model, or None where it must get one."""
    assert isinstance(case.attention, Choice)
    outer = ATTENTION.resolve(case.attention)
    rule = outer.options.get("inner", outer)
    cross = case.family == "encoder_decoder" and ".decoder." in name and ".residuals.1." in name
    hard = rule.kind == "argmax" and not rule.options["straight_through"]
    for_scores = re.search(r"projections\.(query|key)(_norm)?\.", name) is not None
    if hard and for_scores and case.projections.kind != "shared_qkv":
        return "an argmax is constant almost everywhere: what only its scores use gets no gradient"
    if hard and cross and ".residuals.1.norm." in name and case.extras.get("residual", "pre") == "pre":
        return "a norm before cross-attention feeds its queries alone, and an argmax gives those no gradient"
    if hard and "positions.table" in name and case.positions.kind in ("relative", "bucketed"):
        return "an argmax is constant almost everywhere: a bias of its scores gets no gradient"
    turned = case.positions.kind == "rotary" and not cross
    if name.endswith("projections.key.bias") and rule.kind in ("dot", "argmax") and not turned:
        return "q·b is the same for every key, and a softmax ignores what is the same for all"
    return None


def looked_up(name: str, gradient: Tensor) -> Tensor:
    """The part of a gradient that must not be zero: rows of a table that were not looked up, and
    biases of distances that the mask forbids, are zero by construction."""
    table = re.search(r"(tokens|types|table)(\.weight)?$", name) is not None
    return gradient[gradient != 0] if table else gradient
