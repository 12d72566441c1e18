"""The loss as it is reported, all positions at once, beside the same targets scored token by token.

Token by token, each target is scored from a text that ends with the last token it may depend on: nothing
that comes later is there to be seen. For a sound model the two agree to rounding, token for token.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlab.checks.wording.of_scores import honest_meaning
from attnlab.evaluation.perplexity import Score
from attnlab.evaluation.texts import Cut, Text, nats_alone, nats_token_by_token
from attnlab.model.isolation import copy_of
from attnlab.model.model import Model
from attnlab.tasks.task import Task

EQUAL = 1e-6
"""Nats, in float64: what two ways of computing the same number may differ by."""
OPERATIONS = 3e10
"""Tokens times parameters that are read token by token."""
LEAST = 2000
"""Tokens that are read even by the largest model."""


@dataclass(frozen=True)
class HonestLoss:
    """Parallel and token-by-token loss of the same targets, with a 95% interval over texts."""

    parallel: Score
    token_by_token: Score
    interval: tuple[float, float]
    largest: float
    """The largest difference at any one target, in nats: means can agree where tokens do not."""
    texts: int
    by_text: tuple[tuple[float, float], ...] = ()
    """Of each text both losses, parallel and token by token, in nats per target."""

    @property
    def difference(self) -> float:
        """Token-by-token minus parallel loss, in nats per token: above 0, the parallel loss is too low."""
        return self.token_by_token.loss - self.parallel.loss

    @property
    def sound(self) -> bool:
        return self.largest <= EQUAL

    @property
    def values(self) -> dict[str, float]:
        """It as a finding holds it."""
        low, high = self.interval
        return {
            "parallel": self.parallel.loss,
            "token_by_token": self.token_by_token.loss,
            "difference": self.difference,
            "low": low,
            "high": high,
            "largest": self.largest,
            "texts": self.texts,
            "targets": self.parallel.tokens,
            "sound": self.sound,
            "means_agree": abs(self.difference) <= EQUAL,
        }

    def as_json(self) -> dict[str, Any]:
        """As `attnlab evaluate --json` gives it."""
        return {
            "parallel": self.parallel.loss,
            "token_by_token": self.token_by_token.loss,
            "difference": self.difference,
            "interval": list(self.interval),
            "largest": self.largest,
            "texts": self.texts,
            "targets": self.parallel.tokens,
            "sound": self.sound,
            "meaning": honest_meaning(self.values),
        }


def honesty(
    model: Model, task: Task, texts: Sequence[Text], *, tokens: int | None = None
) -> HonestLoss | None:
    """Both losses of the targets of these texts, or of as many as `tokens` read tokens allow.

    None where there is nothing to compare: no target, or each may depend on all of its text.
    """
    if tokens is None:
        tokens = max(LEAST, int(OPERATIONS / max(1, sum(p.numel() for p in model.parameters()))))
    cuts = thinned([cuts_of(task, text) for text in texts], tokens)
    if all(end == len(text.ids) for some in cuts for text, _, end in some):
        return None
    exact = copy_of(model).double().eval()
    alone = nats_token_by_token(exact, [cut for some in cuts for cut in some]).numpy()
    parallel = np.concatenate([parallel_nats(exact, some) for some in cuts])
    gaps = alone - parallel
    of_text = np.repeat(np.arange(len(cuts)), [len(some) for some in cuts])
    means = np.bincount(of_text, gaps) / np.bincount(of_text)
    both = [np.bincount(of_text, nats) / np.bincount(of_text) for nats in (parallel, alone)]
    mean = float(gaps.mean())
    spread = 1.96 * float(np.std(means, ddof=1)) / math.sqrt(len(means)) if len(means) > 1 else math.inf
    return HonestLoss(
        parallel=Score(math.fsum(parallel), len(gaps)),
        token_by_token=Score(math.fsum(alone), len(gaps)),
        interval=(mean - spread, mean + spread),
        largest=float(np.abs(gaps).max()) if np.isfinite(gaps).all() else math.inf,
        texts=len(cuts),
        by_text=tuple(zip(both[0].tolist(), both[1].tolist(), strict=True)),
    )


def cuts_of(task: Task, text: Text) -> list[Cut]:
    """Each target of a text with the number of tokens that are there when it is scored."""
    ends = task.last_seen(len(text.ids), text.marked) + 1
    return [(text, int(place), int(ends[place])) for place in text.asked]


def thinned(cuts: Sequence[list[Cut]], tokens: int) -> list[list[Cut]]:
    """Targets evenly spread over each text, so that all together read about so many tokens."""
    every = max(1, math.ceil(sum(end for some in cuts for _, _, end in some) / tokens))
    return [some[number % min(every, len(some)) :: every] for number, some in enumerate(cuts) if some]


def parallel_nats(model: Model, cuts: Sequence[Cut]) -> NDArray[np.float64]:
    """The nats of some targets of one text that is read whole."""
    text = cuts[0][0]
    nats = dict(zip(text.asked.tolist(), nats_alone(model, text).tolist(), strict=True))
    return np.array([nats[place] for _, place, _ in cuts])
