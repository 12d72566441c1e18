"""Tokenizers compared: numbers worked out by hand, and verdicts that follow from the text."""

import random

import pytest

from attnlab.data.errors import DataError
from attnlab.data.tokenizers import TOKENIZERS
from attnlab.data.tokenizers.compare import (
    fresh_tokenizer,
    halves,
    judged,
    measured,
    saving_interval,
    telling,
)
from attnlab.data.tokenizers.tokenizer import Tokenizer

ENGLISH = ["the cat sat on the mat", "a dog ran to the house", "we like the red house"]
RANDOM = random.Random(0)
CHEMISTRY = ["".join(RANDOM.choices(["CC(=O)", "[nH]", "c1ccc", "N(C)", "OCC"], k=12)) for _ in range(400)]


def made(kind: str, texts: list[str]) -> Tokenizer:
    return TOKENIZERS.build(kind).make(texts)


def test_measures_are_counts_of_tokens_words_bytes_and_vocabulary() -> None:
    tokenizer = made("word(minimum_count=1)", ["red blue green"])
    measure = measured(tokenizer, ["red blue", "é red"])
    assert (measure.tokens, measure.words, measure.bytes, measure.unknown) == (4, 4, 8 + 6, 1)
    assert measure.fertility == 1 and measure.bytes_per_token == 3.5 and measure.unknown_rate == 0.25
    assert measure.used_share == 3 / 9, "red, blue and <UNK> of six special tokens and three words"
    assert measure.exact == 0.5, "é is not given back"
    assert measure.each.tolist() == [2, 2]


def verdict_on(texts: list[str], *tokenizers: Tokenizer) -> str:
    learn, held_out = halves(texts)
    fresh = measured(fresh_tokenizer(learn, tokenizers), held_out)
    return judged(
        [str(i) for i in range(len(tokenizers))], [measured(t, held_out) for t in tokenizers], fresh
    ).worth


def test_a_text_unlike_the_old_one_is_worth_a_new_tokenizer() -> None:
    assert verdict_on(CHEMISTRY, made("bpe(vocabulary=300)", ENGLISH * 20)) == "yes"


def test_a_tokenizer_of_the_same_text_is_kept() -> None:
    assert verdict_on(CHEMISTRY, made("bpe(vocabulary=300)", CHEMISTRY[:200])) == "no"


def test_unknown_words_count_against_however_short_the_text_becomes() -> None:
    words = made("word", ENGLISH * 3)
    texts = [" ".join(RANDOM.choices(["the", "cat", "zebra", "quagga", "house"], k=8)) for _ in range(200)]
    learn, held_out = halves(texts)
    fresh = measured(fresh_tokenizer(learn, [words]), held_out)
    verdict = judged(["words"], [measured(words, held_out)], fresh)
    assert verdict.worth == "yes" and "of words's tokens are unknown" in verdict.text


def test_the_interval_holds_the_saving_and_narrows_with_text() -> None:
    import numpy as np

    old = np.random.default_rng(0).integers(50, 150, 400)
    new = (old * 0.8).astype(int)
    low, high = saving_interval(old, new)
    few_low, few_high = saving_interval(old[:20], np.random.default_rng(1).permutation(new[:20]))
    assert low <= 1 - new.sum() / old.sum() <= high
    assert high - low < few_high - few_low


def test_samples_are_those_on_which_two_differ_most() -> None:
    a, b = made("word(minimum_count=1)", ENGLISH), made("character", ENGLISH)
    texts = ["short one but long enough", "x" * 90, "another of middling length here"]
    assert telling(texts, a, b, count=1) == ["x" * 90]


def test_too_little_text_is_refused() -> None:
    with pytest.raises(DataError, match="3 texts are too few to compare on"):
        halves(ENGLISH)
