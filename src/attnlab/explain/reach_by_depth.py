"""How far back a model sees, layer by layer: measured by gradient, against what mask and rule allow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

Progress = Callable[[int, int], None]
SHORT, OUTPUTS, TOGETHER = 64, 24, 2048
"""Tokens up to which every output is measured, outputs of a longer row, tokens of all rows held at a time."""
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
    outputs: int
    """Outputs that were measured: of long rows some, at equal distances."""

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
                note=f"{self.outputs} outputs on {self.length} different tokens: an input counts where the "
                "gradient of an output with respect to its embedding is not 0, residual included. Argmax "
                "passes gradients along "
                "values alone; a change of an input that moves the argmax itself can reach further.",
            ),
        ]

    def as_json(self) -> dict[str, Any]:
        return {
            "length": self.length,
            "heads": self.heads,
            "outputs": self.outputs,
            "depths": [vars(d) | {"bound": d.bound} for d in self.depths],
        }


def reach_by_depth(
    model: Model, length: int, *, seed: int = 0, progress: Progress = lambda done, of: None
) -> ReachByDepth:
    """Of a model of one stack, on `length` different tokens drawn at random."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randperm(model.common_vocabulary, generator=generator)[:length]
    length = len(drawn)
    source = (torch.arange(length) < length // 2)[None] if model.trunk.asks_for_source else None
    tokens = Tokens.of(length, source=source)
    declared = declared_reach(model.trunk, tokens)
    outputs = spread_outputs(length)
    measured = _dependencies(model, drawn[None], tokens, len(declared.depths), outputs, progress)
    depths = []
    for depth, (reached, allowed) in enumerate(zip(measured, declared.depths, strict=True), 1):
        counts = reached.sum(-1)
        depths.append(
            DepthReach(
                depth,
                int(counts.max()),
                float(counts.double().mean()),
                int(allowed[outputs].sum(-1).max()),
                _bound(declared, depth),
            )
        )
    return ReachByDepth(depths, length, declared.heads, len(outputs))


def _bound(declared: DeclaredReach, depth: int) -> int | None:
    return (declared.heads + 1) ** depth if declared.all_argmax else None


def _dependencies(
    model: Model, ids: Tensor, tokens: Tokens, layers: int, outputs: Sequence[int], progress: Progress
) -> list[Tensor]:
    """(N,T) for each depth: whether an input's embedding moves each of N outputs, by gradient.

    The row is there once for each output, which alone counts in it: one backward gives as many as fit.
    """
    places = [f"layers.{layer}.output" for layer in range(layers)]
    leaf = {"embedding": lambda x: x.detach().requires_grad_()}  # a frozen model has gradients too
    generator = torch.Generator().manual_seed(1)
    ways = torch.randn(layers, ids.shape[1], model.trunk.width, generator=generator)  # at no right angle
    rows, reached = max(TOGETHER // ids.shape[1], 1), [list[Tensor]() for _ in places]
    for start in range(0, len(outputs), rows):
        progress(start, len(outputs))
        some = torch.tensor(outputs[start : start + rows])
        with (
            undisturbed(model),
            torch.enable_grad(),
            patch(model, leaf),
            capture(model, "embedding", *places) as seen,
        ):
            model(ids.expand(len(some), -1), tokens, objective=hidden_states)
        for depth, place in enumerate(places):
            output = seen[place][torch.arange(len(some)), some]
            total = (output * ways[depth, some].to(output)).sum()
            (slope,) = torch.autograd.grad(total, seen["embedding"], retain_graph=depth + 1 < layers)
            reached[depth].append(slope.abs().amax(-1) > 0)
    return [torch.cat(parts) for parts in reached]


def spread_outputs(length: int) -> list[int]:
    """The outputs that are measured: all of a short row, else some at equal distances, with the last."""
    if length <= SHORT:
        return list(range(length))
    return sorted({round(place) for place in torch.linspace(0, length - 1, OUTPUTS).tolist()})
