from __future__ import annotations

from collections.abc import Iterable

import tokenizers as library
from tokenizers import decoders, models, pre_tokenizers, trainers

from attnlab.config.ranges import Words
from attnlab.data.tokenizers.specials import OURS
from attnlab.data.tokenizers.tokenizer import Tokenizer
from attnlab.data.tokenizers.tokenizer_recipe import TokenizerRecipe, room_for, trained


class Unigram(TokenizerRecipe):
    """Pieces with probabilities: a text becomes the most probable sequence of them.

    Training starts from a large set of substrings and throws out those whose loss costs the
    text's likelihood least, until the vocabulary is reached. Tends to keep word endings whole.
    Characters never seen in training are <UNK>. The library's training adds up in no fixed order:
    trained twice, the pieces are the same but their probabilities differ in the fourth digit, so
    keep the tokenizer.json. Kudo 2018.
    """

    def __init__(self, *, vocabulary: Words = 8000):
        room_for(vocabulary, len(OURS) + 1, "unigram")
        self.vocabulary = vocabulary

    def make(self, texts: Iterable[str]) -> Tokenizer:
        tokenizer = library.Tokenizer(models.Unigram())
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
        tokenizer.decoder = decoders.Metaspace(prepend_scheme="never")
        trainer = trainers.UnigramTrainer(
            vocab_size=self.vocabulary,
            special_tokens=list(OURS.values()),
            unk_token=OURS["unknown"],
            show_progress=False,
        )
        return trained(tokenizer, trainer, texts)
