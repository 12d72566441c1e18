"""Trained tokenizers: exact round trips, special tokens by role, one identity."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnlab.data.errors import DataError
from attnlab.data.tokenizers import TOKENIZERS
from attnlab.data.tokenizers.tokenizer import Tokenizer

TEXTS = [
    "the cat sat on the mat",
    "the dog sat on the log , and the cat sat on the dog",
    "naïve café: 你好 🙂🙃 e\u0301",
    "def f(x):\n\treturn x  # tabs",
] * 3
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def made(choice: str, texts: list[str] = TEXTS) -> Tokenizer:
    return TOKENIZERS.build(choice).make(texts)


BPE = made("bpe(vocabulary=320)")


@given(ANY_TEXT)
def test_byte_level_bpe_gives_every_text_back(text: str) -> None:
    assert BPE.decode(BPE.encode(text)) == text


@pytest.mark.parametrize(
    "text",
    ["<STOP>", "a<PAD>b", "\0", "\ufeffx", "e\u0301 \u200d\U0001f469\u200d\U0001f469", " \n\t "],
)
def test_awkward_text_survives_too(text: str) -> None:
    assert BPE.decode(BPE.encode(text)) == text


def test_text_makes_no_special_tokens_unless_asked() -> None:
    stop = BPE.specials.stop
    assert stop not in BPE.encode("end<STOP>end")
    assert BPE.encode("end<STOP>end", specials=True).count(stop) == 1  # type: ignore[arg-type]
    assert stop not in BPE.encode("end<STOP>end"), "asking once changes nothing later"


def test_bpe_merges_the_most_frequent_pair_first() -> None:
    tokenizer = made("bpe(vocabulary=263, minimum_count=1)", ["aab aab aab ab"])
    merges = json.loads(tokenizer.inner.to_str())["model"]["merges"]
    assert merges == [["a", "b"]], "a·b occurs 4 times, a·a 3 times"


def test_words_below_the_minimum_count_are_unknown() -> None:
    tokenizer = made("word(minimum_count=2)", ["red red blue", "green blue red"])
    ids = tokenizer.encode("red green blue")
    assert ids[1] == tokenizer.specials.unknown
    assert [tokenizer.token(i) for i in ids] == ["red", "<UNK>", "blue"]
    assert tokenizer.decode(ids) == "red blue"
    assert tokenizer.decode(ids, specials=True) == "red <UNK> blue"
    assert tokenizer.written(tokenizer.form.single(ids)) == "red <UNK> blue"


def test_the_word_vocabulary_keeps_the_most_frequent() -> None:
    tokenizer = made("word(vocabulary=8, minimum_count=1)", ["a a a b b c"])
    assert {tokenizer.token(i) for i in range(6, 8)} == {"a", "b"}
    assert tokenizer.size == 8


@pytest.mark.parametrize("kind", ["bpe", "word"])
def test_start_and_stop_stand_round_a_text(kind: str) -> None:
    tokenizer = made(kind)
    ids = tokenizer.form.single(tokenizer.encode("the cat"))
    assert [tokenizer.token(ids[0]), tokenizer.token(ids[-1])] == ["<START>", "<STOP>"]
    assert ids == tokenizer.inner.encode("the cat").ids


def test_the_same_text_makes_the_same_tokenizer() -> None:
    many = [" ".join(f"w{(i * 7919 + j) % 400}" for j in range(9)) for i in range(200)]  # full of ties
    for kind in ("bpe(vocabulary=400)", "word(vocabulary=200)"):
        assert made(kind, many).fingerprint == made(kind, many).fingerprint
    assert made("word", many).fingerprint != made("word", many[:50]).fingerprint


def test_an_unusable_text_is_named() -> None:
    with pytest.raises(DataError, match=r"Text 2 of 2 cannot be tokenised: it has a lone surrogate .U.D83D"):
        BPE.encode_many(["fine", "bro\ud83dken"])


def test_no_text_to_train_on() -> None:
    with pytest.raises(DataError, match="There is no text to train a tokenizer on"):
        made("word", [])


def test_a_vocabulary_below_the_bytes_is_refused() -> None:
    with pytest.raises(DataError, match="use at least 262"):
        made("bpe(vocabulary=100)")


def test_saving_leaves_one_whole_file(tmp_path: Path) -> None:
    file = BPE.save(tmp_path / "run")
    assert [p.name for p in file.parent.iterdir()] == ["tokenizer.json"]
    assert json.loads(file.read_text(encoding="utf-8"))["model"]["type"] == "BPE"
