"""Tokenizers that are learned from text: five ways to choose the pieces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal

import tokenizers as library
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from attnlab.config.ranges import Whole, Words
from attnlab.data.tokenizers.pieces import CONTINUING, Score, learned
from attnlab.data.tokenizers.specials import OURS
from attnlab.data.tokenizers.tokenizer import Tokenizer
from attnlab.data.tokenizers.tokenizer_recipe import TokenizerRecipe, closed, room_for, trained


class Bpe(TokenizerRecipe):
    """Byte-pair encoding over bytes: no text is unknown, and decoding gives the text back exactly.

    Training starts from the 256 bytes and merges the most frequent neighbouring pair, again and
    again, until the vocabulary is full; encoding applies the merges in the order they were
    learned. Cost of a larger vocabulary: one embedding row each, for fewer tokens per text.
    With `digits = "single"` each digit is a token of its own: numbers are then read and written place by
    place, and one that was never seen is as easy as others.
    The choice for language models. Sennrich et al. 2016; over bytes: Radford et al. 2019.
    """

    later = ("digits",)

    def __init__(
        self,
        *,
        vocabulary: Words = 8000,
        minimum_count: Whole = 2,
        digits: Literal["merged", "single"] = "merged",
    ):
        room_for(vocabulary, 256 + len(OURS), "bpe")
        self.vocabulary, self.minimum_count, self.digits = vocabulary, minimum_count, digits

    def make(self, texts: Iterable[str]) -> Tokenizer:
        tokenizer = library.Tokenizer(models.BPE())
        splitter = pre_tokenizers.ByteLevel(add_prefix_space=False)
        single = pre_tokenizers.Digits(individual_digits=True)
        tokenizer.pre_tokenizer = (
            pre_tokenizers.Sequence([single, splitter]) if self.digits == "single" else splitter
        )
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=self.vocabulary,
            min_frequency=self.minimum_count,
            special_tokens=list(OURS.values()),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        return trained(tokenizer, trainer, texts)


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
