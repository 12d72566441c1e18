from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from attnlab.config.ranges import Share
from attnlab.config.values import ConfigError
from attnlab.data.batch import Batch
from attnlab.model.model import Model
from attnlab.tasks.masked import Masked
from attnlab.tasks.prefix import cut_sources
from attnlab.tasks.task import Prepared, tokens_of
from attnlab.tasks.vocabulary import Flags, Vocabulary


class UniLM(Masked):
    """UniLM: masked tokens under a mixture of three masks: both sides, left only, source and left.

    Formula: as `masked`; each row is drawn to be `bidirectional` (all of it is source), `causal`
    (nothing is) or, with what is left of 1, sequence-to-sequence (cut at a random place).

    Cost: like `masked`.

    When it helps: one model for understanding and generation. Use it with model.mask = "prefix",
    of which the three are cases.

    Paper: Dong et al. 2019, "Unified Language Model Pre-training".
    """

    marks_source = True
    encodings = ("document", "single")

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        bidirectional: Share = 1 / 3,
        causal: Share = 1 / 3,
        share: Share = 0.15,
        mask: Share = 0.8,
        random: Share = 0.1,
        whole_words: bool = False,
    ):
        super().__init__(vocabulary, share=share, mask=mask, random=random, whole_words=whole_words)
        self.bidirectional, self.causal = bidirectional, causal
        if min(bidirectional, causal) < 0 or bidirectional + causal > 1:
            raise ConfigError(
                f"task.bidirectional {bidirectional} and task.causal {causal} are shares; they "
                "must not be negative, nor more than 1 together."
            )

    def check(self, model: Model) -> None:
        super().check(model)
        if not model.trunk.asks_for_source:
            raise ConfigError(
                'task "unilm" mixes three masks by what it marks as source, which model.mask does not '
                'look at; use model.mask = "prefix".'
            )

    def prepare(self, batch: Batch, seed: int) -> Prepared:
        plain = super().prepare(batch, seed)
        source = torch.from_numpy(self.sources(batch, np.random.default_rng([seed, 1])))
        return Prepared(
            ids=plain.ids,
            targets=plain.targets,
            tokens=tokens_of(batch, source=source),
            types=batch.types,
            vectors=batch.vectors,
        )

    def last_seen(self, length: int, marked: Tensor | None = None) -> Tensor:
        """Up to each place, and as far as the source goes: all of a row that is seen from both sides."""
        places = torch.arange(length)
        shown = places[:0] if marked is None else marked.nonzero()[:, 0]
        return places.clamp(min=int(shown.max())) if len(shown) else places

    def sources(self, batch: Batch, generator: np.random.Generator) -> Flags:
        """(B,T) which tokens each row's mask shows to all: all, none, or the first part of each text."""
        lots = generator.random(len(batch.ids))[:, None]
        cut = cut_sources(batch, 0.1, 0.9, generator)
        both = lots < self.bidirectional
        left = ~both & (lots < self.bidirectional + self.causal)
        sources: Flags = np.where(both, batch.real.numpy(), cut & ~left)
        return sources
