"""How tokenizers take a text apart: merges in their order, pieces, ids and what is unknown."""

import json

import pytest
import tokenizers as library
from tokenizers import models, pre_tokenizers
from typer.testing import CliRunner

from attnlab.cli import app
from attnlab.config.values import ConfigError
from attnlab.data.tokenizers import TOKENIZERS, segmentation
from attnlab.data.tokenizers.segmentation import Merge, segmented
from attnlab.data.tokenizers.tokenizer import Tokenizer

TEXTS = [
    "the lowest walls and the newest lower halls",
    "a naïve café, 你好 🙂 ",
    "  if x == 1:\n\treturn 22",
] * 30
SENTENCE = "The lowest naïve  hall: 你 🙂\n\tnew22"


def by_hand(**settings):
    """Sennrich's example in small: four merges, learned in this order."""
    merges = [("e", "s"), ("es", "t"), ("l", "o"), ("lo", "w")]
    words = [*"lowestnr", "es", "est", "lo", "low"]
    vocabulary = {word: number for number, word in enumerate(dict.fromkeys(words))}
    inner = library.Tokenizer(models.BPE(vocab=vocabulary, merges=merges, **settings))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    return Tokenizer(inner)


def test_merges_are_applied_in_the_order_in_which_they_were_learned():
    shown = segmented(by_hand(), "lowest newest lowest")
    assert [piece.text for piece in shown.pieces] == ["low", "est", "n", "e", "w", "est", "low", "est"]
    lowest, newest = shown.words
    expected = [("e", "s", 1), ("es", "t", 2), ("l", "o", 3), ("lo", "w", 4)]
    assert lowest.merges == tuple(Merge(*merge) for merge in expected)
    assert newest.merges == lowest.merges[:2] and newest.parts == tuple("newest")
    assert [(p.start, p.end) for p in shown.pieces[:3]] == [(0, 3), (3, 6), (7, 8)]


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "unigram", "word", "character"])
def test_every_kind_of_tokenizer_gives_the_librarys_own_pieces(kind):
    tokenizer = TOKENIZERS.build(f"{kind}(vocabulary=340)").make(TEXTS)
    shown = segmented(tokenizer, SENTENCE)
    assert [piece.id for piece in shown.pieces] == tokenizer.encode(SENTENCE)
    unknown = [SENTENCE[piece.start : piece.end] for piece in shown.pieces if piece.unknown]
    assert list(dict.fromkeys(unknown)) == tokenizer.unknown_parts(SENTENCE)
    assert bool(shown.words) == (kind == "bpe")
    assert shown.exact == (tokenizer.decode(tokenizer.encode(SENTENCE)) == SENTENCE)
    known = [piece for piece in shown.pieces if not piece.unknown]
    assert all((piece.score is not None) == (kind == "unigram") for piece in known)
    if kind == "bpe":
        assert [word.word for word in shown.words][:3] == ["The", " lowest", " naïve"]


def test_merges_that_lead_elsewhere_are_not_told(monkeypatch):
    """Of a tokenizer that does more than its merges say, nothing is claimed."""
    assert segmented(by_hand(), "lowest").words
    monkeypatch.setattr(segmentation.MergeReplay, "parts", lambda self, word: [word])
    assert segmented(by_hand(), "lowest").words == ()


def test_bytes_stand_in_where_there_is_no_token():
    words = [f"<0x{number:02X}>" for number in range(256)] + [*"low", "lo"]
    vocabulary = {word: number for number, word in enumerate(words)}
    inner = library.Tokenizer(models.BPE(vocab=vocabulary, merges=[("l", "o")], byte_fallback=True))
    (word,) = segmented(Tokenizer(inner), "loé").words
    assert word.parts == ("l", "o", "<0xC3>", "<0xA9>") and word.merges == (Merge("l", "o", 1),)


def test_a_sentence_is_shown_side_by_side(tmp_path):
    """The whole command: two tokenizers of files, as a table of words, as JSON and as a page."""
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder, kind in zip(folders, ("bpe", "word"), strict=True):
        TOKENIZERS.build(f"{kind}(vocabulary=300)").make(TEXTS).save(folder / "tokenizer.json")
    command = ["tokenizer", "show", "the lowest zebra", *map(str, folders)]
    shown = CliRunner().invoke(app, command, env={"COLUMNS": "80"}, catch_exceptions=False)
    lines = shown.stdout.splitlines()
    assert "1 unknown to" in shown.stdout
    (row,) = (line for line in lines if line.startswith("zebra"))
    assert row.split()[-1] == "<UNK>" and row.split()[1] == "␣"
    assert all(len(line) <= 80 for line in lines) and "merges, in the order they are applied" in shown.stdout
    told = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    pieces = told["tokenizers"][next(name for name in told["tokenizers"] if name.endswith("two"))]["pieces"]
    assert [piece["unknown"] for piece in pieces] == [False, False, True]
    CliRunner().invoke(app, [*command, "--html", str(tmp_path / "page.html")], catch_exceptions=False)
    assert "zebra" in (tmp_path / "page.html").read_text()


WRONG = [(["  "], "no words"), (["a", "nosuch"], "neither a file nor a kind")]


@pytest.mark.parametrize(("words", "wrong"), WRONG)
def test_what_cannot_be_shown_is_told(words, wrong):
    with pytest.raises(ConfigError, match=wrong):
        CliRunner().invoke(app, ["tokenizer", "show", *words], catch_exceptions=False)
