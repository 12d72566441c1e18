"""SentencePiece's files give the ids that SentencePiece gives, or are refused with the reason."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
import sentencepiece as theirs
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import models

from attnlab.data.errors import DataError
from attnlab.data.tokenizers.tokenizer import Tokenizer
from attnlab.data.tokenizers.tokenizer_files import load
from tests.data.test_tokenizer_files import AWKWARD

LLAMA = {
    "model_type": "bpe",
    "vocab_size": 600,
    "byte_fallback": True,
    "normalization_rule_name": "identity",
    "remove_extra_whitespaces": False,
    "split_digits": True,
    "allow_whitespace_only_pieces": True,
}
T5 = {"model_type": "unigram", "vocab_size": 400, "bos_id": -1, "eos_id": 1, "pad_id": 0, "unk_id": 2}
OTHERS = {
    "unigram with bytes": {"model_type": "unigram", "vocab_size": 600, "byte_fallback": True},
    "bpe that normalises": {"model_type": "bpe", "vocab_size": 300},
    "no prefix": {"model_type": "bpe", "vocab_size": 300, "add_dummy_prefix": False},
}


def trained(folder: Path, name: str = "tokenizer.model", **options: Any) -> Path:
    """A model that SentencePiece trains on some text with repetitions, digits and runs of spaces."""
    text = folder / "text.txt"
    lines = [
        f"The {word} of {n} {word}s  sat on the mat: x = {n * 37}; naïve café 日本."
        for n in range(120)
        for word in ("cat", "banana", "aaaa", "tokenizer")
    ]
    text.write_text("\n".join(lines), encoding="utf-8")
    prefix = folder / name.removesuffix(".model")
    theirs.SentencePieceTrainer.train(
        input=str(text), model_prefix=str(prefix), minloglevel=2, hard_vocab_limit=False, **options
    )
    return folder / name


@pytest.fixture(scope="module", params=["LLaMA's", "T5's", *OTHERS])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Tokenizer, Any]:
    options = {"LLaMA's": LLAMA, "T5's": T5, **OTHERS}[request.param]
    file = trained(tmp_path_factory.mktemp("model"), **options)
    return load(file), theirs.SentencePieceProcessor(model_file=str(file))


TEXTS = [
    *AWKWARD,
    "",
    " ",
    "   two  leading",
    "trailing  ",
    "a\tb\nc",
    "aaaaaaaaaa aaaaa",
    "ﬁne ½ Ａ",
    "▁ x▁y",
]


def test_ids_and_text_are_sentencepieces(both: tuple[Tokenizer, Any]) -> None:
    ours, peer = both
    for text in TEXTS:
        ids = ours.encode(text)
        assert as_theirs(ours, ids, peer.encode(text)), repr(text)
        if peer.unk_id() not in ids:  # which SentencePiece writes as ⁇, and we leave out as all specials
            assert ours.decode(ids) == peer.decode(ids), repr(text)
    assert ours.encode_many(TEXTS) == [ours.encode(text) for text in TEXTS]


def as_theirs(ours: Tokenizer, ids: list[int], expected: list[int]) -> bool:
    """The same ids. Of cuts that are equally likely (aa aaaa and aaaa aa), Unigram's may be another one."""
    unigram = isinstance(ours.inner.model, models.Unigram)
    return ids == expected or (unigram and sorted(ids) == sorted(expected))


@settings(max_examples=200)
@given(text=st.text(alphabet="a b.\n\u00e9\u65e5sc0123 the▁", max_size=40))
def test_any_text(both: tuple[Tokenizer, Any], text: str) -> None:
    ours, peer = both
    assert as_theirs(ours, ours.encode(text), peer.encode(text))


def test_what_stands_round_a_text_is_as_in_llama_and_t5_or_as_its_settings_say(tmp_path: Path) -> None:
    llama = load(trained(tmp_path, **LLAMA))
    assert (llama.form.single([7]), llama.form.pair([7], [8])) == ([1, 7], [1, 7, 1, 8])
    assert (llama.specials.unknown, llama.specials.start, llama.specials.stop) == (0, 1, 2)
    t5 = load(trained(tmp_path, "spiece.model", **T5))
    assert (t5.form.single([7]), t5.form.pair([7], [8])) == ([7, 1], [7, 1, 8, 1])
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"add_bos_token": False, "add_eos_token": True})
    )
    assert load(tmp_path / "tokenizer.model").form.single([7]) == [7, 2]
    assert load(tmp_path).fingerprint == load(tmp_path / "tokenizer.model").fingerprint


def test_a_saved_one_is_the_same(tmp_path: Path) -> None:
    ours = load(trained(tmp_path, **LLAMA))
    again = load(ours.save(tmp_path / "saved"))
    assert [again.encode(text) for text in TEXTS] == [ours.encode(text) for text in TEXTS]
    assert again.form == ours.form and again.fingerprint == ours.fingerprint


def test_special_pieces_written_in_a_text_are_text(tmp_path: Path) -> None:
    ours = load(trained(tmp_path, **LLAMA))
    assert not {0, 1, 2} & set(ours.encode("<s> is not the start </s>"))


def test_what_cannot_be_read_exactly_is_refused(tmp_path: Path) -> None:
    file = trained(tmp_path, user_defined_symbols=["<mine>"], **LLAMA)
    with pytest.raises(DataError, match=r"special treatment \('<mine>'\); convert it to tokenizer\.json"):
        load(file)
    with pytest.raises(DataError, match="neither BPE nor Unigram"):
        load(trained(tmp_path, model_type="char", vocab_size=60))
    file = trained(tmp_path, treat_whitespace_as_suffix=True, **LLAMA)
    with pytest.raises(DataError, match="marks the end of words"):
        load(file)
    with pytest.raises(DataError, match="XLM-RoBERTa"):
        load(file.rename(tmp_path / "sentencepiece.bpe.model"))


@pytest.mark.parametrize("options", [LLAMA, T5], ids=["LLaMA's", "T5's"])
def test_damaged_files_are_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    whole = trained(tmp_path, **options).read_bytes()
    file = tmp_path / "damaged.model"
    for broken in (b"", b"x", whole[:1000], b"\x0a" + b"\xff" * 11, b"\xff" * 100):
        file.write_bytes(broken)
        with pytest.raises(DataError, match=r"SentencePiece model that can(not)? be read"):
            load(file)
    for place in range(0, len(whole), 997):  # whatever is changed: read or refused, never a traceback
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :])
        with contextlib.suppress(DataError):
            load(file).encode("The cat sat.")
