"""How far back a model sees, layer by layer: measured by gradient, against what mask and rule allow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from attnlab.config.wording import in_words
from attnlab.documents.nodes import Axis, Figure, Line, Lines, Node, Sentence, Table
from attnlab.documents.palette import ink
from attnlab.explain.explanation import Explanation
from attnlab.model.capture import capture, patch
from attnlab.model.depth import DeclaredReach, declared_reach
from attnlab.model.isolation import undisturbed
from attnlab.model.model import Model, hidden_states
from attnlab.model.tokens import Tokens

DASHED = replace(ink(2), dash="dash")
"""A bound lies over what is measured where the two are equal, and must not hide it."""


@dataclass(frozen=True)
class DepthReach:
    """At one depth: tokens that reach an output, the most and the mean over outputs, and the bounds."""

    depth: int
    most: int
    mean: float
    declared: int
    """By the masks and layouts of the layers up to here, the most over outputs."""
    argmax_bound: int | None
    """(k+1)^depth for argmax attention with k heads; None for other rules."""

    @property
    def bound(self) -> int:
        return self.declared if self.argmax_bound is None else min(self.declared, self.argmax_bound)


@dataclass(frozen=True)
class ReachByDepth(Explanation):
    depths: Sequence[DepthReach]
    length: int
    heads: int

    kind = "reach"

    @property
    def headline(self) -> str:
        last = self.depths[-1]
        by = "mask and layout" + ("" if last.argmax_bound is None else f" and (k+1)^n with k = {self.heads}")
        return (
            f"After {last.depth} layers an output depends on at most {last.most} of {self.length} tokens; "
            f"{by} allow {last.bound}."
        )

    @property
    def remark(self) -> str:
        beyond = [depth.depth for depth in self.depths if depth.most > depth.bound]
        if beyond:
            return f"The measured reach exceeds the bound at depth {in_words(beyond)}."
        return "The measured reach stays within the bound at every depth."

    def parts(self) -> list[Node]:
        rows = [[d.depth, d.most, d.mean, d.declared, d.argmax_bound] for d in self.depths]
        depths = [float(d.depth) for d in self.depths]
        curves = [
            Line("measured, most", depths, [float(d.most) for d in self.depths]),
            Line("bound", depths, [float(d.bound) for d in self.depths], ink=DASHED),
        ]
        heights = {value for curve in curves for value in curve.y}
        drawn: Node = Figure.of(
            "Reach by depth", Lines(curves, Axis("layers", at=depths), Axis("tokens", from_zero=True))
        )
        if len(heights) == 1:  # a curve of one number would only show the axis around it
            drawn = Sentence(f"Measured reach and bound are {heights.pop():.0f} tokens at every depth.")
        return [
            drawn,
            Table(
                ("depth", "most", "mean", "mask and layout", "argmax (k+1)^n"),
                rows,
                title="Tokens that an output depends on",
                note=f"On {self.length} different tokens: an input counts where the gradient of an output "
                "with respect to its embedding is not 0, residual included. Argmax passes gradients along "
                "values alone; a change of an input that moves the argmax itself can reach further.",
            ),
        ]

    def as_json(self) -> dict[str, Any]:
        return {
            "length": self.length,
            "heads": self.heads,
            "depths": [vars(d) | {"bound": d.bound} for d in self.depths],
        }


def reach_by_depth(model: Model, length: int, *, seed: int = 0) -> ReachByDepth:
    """Of a model of one stack, on `length` different tokens drawn at random."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randperm(model.vocabulary, generator=generator)[:length]
    length = len(drawn)
    source = (torch.arange(length) < length // 2)[None] if model.trunk.asks_for_source else None
    tokens = Tokens.of(length, source=source)
    declared = declared_reach(model.trunk, tokens)
    measured = _dependencies(model, drawn[None], tokens, len(declared.depths))
    depths = []
    for depth, (reached, allowed) in enumerate(zip(measured, declared.depths, strict=True), 1):
        counts = reached.sum(-1)
        depths.append(
            DepthReach(
                depth,
                int(counts.max()),
                float(counts.double().mean()),
                int(allowed.sum(-1).max()),
                _bound(declared, depth),
            )
        )
    return ReachByDepth(depths, length, declared.heads)


def _bound(declared: DeclaredReach, depth: int) -> int | None:
    return (declared.heads + 1) ** depth if declared.all_argmax else None


def _dependencies(model: Model, ids: Tensor, tokens: Tokens, layers: int) -> list[Tensor]:
    """(T,T) for each depth: whether an input's embedding moves an output, by gradient."""
    places = [f"layers.{layer}.output" for layer in range(layers)]
    leaf = {"embedding": lambda x: x.detach().requires_grad_()}  # a frozen model has gradients too
    with (
        undisturbed(model),
        torch.enable_grad(),
        patch(model, leaf),
        capture(model, "embedding", *places) as seen,
    ):
        model(ids, tokens, objective=hidden_states)
    inputs = seen["embedding"]
    generator = torch.Generator().manual_seed(1)
    counts = []
    for place in places:
        output = seen[place][0]
        ways = torch.randn(output.shape, generator=generator).to(
            output
        )  # no direction is at right angles by chance
        rows = []
        for token in range(len(output)):
            (slope,) = torch.autograd.grad((output[token] * ways[token]).sum(), inputs, retain_graph=True)
            rows.append(slope[0].abs().amax(-1) > 0)
        counts.append(torch.stack(rows))
    return counts
