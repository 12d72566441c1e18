from __future__ import annotations

from collections.abc import Iterable

import tokenizers as library
from tokenizers import models, normalizers, pre_tokenizers, trainers

from attnlab.config.ranges import Whole, Words
from attnlab.data.tokenizers.specials import OURS
from attnlab.data.tokenizers.tokenizer import Tokenizer
from attnlab.data.tokenizers.tokenizer_recipe import TokenizerRecipe, room_for, trained


class Word(TokenizerRecipe):
    """Whole words and stretches of punctuation; what is rarer than the minimum is <UNK>.

    Short sequences and readable tokens, at the price of a large vocabulary and of words that
    cannot be said: compare perplexities only together with the share of <UNK>.
    """

    def __init__(self, *, vocabulary: Words = 10_000, minimum_count: Whole = 2, lowercase: bool = False):
        room_for(vocabulary, len(OURS) + 1, "word")
        self.vocabulary, self.minimum_count, self.lowercase = vocabulary, minimum_count, lowercase

    def make(self, texts: Iterable[str]) -> Tokenizer:
        tokenizer = library.Tokenizer(models.WordLevel(unk_token=OURS["unknown"]))
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        if self.lowercase:
            tokenizer.normalizer = normalizers.Lowercase()
        trainer = trainers.WordLevelTrainer(
            vocab_size=self.vocabulary,
            min_frequency=self.minimum_count,
            special_tokens=list(OURS.values()),
            show_progress=False,
        )
        return trained(tokenizer, trainer, texts)
