from __future__ import annotations

import numpy as np
import torch

from attnlab.config.ranges import Share
from attnlab.data.batch import Batch
from attnlab.tasks.masked_tokens import (
    Replacement,
    choose_tokens,
    choose_words,
    documents,
    in_unit,
    maskable,
    targets_at,
    units_of,
    words_of,
)
from attnlab.tasks.task import Prepared, Task, tokens_of
from attnlab.tasks.vocabulary import Vocabulary


class Masked(Task):
    """Masked: some tokens are hidden, and the model says which they were.

    Formula: −Σ log p(x_i | the text with `share` of its tokens replaced), over the chosen tokens:
    `mask` of them become the mask token, `random` a random one, the rest stay as they are.
    `whole_words` hides all parts of a word or none.

    Cost: only the chosen tokens are projected onto the vocabulary, so the head costs `share` of a
    causal one's; but a row teaches only `share` of its tokens.

    When it helps: understanding: every prediction sees both sides.

    Paper: Devlin et al. 2018, "BERT".
    """

    sees = "all"

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        share: Share = 0.15,
        mask: Share = 0.8,
        random: Share = 0.1,
        whole_words: bool = False,
    ):
        super().__init__(vocabulary)
        vocabulary.needed("mask", "the masked tokens are replaced by")
        self.share, self.replacement = in_unit("task.share", share), Replacement(mask, random)
        self.whole_words = whole_words

    @property
    def shown_targets(self) -> float:
        return self.replacement.kept

    def prepare(self, batch: Batch, seed: int) -> Prepared:
        generator = np.random.default_rng(seed)
        ids, candidates = batch.ids.numpy(), maskable(batch, self.vocabulary)
        if self.whole_words:
            words = words_of(ids, candidates, documents(batch), self.vocabulary)
            chosen = choose_words(candidates, words, self.share, generator)
        else:
            chosen = choose_tokens(candidates, self.share, generator)
        read = self.replacement.apply(ids, chosen, units_of(ids), self.vocabulary, generator)
        return Prepared(
            ids=torch.from_numpy(read),
            targets=targets_at(ids, chosen),
            tokens=tokens_of(batch),
            types=batch.types,
            vectors=batch.vectors,
        )
