from __future__ import annotations

from collections.abc import Iterable

import tokenizers as library
from tokenizers import decoders, models, pre_tokenizers, trainers

from attnlab.config.ranges import Whole, Words
from attnlab.data.tokenizers.specials import OURS
from attnlab.data.tokenizers.tokenizer import Tokenizer
from attnlab.data.tokenizers.tokenizer_recipe import TokenizerRecipe, room_for, trained


class Bpe(TokenizerRecipe):
    """Byte-pair encoding over bytes: no text is unknown, and decoding gives the text back exactly.

    Training starts from the 256 bytes and merges the most frequent neighbouring pair, again and
    again, until the vocabulary is full; encoding applies the merges in the order they were
    learned. Cost of a larger vocabulary: one embedding row each, for fewer tokens per text.
    The choice for language models. Sennrich et al. 2016; over bytes: Radford et al. 2019.
    """

    def __init__(self, *, vocabulary: Words = 8000, minimum_count: Whole = 2):
        room_for(vocabulary, 256 + len(OURS), "bpe")
        self.vocabulary, self.minimum_count = vocabulary, minimum_count

    def make(self, texts: Iterable[str]) -> Tokenizer:
        tokenizer = library.Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=self.vocabulary,
            min_frequency=self.minimum_count,
            special_tokens=list(OURS.values()),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        return trained(tokenizer, trainer, texts)
