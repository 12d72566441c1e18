from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import tokenizers as library
from tokenizers import decoders, models, normalizers, pre_tokenizers

from attnlab.config.ranges import Whole, Words
from attnlab.data.tokenizers.pieces import CONTINUING, Score, learned
from attnlab.data.tokenizers.specials import OURS
from attnlab.data.tokenizers.tokenizer import Tokenizer
from attnlab.data.tokenizers.tokenizer_recipe import TokenizerRecipe, closed, room_for


class WordPiece(TokenizerRecipe):
    """Parts of words, ##-marked when they go on; encoding takes the longest match first.

    Training merges the neighbours a·b with the best `score`: `likelihood`, what the merge adds to
    the text's log-likelihood, n(ab) · log(n(ab) · N / (n(a) · n(b))); `ratio`, n(ab) / (n(a) · n(b)),
    as textbooks have it, which prefers rare pairs and needs a high minimum_count; `frequency`,
    n(ab), which is BPE's rule. A word with an unknown character is <UNK> whole. Slower to train
    than BPE. Schuster and Nakajima 2012; Devlin et al. 2019.
    """

    def __init__(
        self,
        *,
        vocabulary: Words = 8000,
        minimum_count: Whole = 2,
        lowercase: bool = False,
        score: Score = "likelihood",
    ):
        room_for(vocabulary, len(OURS) + 1, "wordpiece")
        self.vocabulary, self.minimum_count = vocabulary, minimum_count
        self.lowercase, self.score = lowercase, score

    def make(self, texts: Iterable[str]) -> Tokenizer:
        normalizer = normalizers.BertNormalizer(lowercase=self.lowercase)
        splitter = pre_tokenizers.BertPreTokenizer()
        words = Counter[str]()
        for text in texts:
            words.update(word for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text)))
        size = self.vocabulary - len(OURS)
        pieces = learned(words, size, score=self.score, minimum_count=self.minimum_count)
        vocabulary = {piece: number for number, piece in enumerate([*OURS.values(), *pieces])}
        tokenizer = library.Tokenizer(models.WordPiece(vocab=vocabulary, unk_token=OURS["unknown"]))
        tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, splitter
        tokenizer.decoder = decoders.WordPiece(prefix=CONTINUING)
        tokenizer.add_special_tokens(list(OURS.values()))
        return closed(tokenizer, len(words))
