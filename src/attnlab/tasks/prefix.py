from __future__ import annotations

import numpy as np
import torch

from attnlab.config.ranges import Share
from attnlab.config.values import ConfigError
from attnlab.data.batch import Batch
from attnlab.model.model import Model
from attnlab.tasks.masked_tokens import documents, in_unit
from attnlab.tasks.task import Prepared, Task, next_tokens, tokens_of
from attnlab.tasks.vocabulary import Flags, Vocabulary


class Prefix(Task):
    """Prefix: the source is read as a whole, and the target is predicted token by token after it.

    Formula: −Σ log p(x_{i+1} | source, x up to i), over the target. Rows with a source of their own
    (data.encoding = "prefix") keep it; plain text is cut at a random place, from `least` to `most`
    of its tokens.

    Cost: like `causal`, less the source, which is not predicted.

    When it helps: one stack for tasks from text to text: the source is seen from both sides.
    Use it with model.mask = "prefix".

    Paper: Dong et al. 2019, "Unified Language Model Pre-training"; Raffel et al. 2019 (prefix LM).
    """

    sees = "source and before"
    marks_source = True
    encodings = ("document", "single", "prefix", "image_prefix")

    def __init__(self, vocabulary: Vocabulary, *, least: Share = 0.1, most: Share = 0.9):
        super().__init__(vocabulary)
        self.least, self.most = in_unit("task.least", least), in_unit("task.most", most)
        if least > most:
            raise ConfigError(f"task.least {least} is more than task.most {most}; swap them.")

    def check(self, model: Model) -> None:
        super().check(model)
        if model.trunk.sees == "all":
            raise ConfigError(
                'task "prefix" predicts the next token of the target, which model.mask shows: the loss '
                'would mean nothing. Use model.mask = "prefix".'
            )

    def prepare(self, batch: Batch, seed: int) -> Prepared:
        source = batch.source
        if source is None:
            generator = np.random.default_rng(seed)
            source = torch.from_numpy(cut_sources(batch, self.least, self.most, generator))
        return Prepared(
            ids=batch.ids,
            targets=next_tokens(batch, among=~source),
            tokens=tokens_of(batch, source=source),
            types=batch.types,
            vectors=batch.vectors,
        )


def cut_sources(batch: Batch, least: float, most: float, generator: np.random.Generator) -> Flags:
    """(B,T) True in the first part of each text of each row, cut at a random place."""
    real, document = batch.real.numpy(), documents(batch)
    source = np.zeros(real.shape, bool)
    for row in range(len(real)):
        for text in np.unique(document[row][real[row]]):
            places = np.flatnonzero(real[row] & (document[row] == text))
            share = generator.uniform(least, most)
            source[row, places[: round(share * len(places))]] = True
    return source
