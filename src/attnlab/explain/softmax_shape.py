"""Softmax as a picture: temperature, argmax as its limit, and why scores are scaled by 1/√d."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from attnlab.config.values import ConfigError
from attnlab.documents.nodes import (
    Axis,
    Figure,
    Grid,
    Inline,
    Level,
    Line,
    Lines,
    Node,
    Number,
    Sentence,
    Table,
)
from attnlab.documents.numbers import short
from attnlab.explain.explanation import Explanation

Numbers = NDArray[np.float64]
TEMPERATURES = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0)
WIDTHS = (4, 16, 64, 256, 1024)
"""Head widths that are compared with and without 1/√d."""
KEYS, DRAWS = 16, 400
"""Keys of a query, and queries, whose entropy is averaged."""


def entropy(weights: Numbers) -> Numbers:
    """Nats, over the last axis."""
    return np.asarray(special.entr(weights).sum(-1))


@dataclass(frozen=True)
class ScaledEntropy:
    """Random queries and keys of one width, of variance 1: what the softmax over them is like, on average.
    `slope` is the largest ∂weight/∂score."""

    width: int
    spread: float
    """Standard deviation of q·k."""
    scaled: float
    plain: float
    scaled_slope: float
    plain_slope: float


@dataclass(frozen=True)
class SoftmaxShape(Explanation):
    """Weights of given scores by temperature, and the entropy of random ones by head width."""

    scores: Sequence[float]
    widths: Sequence[ScaledEntropy]

    kind = "softmax"

    @cached_property
    def by_temperature(self) -> Mapping[float, Numbers]:
        scores = np.asarray(self.scores, np.float64)
        return {t: np.asarray(special.softmax(scores / t)) for t in TEMPERATURES}

    @cached_property
    def limit(self) -> Numbers:
        """As the temperature goes to 0: equal shares of the largest scores."""
        scores = np.asarray(self.scores, np.float64)
        largest = scores == scores.max()
        return largest / largest.sum()

    @property
    def headline(self) -> str:
        most = float(self.by_temperature[1.0].max())
        return (
            f"At temperature 1 the largest weight is {most:.3g}; it tends to {self.limit.max():.3g} "
            "(argmax) as "
            f"the temperature falls, and to {1 / len(self.scores):.3g} as it rises."
        )

    @property
    def remark(self) -> str:
        last = self.widths[-1]
        return (
            f"q·k of random vectors spreads by √d. At d = {last.width:,} the softmax without 1/√d has "
            f"{last.plain:.2g} nats of at most {np.log(KEYS):.3g}, with it {last.scaled:.2g}."
        )

    def parts(self) -> list[Node]:
        names = [f"score {short(score)}" for score in self.scores]
        rows = {"argmax": self.limit, **{f"T = {t:g}": w for t, w in self.by_temperature.items()}}
        entropies = [f"entropy {entropy(w):.2f}, largest {w.max():.2f}" for w in rows.values()]
        picture = Grid(
            list(rows),
            names,
            [w.tolist() for w in rows.values()],
            title="Weights by temperature: softmax(scores / T)",
            aside=[[said] for said in entropies],
            scale=1.0,
        )
        return [picture, self._weights(rows), self._figure(), self._widths()]

    def _weights(self, rows: Mapping[str, Numbers]) -> Table:
        cells: list[list[Inline]] = []
        for name, weights in rows.items():
            numbers = [*weights.tolist()[:8], float(entropy(weights))]
            cells.append([name, *(Number(number, decimals=3) for number in numbers)])
        names = [f"score {short(score)}" for score in self.scores[:8]]
        return Table(["", *names, "entropy, nats"], cells)

    def _figure(self) -> Figure:
        x = [float(one.width) for one in self.widths]
        lines = [
            Line("with 1/√d", x, [one.scaled for one in self.widths]),
            Line("without", x, [one.plain for one in self.widths]),
        ]
        chart = Lines(
            lines,
            Axis("head width d", log=True, at=x),
            Axis("entropy of the weights, nats", from_zero=True),
            [Level("all keys alike", float(np.log(KEYS)))],
        )
        return Figure.of(f"Entropy of attention over {KEYS} random keys", chart)

    def _widths(self) -> Node:
        rows: list[list[Inline]] = [
            [
                one.width,
                *(Number(x, decimals=2) for x in (one.spread, one.scaled, one.plain)),
                *(Number(x, decimals=4) for x in (one.scaled_slope, one.plain_slope)),
            ]
            for one in self.widths
        ]
        names = ("d", "spread of q·k", "entropy with 1/√d", "without", "slope with 1/√d", "without")
        note = (
            f"Means over {DRAWS} queries and {KEYS} keys of independent numbers of variance 1. Slope: the "
            "largest "
            "∂weight/∂score, which is the gradient that scores get: a saturated softmax teaches nothing."
        )
        return Table(names, rows, note=note) if self.widths else Sentence("")

    def as_json(self) -> dict[str, Any]:
        return {
            "scores": list(self.scores),
            "temperatures": [
                {"temperature": t, "weights": w.tolist(), "entropy": float(entropy(w))}
                for t, w in self.by_temperature.items()
            ],
            "argmax": self.limit.tolist(),
            "widths": [vars(one) for one in self.widths],
        }


def softmax_shape(scores: Sequence[float], *, widths: Sequence[int] = WIDTHS, seed: int = 0) -> SoftmaxShape:
    """Scores by temperature, and random queries and keys of each width with and without 1/√d."""
    if not 2 <= len(scores) <= 20 or not all(np.isfinite(scores)):
        raise ConfigError(f"--scores has {len(scores)} numbers; give 2 to 20 finite ones, such as 3,1,1,-3.")
    return SoftmaxShape(list(scores), [_random(width, seed) for width in widths])


def _random(width: int, seed: int) -> ScaledEntropy:
    generator = np.random.default_rng([seed, width])
    queries = generator.standard_normal((DRAWS, 1, width))
    products = (queries * generator.standard_normal((DRAWS, KEYS, width))).sum(-1)
    scaled, plain = special.softmax(products / width**0.5, -1), special.softmax(products, -1)
    slopes = [float((w * (1 - w)).max(-1).mean()) for w in (scaled, plain)]
    return ScaledEntropy(
        width, float(products.std()), float(entropy(scaled).mean()), float(entropy(plain).mean()), *slopes
    )
