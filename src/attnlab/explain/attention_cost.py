"""What attention costs: operations and time of self- and cross-attention against M, N and d."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from attnlab.explain.explanation import Cell, Curve, Curves, Explanation, Listing, Part
from attnlab.model.attention.dot import Dot
from attnlab.model.attention.rule import Rule
from attnlab.model.masks import Bidirectional, Causal, Mask
from attnlab.model.pairs import Pairs
from attnlab.model.tokens import Tokens

HEADS = 4
KINDS = {
    "encoder self-attention": ("M²d", {"M": 2, "d": 1}),
    "cross-attention": ("MNd", {"M": 1, "N": 1, "d": 1}),
    "decoder self-attention": ("N²d", {"N": 2, "d": 1}),
}
"""Each with its cost in the lengths of source (M) and target (N) and the width (d), and the exponents."""


@dataclass(frozen=True)
class Grown:
    """One kind of attention against one size, all others held."""

    attention: str
    size: str
    sizes: Sequence[int]
    flops: Sequence[float]
    seconds: Sequence[float]
    theory: int

    @property
    def of_flops(self) -> float:
        return exponent(self.sizes, self.flops)

    @property
    def of_seconds(self) -> float:
        return exponent(self.sizes, self.seconds)


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """The slope of log cost over log size, by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


@dataclass(frozen=True)
class AttentionCost(Explanation):
    grown: Sequence[Grown]
    held: int
    """Tokens of what does not grow."""
    width: int

    kind = "cost"

    @property
    def summary(self) -> str:
        off = max(abs(one.of_flops - one.theory) for one in self.grown)
        return (
            f"Operations grow as the formulas say: fitted exponents are within {off:.2g} of them. Time has "
            f"exponents from {min(o.of_seconds for o in self.grown):.2f} to "
            f"{max(o.of_seconds for o in self.grown):.2f}, smaller where a call's fixed cost still counts."
        )

    def parts(self) -> list[Part]:
        rows: list[list[Cell]] = [
            [g.attention, f"O({KINDS[g.attention][0]})", g.size, g.theory, g.of_flops, g.of_seconds]
            for g in self.grown
        ]
        curves = [
            Curve(f"{g.attention}, {g.size}", [float(s) for s in g.sizes], list(g.seconds))
            for g in self.grown
            if g.size != "d"
        ]
        return [
            Listing(
                "Fitted exponents beside the theory",
                ("attention", "cost", "size", "theory", "operations", "time"),
                rows,
                f"Slopes of log cost over log size, other lengths held at {self.held} and the width at "
                f"{self.width}. Operations are counted in the matrix products of dot attention in {HEADS} "
                "heads (scores and weighted values, no projections); time is the fastest of a few runs of "
                "the same computation here.",
            ),
            Curves("Time", "tokens", "seconds", curves, log_x=True, log_y=True),
        ]

    def as_json(self) -> dict[str, Any]:
        return {
            "held": self.held,
            "width": self.width,
            "grown": [
                vars(g) | {"operations_exponent": g.of_flops, "time_exponent": g.of_seconds}
                for g in self.grown
            ],
        }


def attention_cost(
    sizes: Sequence[int] = (128, 256, 512, 1024), *, held: int = 256, width: int = 128, repeats: int = 3
) -> AttentionCost:
    """Self- and cross-attention for each of these lengths, and a quarter to all of the largest width."""
    widths = [width // 2, width, 2 * width, 4 * width]
    found = []
    for attention, (_, theory) in KINDS.items():
        for size, power in theory.items():
            tried = widths if size == "d" else sizes
            measured = [_measured(attention, size, value, held, width, repeats) for value in tried]
            flops, seconds = zip(*measured, strict=True)
            found.append(Grown(attention, size, list(tried), flops, seconds, power))
    return AttentionCost(found, held, width)


def _measured(
    attention: str, size: str, value: int, held: int, width: int, repeats: int
) -> tuple[float, float]:
    given = {"M": held, "N": held, "d": width} | {size: value}
    queries = given["M"] if attention.startswith("encoder") else given["N"]
    keys = given["N"] if attention.startswith("decoder") else given["M"]
    mask: Mask = Causal() if attention.startswith("decoder") else Bidirectional()
    run = _call(Dot(given["d"] // HEADS), queries, keys, given["d"] // HEADS, mask)
    with FlopCounterMode(display=False) as counter:
        run()
    return float(counter.get_total_flops()), min(_seconds(run) for _ in range(repeats))


def _call(rule: Rule, queries: int, keys: int, head_width: int, mask: Mask) -> Callable[[], object]:
    """The plain computation, the same for every kind, so that their times compare."""
    q = torch.randn(1, HEADS, queries, head_width)
    k, v = (torch.randn(1, HEADS, keys, head_width) for _ in range(2))
    rows = Tokens.of(queries)
    pairs = Pairs(rows, rows if queries == keys else Tokens.of(keys), mask)
    _ = pairs.allowed

    def call() -> object:
        with torch.no_grad():
            return rule.weights(q, k, pairs) @ v

    return call


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
