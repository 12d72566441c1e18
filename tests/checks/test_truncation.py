"""Texts that do not fit: what the limit removes is counted, recorded, shown, and told where it is much."""

import json
import random
from dataclasses import replace

import pytest

from attnlab.config.files import section_of
from attnlab.data.dataset import Dataset
from tests.checks.cases import config, found, of
from tests.session.commands import answer, command
from tests.training.small_run import set_up, train

TEXTS = {"document": "text", "single": "text", "pair": "pair", "question": "pair"}
ENCODINGS = [
    "document(long=cut)",
    "single",
    "single(cut=start)",
    "pair",
    "pair(shorten=second)",
    "prefix",
    "translation",
    "question(overlap=2, question_length=6)",
]


def words(pick, most):
    return " ".join(pick.choices(("sun", "moon", "rain", "snow"), k=pick.randint(1, most)))


def corpus(folder, column, most):
    """Examples of one or two texts, each of up to so many words."""
    pick, file = random.Random(0), folder / "corpus.jsonl"
    rows = [{"text": f"{n} {words(pick, most)}"} for n in range(200)]
    if column != "text":
        rows = [row | {column: words(pick, most)} for row in rows]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(file)


def data_of(folder, encoding, *, most, length):
    column = TEXTS.get(encoding.partition("(")[0], "target")
    return {
        "corpus": corpus(folder, column, most),
        "tokenizer": "word(minimum_count=1)",
        "encoding": encoding,
        "length": length,
        "batching": "padded(batch_size=8)",
        "test_share": 0.0,
    }


def task_of(encoding):
    return "seq2seq" if encoding == "translation" else "causal"


def case_of(folder, encoding, **sizes):
    """A run's parts; `question` has no task of its own yet, so that its case is another one's."""
    model = {"length": sizes["length"], "token_types": 2 if encoding.startswith("pair") else 0}
    changes = {"data": data_of(folder, encoding, **sizes), "model": model}
    if encoding.startswith("question"):
        plain, data = of(set_up(config())), section_of("data", changes["data"])
        return replace(plain, dataset=Dataset(data), config=replace(plain.config, data=data))
    return of(set_up(config(task_of(encoding), **changes)))


def by_hand(dataset, split):
    """Texts with a token that no row holds, how many such tokens, and all: from texts and rows themselves.

    A document's start and stop are among its tokens: one that is cut loses its stop.
    """
    tokenizer, rows = dataset.tokenizer, dataset.rows(split)
    whole = dataset.settings.encoding.kind == "document"
    left_out = set() if whole else tokenizer.special_ids - {tokenizer.specials.unknown}
    held = dict[int, set]()
    for row in range(len(rows)):
        ids = [i for name in ("ids", "target") if rows.has(name) for i in rows.ragged(name, row).tolist()]
        kept = [(at, i) for at, i in enumerate(ids) if i not in left_out]
        if rows.has("char_start"):  # windows overlap: a token of the passage is the same in each
            begins = rows.ragged("char_start", row).tolist()
            kept = [(("passage", begins[at]) if begins[at] >= 0 else at, i) for at, i in kept]
        held.setdefault(rows.scalar("example", row), set()).update(kept)
    cut = lost = total = 0
    for number, example in enumerate(dataset.splits.read(split)):
        texts = [t for t in (example.text, example.pair, example.target) if t is not None]
        count = sum(len(tokenizer.encode(text)) for text in texts) + 2 * whole
        missing = count - len(held[number])
        cut, lost, total = cut + (missing > 0), lost + missing, total + count
    return cut, lost, total


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_what_a_short_length_removes_is_counted_and_told(tmp_path, encoding):
    about = case_of(tmp_path, encoding, most=20, length=16)
    finding = found("truncation", about)
    shares = []
    for split in ("train", "dev"):
        cut, lost, total = by_hand(about.dataset, split)
        of_split = about.dataset.truncation(split)
        assert (of_split.cut, of_split.lost, of_split.tokens) == (cut, lost, total)
        shares.append(of_split.token_share)
    assert finding.outcome == "warn" and finding.number == max(shares) > 0.05
    assert "Raise data.length" in finding.fix and str(about.dataset.cuts["train"].longest) in finding.fix


@pytest.mark.parametrize("encoding", [*ENCODINGS, "document"])
def test_texts_that_fit_pass(tmp_path, encoding):
    finding = found("truncation", case_of(tmp_path, encoding, most=4, length=16))
    assert finding.outcome == "pass" and finding.number == 0 and "0 of" in finding.found


def test_texts_that_are_split_lose_nothing(tmp_path):
    finding = found("truncation", case_of(tmp_path, "document", most=60, length=8))
    assert finding.outcome == "pass" and finding.number == 0


def test_a_few_long_texts_are_counted_and_not_told(tmp_path):
    about = case_of(tmp_path, "single", most=20, length=20)
    finding = found("truncation", about)
    assert finding.outcome == "pass" and 0 < finding.number <= 0.05
    assert f"{about.dataset.cuts['dev'].cut} of" in finding.found


def test_the_share_is_in_the_record_and_in_evaluate(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    data = data_of(tmp_path, "single", most=20, length=12)
    made = config(data=data, model={"length": 12}, training={"budget": {"steps": 2}})
    run = train(made, tmp_path / "run", cache=tmp_path / "cache")
    record = json.loads((tmp_path / "run" / "run.json").read_text())["truncation"]
    cut, lost, total = by_hand(run.session.dataset, "dev")
    assert record["dev"]["texts_cut"] == cut and record["dev"]["tokens_cut"] == lost > 0
    assert record["dev"]["tokens_cut_share"] == pytest.approx(lost / total)
    assert record["train"]["texts"] == len(run.session.dataset.rows("train"))
    scored = answer("evaluate", tmp_path / "run")["split"]
    assert scored["truncation"] == record["dev"]
    shown = " ".join(command("evaluate", tmp_path / "run").output.split())
    assert f"Cut off and not scored: {lost:,} of {total:,} tokens ({lost / total:.1%})" in shown
    checks = json.loads((tmp_path / "run" / "checks.json").read_text())["findings"]
    assert [one["outcome"] for one in checks if one["check"] == "truncation"] == ["warn"]
