"""Rows are led back to the lines of their files; labels that a word gives away are named."""

import copy
import json
import random
from dataclasses import replace

import numpy as np
import pytest
import torch

from attnlab.checks.giveaway import alike
from attnlab.checks.source import source_of
from attnlab.config.files import config_of
from attnlab.data.corpora.own_files import Files
from attnlab.data.rows import Rows
from attnlab.session.session import Session
from attnlab.tasks import TASKS
from tests.checks.cases import found, made, of

WORDS = [f"w{n}" for n in range(60)]


def broken(task):
    """A case whose dataset was changed after it was read."""
    setup = copy.copy(made(task))
    setup.dataset = copy.copy(setup.dataset)
    setup.dataset.notes = {}
    setup.dataset._rows = dict(setup.dataset._rows)
    return setup, setup.dataset


def with_rows(task, split, change):
    """The case of a dataset whose encoded rows were changed."""
    setup, dataset = broken(task)
    rows = dataset.rows(split)
    part = {name: np.concatenate([p[name] for p in rows.parts]) for name in rows.columns}
    dataset._rows[split] = Rows([part | change(part)], fingerprint="changed")
    return of(setup)


@pytest.mark.parametrize("task", list(TASKS))
def test_healthy_rows_are_those_of_their_lines(task):
    finding = found("source_rows", of(made(task)))
    assert finding.outcome in ("pass", "not applicable"), finding
    if source_of(made(task).dataset) is not None:
        assert finding.values["compared"] > 10 and finding.values["counts"]["dev"] > 10


LABELS = {
    "moved by one": lambda column: np.roll(column, 1),
    "moved back by one": lambda column: np.roll(column, -1),
    "reversed": lambda column: column[::-1].copy(),
    "of other rows": lambda column: np.random.default_rng(0).permutation(column),
}


@pytest.mark.parametrize("fault", LABELS)
@pytest.mark.parametrize("split", ["train", "dev"])
@pytest.mark.parametrize(("task", "column"), [("classification", "label"), ("regression", "number")])
def test_labels_that_moved_against_their_texts_are_named(task, column, split, fault):
    about = with_rows(task, split, lambda part: {column: LABELS[fault](part[column])})
    finding = found("source_rows", about)
    assert finding.outcome == "fail" and finding.kind == "other_label", finding
    assert "line" in finding.values["place"] and finding.values["held"] != finding.values["written"]


@pytest.mark.parametrize("fault", LABELS)
def test_sets_of_labels_that_moved_are_named(fault):
    def changed(part):
        flags = part["labels"].reshape(-1, int(part["labels.bounds"][1]))
        return {"labels": flags[LABELS[fault](np.arange(len(flags)))].ravel()}

    finding = found("source_rows", with_rows("multilabel", "train", changed))
    assert finding.outcome == "fail" and finding.kind == "other_label"


@pytest.mark.parametrize("task", ["causal", "masked", "classification", "tagging", "seq2seq", "similarity"])
def test_texts_of_other_lines_are_named(task):
    def changed(part):
        return {"example": (part["example"] + 1) % (part["example"].max() + 1)}

    finding = found("source_rows", with_rows(task, "train", changed))
    assert finding.outcome == "fail" and finding.kind in ("other_text", "other_label"), finding


def test_target_texts_of_other_lines_are_named():
    def changed(part):
        texts = np.split(part["target"], part["target.bounds"][1:-1])
        moved = [*texts[1:], texts[0]]
        return {"target": np.concatenate(moved), "target.bounds": np.cumsum([0, *map(len, moved)])}

    assert found("source_rows", with_rows("seq2seq", "train", changed)).kind == "other_text"


@pytest.mark.parametrize(
    "kept", [slice(1, None), slice(-1), slice(None, None, 2)], ids=["first", "last", "half"]
)
def test_rows_that_are_left_out_are_counted(kept, monkeypatch):
    read = Files.read

    def some(self, name="train"):
        return iter(list(read(self, name))[kept])

    monkeypatch.setattr(Files, "read", some)
    session = Session(made("classification").config)
    finding = found("source_rows", of(session))
    assert finding.outcome == "fail" and finding.kind == "count", finding


def test_a_reader_that_pairs_labels_with_the_next_text_is_named(monkeypatch):
    read = Files.read

    def shifted(self, name="train"):
        rows = list(read(self, name))
        return (replace(row, label=rows[n - 1].label) for n, row in enumerate(rows))

    monkeypatch.setattr(Files, "read", shifted)
    finding = found("source_rows", of(Session(made("classification").config)))
    assert finding.outcome == "fail" and finding.kind == "other_label"


@pytest.mark.parametrize("share", [1.0, 0.1])
def test_targets_that_are_padding_are_named(share):
    setup, _ = broken("causal")
    pad = setup.tokenizer.specials.pad

    def prepare(self, batch, seed):
        prepared = type(setup.task).prepare(setup.task, batch, seed)
        draw = torch.rand(prepared.targets.shape, generator=torch.Generator().manual_seed(0)) < share
        return replace(prepared, targets=torch.where(draw, pad, prepared.targets))

    task = copy.copy(setup.task)
    task.__class__ = type("Padded", (type(task),), {"prepare": prepare})
    finding = found("source_rows", replace(of(setup), task=task))
    assert pad is not None and finding.outcome == "fail" and finding.kind == "padding"


# ---------------------------------------------------------------- every form of a file
def table(path, rows):
    """Rows with a text of several lines and quotes, in the form that the name says."""
    if path.suffix == ".csv":
        quoted = ['"' + r["text"].replace('"', '""') + '",' + r["label"] for r in rows]
        path.write_text("text,label\n" + "\n".join(quoted) + "\n")
    elif path.suffix == ".tsv":
        path.write_text("text\tlabel\n" + "".join(f"{r['text']}\t{r['label']}\n" for r in rows))
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    else:
        path.write_text("".join(json.dumps(r) + "\n" for r in rows))


def session_of(path, **data):
    settings = {
        "task": "classification",
        "data": {"corpus": {"kind": "files", "path": str(path)}, "encoding": "single", "length": 24}
        | {"tokenizer": "word(minimum_count=1)", "batching": "bucketed(tokens=128)"}
        | {"dev_share": 0.2, "test_share": 0.1} | data,
        "model": {"family": "encoder", "width": 16, "layers": 1, "heads": 2, "length": 24},
    }  # fmt: skip
    return Session(config_of(settings))


def noise(count=300, seed=0, mark=None):
    """Texts whose label is a matter of many words."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        label = draw.choice(["yes", "no", "so"])
        words = draw.choices(WORDS, k=draw.randint(5, 9))
        text = " ".join(words)
        rows.append({"text": mark(text, label, draw) if mark else text, "label": label})
    return rows


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".json", ".jsonl"])
def test_every_form_is_read_a_second_time(suffix, tmp_path):
    rows = noise()
    if suffix in (".csv", ".jsonl", ".json"):
        rows[3]["text"], rows[9]["text"] = 'w1 "w2"\nw3, w4', "w5\n\nw6"
    table(tmp_path / f"rows{suffix}", rows)
    session = session_of(tmp_path / f"rows{suffix}")
    source = source_of(session.dataset)
    for split in ("train", "dev", "test"):
        examples = session.dataset.texts(split)
        assert [(e.place, e.text, e.label) for e in examples] == [
            (r.place, r.text, r.values["label"]) for r in source.rows[split]
        ]
    assert found("source_rows", of(session)).outcome == "pass"


# ---------------------------------------------------------------- labels that are given away
def by_class(yes, no, so):
    return lambda text, label, draw: {"yes": yes, "no": no, "so": so}[label].replace("*", text)


GIVEN_AWAY = {
    "a marker word": (by_class("zz *", "*", "*"), "zz"),
    "a sign at the end": (by_class("*!", "*", "*"), "!"),
    "a heading": (by_class("Re: *", "*", "*"), "re:"),
    "the label itself": (lambda text, label, draw: f"{text} {label}", "yes"),
    "a marker in noise": (
        lambda text, label, draw: f"{text} zz" if label == "no" and draw.random() < 0.7 else text,
        "zz",
    ),
}


@pytest.mark.parametrize("fault", GIVEN_AWAY)
def test_a_word_that_gives_the_label_away_is_named_with_its_share(fault, tmp_path):
    mark, word = GIVEN_AWAY[fault]
    table(tmp_path / "rows.jsonl", noise(mark=mark))
    finding = found("giveaway", of(session_of(tmp_path / "rows.jsonl")))
    assert finding.outcome == "warn" and finding.kind == "word", finding
    assert any(word in named[0].casefold() for named in finding.values["words"])
    assert 0.5 <= finding.number <= 1 and f"{finding.number:.0%}" in finding.found


def test_texts_that_give_nothing_away_are_quiet(tmp_path):
    def half(text, label, draw):  # a word that makes a label likely decides nothing
        return f"{text} zz" if draw.random() < (0.6 if label == "yes" else 0.2) else text

    table(tmp_path / "rows.jsonl", noise(mark=half))
    assert found("giveaway", of(session_of(tmp_path / "rows.jsonl"))).outcome == "pass"


@pytest.mark.parametrize(
    ("names", "same"),
    [
        (["yes", "Yes", "no"], ("yes", "Yes")),
        (["in doubt", "indoubt"], ("in doubt", "indoubt")),
        (["café", "cafe\u0301"], ("café", "cafe\u0301")),
        (["ﬁne", "fine"], ("ﬁne", "fine")),
        (["yes", "no"], ()),
        (["a", "b", "ab"], ()),
    ],
)
def test_names_that_differ_by_spelling_alone_are_one(names, same):
    assert alike(names) == ([same] if same else [])


def test_a_class_under_two_names_is_named(tmp_path):
    rows = noise()
    for number, row in enumerate(rows):
        row["label"] = row["label"].title() if number % 3 == 0 else row["label"]
    table(tmp_path / "rows.jsonl", rows)
    finding = found("giveaway", of(session_of(tmp_path / "rows.jsonl")))
    assert finding.outcome == "warn" and finding.kind == "alike"
