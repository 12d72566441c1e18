from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from attnlab.config.ranges import BelowOne, Positive, Share
from attnlab.config.values import ConfigError
from attnlab.data.batch import Batch
from attnlab.model.tokens import Tokens
from attnlab.tasks.masked_tokens import ATTEMPTS, budget, in_unit
from attnlab.tasks.seq2seq import SequenceToSequence, taught
from attnlab.tasks.task import Prepared
from attnlab.tasks.vocabulary import Flags, Ids, Vocabulary


class Denoising(SequenceToSequence):
    """Denoising: the encoder reads a text with holes, the decoder writes the whole text.

    Formula: stretches of tokens with lengths from a Poisson distribution of mean `mean` each become
    one mask token, until `share` of the text is gone; the decoder also has to say how much was there.

    Cost: like sequence-to-sequence with a target as long as the text.

    When it helps: pretraining an encoder-decoder on plain text, without pairs.

    Paper: Lewis et al. 2019, "BART" (text infilling).
    """

    predicted_column = "ids"
    predicts_all = False  # the first too, after a start token of the decoder's own
    encodings = ("document", "single")

    def __init__(
        self, vocabulary: Vocabulary, *, share: Share = 0.3, mean: Positive = 3.0, smoothing: BelowOne = 0.0
    ):
        super().__init__(vocabulary, smoothing=smoothing)
        self.mask = vocabulary.needed("mask", "stands for each hole")
        self.start = vocabulary.needed("start", "the decoder begins with")
        self.share, self.mean = in_unit("task.share", share), mean
        if mean <= 0:
            raise ConfigError(f"task.mean is {mean}; it must be above 0.")

    @property
    def shown_source(self) -> float:
        return 1 - self.share

    def prepare(self, batch: Batch, seed: int) -> Prepared:
        generator = np.random.default_rng(seed)
        texts, sizes = (kept(column, batch.real) for column in (batch.ids, batch.sizes))
        source, source_real = padded([self.holed(text, generator) for text in texts], self.vocabulary.pad)
        opened = [self.opened(text) for text in texts]
        target, target_real = padded(opened, self.vocabulary.pad)
        added = [np.pad(own, (len(o) - len(own), 0)) for own, o in zip(sizes, opened, strict=True)]
        seen = None if bool(source_real.all()) else source_real
        return taught(target, target_real, padded(added, 0)[0], source, Tokens.of(source.shape[1], real=seen))

    def read(self, text: Ids, seed: int) -> Ids:
        return self.holed(text, np.random.default_rng(seed))

    def opened(self, text: Ids) -> Ids:
        """The text after the token that a decoder begins with."""
        return text if len(text) and text[0] == self.start else np.concatenate([[self.start], text])

    def holed(self, text: Ids, generator: np.random.Generator) -> Ids:
        """The text with a mask token for each hole."""
        hidden = holes(~self.vocabulary.special[text], self.share, self.mean, generator)
        first = hidden & ~np.concatenate([[False], hidden[:-1]])
        return np.where(first, self.mask, text)[~hidden | first]


def holes(candidates: Flags, share: float, mean: float, generator: np.random.Generator) -> Flags:
    """(T) stretches of Poisson lengths, never two side by side, until the share is reached or none fits."""
    hidden = np.zeros_like(candidates)
    free, left = np.flatnonzero(candidates), budget(int(candidates.sum()), share)
    failures = 0
    length = max(1, int(generator.poisson(mean)))
    while left > 0 and failures < ATTEMPTS:
        start = int(free[generator.integers(len(free))])
        stop = start + min(length, left)
        if (
            stop > len(hidden)
            or not candidates[start:stop].all()
            or hidden[max(start - 1, 0) : stop + 1].any()
        ):
            failures += 1
            continue
        hidden[start:stop] = True
        left, failures = left - (stop - start), 0
        length = max(1, int(generator.poisson(mean)))
    return hidden


def kept(column: Tensor, real: Tensor) -> list[Ids]:
    """What a column (B,T) holds of each row, its padding left out."""
    return [values[there] for values, there in zip(column.numpy(), real.numpy(), strict=True)]


def padded(texts: list[Ids], pad: int) -> tuple[Tensor, Tensor]:
    """Texts as one (B,T), filled up on the right, and which places are real."""
    shape = len(texts), max(map(len, texts), default=0)
    ids, real = np.full(shape, pad, np.int64), np.zeros(shape, bool)
    for row, text in enumerate(texts):
        ids[row, : len(text)], real[row, : len(text)] = text, True
    return torch.from_numpy(ids), torch.from_numpy(real)
