"""What attention costs: operations and time of self- and cross-attention against M, N and D."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from attnlab.documents.nodes import Axis, Figure, Inline, Line, Lines, Node, Table
from attnlab.explain.explanation import Explanation
from attnlab.model.attention.dot import Dot
from attnlab.model.attention.rule import Rule
from attnlab.model.masks import Bidirectional, Causal, Mask
from attnlab.model.pairs import Pairs
from attnlab.model.tokens import Tokens

HEADS = 4
KINDS = {
    "encoder self-attention": ("M²D", {"M": 2, "D": 1}),
    "cross-attention": ("MND", {"M": 1, "N": 1, "D": 1}),
    "decoder self-attention": ("N²D", {"N": 2, "D": 1}),
}
"""Each with its cost in the lengths of source (M) and target (N) and the width (D), and the exponents."""
NOISY = 0.3
"""A difference between exponents of two halves of the rounds from which on times say nothing."""


@dataclass(frozen=True)
class Grown:
    """One kind of attention against one size, all others held."""

    attention: str
    size: str
    sizes: Sequence[int]
    flops: Sequence[float]
    rounds: Sequence[Sequence[float]]
    """Seconds of each size, once for every round over all of them."""
    theory: int

    @property
    def seconds(self) -> list[float]:
        """The fastest round of each size."""
        return fastest(self.rounds)

    @property
    def of_flops(self) -> float:
        return exponent(self.sizes, self.flops)

    @property
    def of_seconds(self) -> float:
        return exponent(self.sizes, self.seconds)

    @property
    def noise(self) -> float:
        """How far the exponents of every second round and of the others are apart."""
        halves = (exponent(self.sizes, fastest(self.rounds[start::2])) for start in (0, 1))
        return abs(next(halves) - next(halves))


def fastest(rounds: Sequence[Sequence[float]]) -> list[float]:
    return [min(times) for times in zip(*rounds, strict=True)]


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
    def headline(self) -> str:
        off = max(abs(growth.of_flops - growth.theory) for growth in self.grown)
        near = f"{off:.2f}" if off >= 0.005 else "0.01"
        return f"Operations grow as the formulas say: fitted exponents are within {near} of them."

    @property
    def remark(self) -> str:
        noise = max(growth.noise for growth in self.grown)
        if noise > NOISY:
            return (
                f"Times are too noisy to fit: two halves of the rounds give exponents that differ by up to "
                f"{noise:.2f}. Measure again on a quiet machine, or with a larger --longest."
            )
        return (
            f"Time has exponents from {min(o.of_seconds for o in self.grown):.2f} to "
            f"{max(o.of_seconds for o in self.grown):.2f}, smaller where a call's fixed cost still counts."
        )

    def parts(self) -> list[Node]:
        rows: list[list[Inline]] = [
            [
                *(g.attention, f"O({KINDS[g.attention][0]})", g.size, g.theory, g.of_flops),
                f"{g.of_seconds:.2f} ± {g.noise:.2f}",
            ]
            for g in self.grown
        ]
        curves = [
            Line(f"{g.attention}, {g.size}", [float(s) for s in g.sizes], list(g.seconds))
            for g in self.grown
            if g.size != "D"
        ]
        return [
            Figure.of("Time", Lines(curves, Axis("tokens", log=True), Axis("seconds", log=True))),
            Table(
                ("attention", "cost", "size", "theory", "operations", "time"),
                rows,
                title="Fitted exponents compared with the theory",
                note=f"Slopes of log cost over log size, other lengths held at {self.held} and the width at "
                f"{self.width}. Operations are counted in the matrix products of dot attention in {HEADS} "
                "heads (scores and weighted values, no projections); time is the fastest of "
                f"{len(self.grown[0].rounds)} rounds over all sizes, ± the difference between the exponents "
                "of odd and even rounds.",
            ),
        ]

    def as_json(self) -> dict[str, Any]:
        return {
            "held": self.held,
            "width": self.width,
            "grown": [
                vars(g)
                | {"seconds": g.seconds, "operations_exponent": g.of_flops}
                | {"time_exponent": g.of_seconds, "time_noise": g.noise}
                for g in self.grown
            ],
        }


def attention_cost(
    sizes: Sequence[int] = (128, 256, 512, 1024), *, held: int = 256, width: int = 128, rounds: int = 20
) -> AttentionCost:
    """Self- and cross-attention for each of these lengths, and a quarter to all of the largest width."""
    widths = [width // 2, width, 2 * width, 4 * width]
    grown = []
    for attention, (_, theory) in KINDS.items():
        for size, power in theory.items():
            tried = widths if size == "D" else sizes
            calls = [_sized_call(attention, size, value, held, width) for value in tried]
            flops = [_flops(call) for call in calls]
            # sizes take turns, so that a burst of other work falls on all of them
            times = [[_seconds(call) for call in calls] for _ in range(rounds)]
            grown.append(Grown(attention, size, list(tried), flops, times, power))
    return AttentionCost(grown, held, width)


def _sized_call(attention: str, size: str, value: int, held: int, width: int) -> Callable[[], object]:
    given = {"M": held, "N": held, "D": width} | {size: value}
    queries = given["M"] if attention.startswith("encoder") else given["N"]
    keys = given["N"] if attention.startswith("decoder") else given["M"]
    mask: Mask = Causal() if attention.startswith("decoder") else Bidirectional()
    return _call(Dot(given["D"] // HEADS), queries, keys, given["D"] // HEADS, mask)


def _flops(call: Callable[[], object]) -> float:
    with FlopCounterMode(display=False) as counter:
        call()
    return float(counter.get_total_flops())


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
