"""WordPiece's rules on examples worked by hand, Unigram and characters; what all kinds share."""

import json
import math
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnlab.data.errors import DataError
from attnlab.data.tokenizers import TOKENIZERS
from attnlab.data.tokenizers.pieces import PairCounts, Score, learned
from attnlab.data.tokenizers.tokenizer import Tokenizer
from attnlab.data.tokenizers.tokenizer_files import load

TEXTS = ["the cat sat on the mat", "a cat and a hat", "naïve café: 你好 🙂", "the hats sat there"] * 4
KINDS = {
    "bpe": "bpe(vocabulary=300)",
    "wordpiece": "wordpiece(vocabulary=80, minimum_count=1)",
    "unigram": "unigram(vocabulary=60)",
    "word": "word(minimum_count=1)",
    "character": "character",
}
WORDS = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}


def made(kind: str) -> Tokenizer:
    return TOKENIZERS.build(KINDS[kind]).make(TEXTS)


def test_every_trained_kind_is_tried_here() -> None:
    assert set(KINDS) == {name for name in TOKENIZERS if TOKENIZERS[name].trains}


@pytest.mark.parametrize("kind", KINDS)
def test_saving_and_loading_changes_nothing(kind: str, tmp_path: Path) -> None:
    tokenizer = made(kind)
    again = load(tokenizer.save(tmp_path))
    assert again.fingerprint == tokenizer.fingerprint
    assert again.identity() == tokenizer.identity()
    for text in [*TEXTS[:4], "unseen zebra ☂", ""]:
        assert again.encode(text) == tokenizer.encode(text)


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "word", "character"])
def test_training_twice_gives_the_same_tokenizer(kind: str) -> None:
    assert made(kind).fingerprint == made(kind).fingerprint


def test_unigram_keeps_its_pieces_when_trained_again() -> None:
    def pieces() -> set[str]:
        return {piece for piece, _ in json.loads(made("unigram").inner.to_str())["model"]["vocab"]}

    assert pieces() == pieces()


@pytest.mark.parametrize("kind", ["bpe", "unigram", "character"])
def test_these_kinds_give_back_text_of_known_characters(kind: str) -> None:
    tokenizer = made(kind)
    for text in ("the  naïve hat", " cat\u4f60", "sat 🙂 "):
        assert tokenizer.decode(tokenizer.encode(text)) == text


CHARACTERS = made("character")


@given(st.text(alphabet=sorted(set("".join(TEXTS)))))
def test_a_character_is_a_token(text: str) -> None:
    ids = CHARACTERS.encode(text)
    assert len(ids) == len(text) and CHARACTERS.decode(ids) == text


def test_the_ratio_merges_what_occurs_together_more_than_by_chance() -> None:
    """##g·##s has 5/(20·5) = 1/20, the best, then b, h and p·##u have 1/36; by frequency ##u·##g wins."""
    alphabet = {"h", "p", "b", "##u", "##g", "##n", "##s"}
    by_ratio = learned(WORDS, len(alphabet) + 2, score="ratio", minimum_count=1)
    assert set(by_ratio[:7]) == alphabet
    assert by_ratio[7] == "##gs" and by_ratio[8] in {"bu", "hu", "pu"}
    assert learned(WORDS, 8, score="frequency", minimum_count=1)[7] == "##ug"


@pytest.mark.parametrize("score", ["ratio", "likelihood", "frequency"])
def test_every_merge_is_the_best_by_counts_made_anew(score: Score) -> None:
    words = Counter(" ".join([*TEXTS * 2, "banana bandana", "sassafras"]).split())
    table = PairCounts(words, 200)
    merges = 0
    while True:
        single: Counter[str] = Counter()
        pairs: Counter[tuple[str, str]] = Counter()
        for word, count in zip(table.words, table.counts, strict=True):
            parts = [table.pieces[i] for i in word]
            for part in parts:
                single[part] += count
            for pair in pairwise(parts):
                pairs[pair] += count
        worth = {
            p: worth_of(score, n, single[p[0]] * single[p[1]], single.total())
            for p, n in pairs.items()
            if n > 1
        }
        merged = table.merge_best(score, 2)
        if merged is None:
            break
        assert worth[merged] == pytest.approx(max(worth.values()))
        merges += 1
    assert not worth and merges > 10


def worth_of(score: Score, pair: int, parts: int, total: int) -> float:
    return {"ratio": pair / parts, "frequency": pair, "likelihood": pair * math.log(pair * total / parts)}[
        score
    ]


def test_wordpiece_takes_the_longest_match_first_and_whole_unknown_words() -> None:
    tokenizer = TOKENIZERS.build("wordpiece(vocabulary=16, minimum_count=1, score=frequency)").make(
        [word for word, count in WORDS.items() for _ in range(count)]
    )
    tokens = [tokenizer.token(i) for i in tokenizer.encode("hugs bugs zug")]
    assert tokens == ["hug", "##s", "b", "##ug", "##s", "<UNK>"]


def test_a_vocabulary_that_cannot_hold_the_characters_is_refused_in_our_words() -> None:
    """Input 408 of the soak with seed 2: the library's own error has no name."""
    with pytest.raises(DataError, match=r"cannot be trained on this text: .* larger vocabulary"):
        TOKENIZERS.build("unigram(vocabulary=7)").make(["the quick brown fox"] * 3)
