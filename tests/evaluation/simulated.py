"""Studies whose truth is known: losses drawn from the model of spread.py, many repetitions at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attnlab.evaluation.documents import DocumentLosses
from attnlab.evaluation.paired_results import SeedResult
from attnlab.evaluation.spread import Spread


@dataclass(frozen=True)
class World:
    """The standard deviations of one difference: by seed, by text, and what is left, in nats per token.

    `sizes` is the spread of the logarithm of text lengths: 0 is all equal, 1 a real corpus.
    """

    seeds: int = 5
    texts: int = 40
    by_seed: float = 0.02
    by_text: float = 0.1
    rest: float = 0.1
    sizes: float = 0.8

    def sizes_of_texts(self, rng, shape=()):
        return np.round(np.exp(rng.normal(4, self.sizes, (*shape, 1, self.texts)))) + 1

    def arm(self, rng, sizes, ease, effect=0.0):
        """Nats (…, S, n) of one arm, half of each variance its own, so that a difference has it all."""
        shape = np.broadcast_shapes(sizes.shape, ease.shape)[:-2]
        by_seed = rng.normal(0, self.by_seed, (*shape, self.seeds, 1))
        by_text = rng.normal(0, self.by_text, (*shape, 1, self.texts))
        rest = rng.normal(0, self.rest, (*shape, self.seeds, self.texts))
        return sizes * (ease + effect + (by_seed + by_text + rest) / np.sqrt(2))

    def ease(self, rng, shape=()):
        return rng.normal(4, 0.6, (*shape, 1, self.texts))

    @property
    def spread(self) -> Spread:
        """The truth, for texts of equal size."""
        seeds = np.hypot(self.by_seed, self.rest / np.sqrt(self.texts))
        return Spread(float(seeds), self.by_text / np.sqrt(self.texts), self.texts - 1)

    def study(self, rng, **effects: float) -> dict[str, list[SeedResult]]:
        """One study: a baseline, and an arm for each effect."""
        sizes, ease = self.sizes_of_texts(rng), self.ease(rng)
        arms = {"baseline": 0.0, **effects}
        return {name: results(self.arm(rng, sizes, ease, effect), sizes) for name, effect in arms.items()}


def results(nats, sizes) -> list[SeedResult]:
    targets = sizes[0].astype(np.int64)
    held = [DocumentLosses(row, targets, 4 * targets) for row in nats]
    return [SeedResult(seed, documents.loss, documents) for seed, documents in enumerate(held)]
