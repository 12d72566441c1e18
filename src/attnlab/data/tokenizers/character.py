from __future__ import annotations

from collections.abc import Iterable

import tokenizers as library
from tokenizers import decoders, models, pre_tokenizers, trainers

from attnlab.config.ranges import Whole, Words
from attnlab.data.tokenizers.specials import OURS
from attnlab.data.tokenizers.tokenizer import Tokenizer
from attnlab.data.tokenizers.tokenizer_recipe import TokenizerRecipe, room_for, trained

EVERYTHING = 1_114_112  # as many as Unicode has code points


class Character(TokenizerRecipe):
    """One token a character (a Unicode code point, white space included).

    The smallest vocabulary and the longest sequences: about four times the tokens of BPE on
    English, sixteen times the cost of full attention. Rare characters are <UNK>.
    """

    samples = False  # a character that only the rest of the text has would be unknown

    def __init__(self, *, vocabulary: Words = EVERYTHING, minimum_count: Whole = 1):
        room_for(vocabulary, len(OURS) + 1, "character")
        self.vocabulary, self.minimum_count = vocabulary, minimum_count

    def make(self, texts: Iterable[str]) -> Tokenizer:
        tokenizer = library.Tokenizer(models.WordLevel(unk_token=OURS["unknown"]))
        tokenizer.pre_tokenizer = pre_tokenizers.Split(library.Regex(r"[\s\S]"), "isolated")
        tokenizer.decoder = decoders.Fuse()
        trainer = trainers.WordLevelTrainer(
            vocab_size=self.vocabulary,
            min_frequency=self.minimum_count,
            special_tokens=list(OURS.values()),
            show_progress=False,
        )
        return trained(tokenizer, trainer, texts)
