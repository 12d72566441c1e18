"""Words that a tokenizer does not know are counted where they are read, and told where they are many."""

import json

import pytest

from attnlab.config.files import load
from attnlab.session.session import Session
from tests.checks.cases import config, found, of
from tests.training.small_run import set_up

KNOWN = ("the sun is red", "the moon is white", "rain falls on the red sea")
CYRILLIC = ("солнце красное", "луна белая", "дождь идет над морем")


def case_of(folder, train, dev, tokenizer, *, task="causal", **data):
    for name, texts in (("train", train), ("dev", dev)):
        lines = [{"text": text} if isinstance(text, str) else text for text in texts]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines * 20))
    given = {"kind": "files", "path": str(folder / "train.jsonl"), "dev": str(folder / "dev.jsonl")}
    settings = {"corpus": given, "tokenizer": tokenizer, "test_share": 0.0, **data}
    return of(set_up(config(task, data=settings)))


@pytest.mark.parametrize(
    ("train", "dev", "tokenizer", "outcome", "share"),
    [
        (KNOWN, KNOWN, "word(minimum_count=1)", "pass", 0.0),
        (KNOWN, CYRILLIC, "word(minimum_count=1)", "warn", 1.0),
        (KNOWN, ("the sun is red", "the moon is silver"), "word(minimum_count=1)", "warn", 1 / 8),
        (CYRILLIC, CYRILLIC, "bpe(vocabulary=300)", "pass", 0.0),
    ],
)
def test_unknown_words_are_counted_among_words(tmp_path, train, dev, tokenizer, outcome, share):
    finding = found("unknown_words", case_of(tmp_path, train, dev, tokenizer))
    assert finding.outcome == outcome and finding.number == pytest.approx(share)
    if outcome == "warn":
        assert f"{share:.1%} of dev" in finding.found and "bpe" in finding.fix


def test_targets_are_counted_with_their_own_vocabulary(tmp_path):
    train = [{"text": text, "target": "a b c d"} for text in KNOWN]
    dev = [{"text": text, "target": "a b x y"} for text in KNOWN]
    own = "word(minimum_count=1)"
    about = case_of(tmp_path, train, dev, own, task="seq2seq", encoding="translation", target_tokenizer=own)
    words = sum(len(text.split()) for text in KNOWN)
    assert found("unknown_words", about).number == pytest.approx(6 / (words + 12))


def test_patches_are_not_unknown_words():
    session = Session(load("image-matching-mini", set={"data.corpus.examples": 64}))
    finding = found("unknown_words", of(session))
    assert finding.outcome == "pass" and finding.number == 0
