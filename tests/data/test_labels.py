"""Labels as files have them, and every bad one with its own sentence, as a person meets it."""

from __future__ import annotations

import json
import math
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from attnlab.cli import main
from attnlab.config.files import config_of, to_json
from attnlab.config.values import ConfigError
from attnlab.data.corpora import CORPORA
from attnlab.data.errors import DataError
from attnlab.data.example import Example
from attnlab.data.labels import (
    LabelReader,
    Labels,
    class_of,
    classes_of,
    number_of,
)
from attnlab.runs.metrics_file import read_events
from attnlab.runs.record import read_record
from attnlab.session.session import Session
from attnlab.targets import TARGETS
from tests.training.small_run import config, merged, set_up, train

CLASS = LabelReader(TARGETS["class"], class_of, "class")
NUMBER = LabelReader(TARGETS["number"], number_of, "number")
SETS = LabelReader(TARGETS["classes"], lambda example: classes_of(example, ","), "classes")

WORDS = ("red", "green", "blue", "grey", "pink", "black", "white", "brown")


def text(number: int) -> str:
    """A text of its own for every number."""
    return " ".join([*(WORDS[number >> (3 * k) & 7] for k in range(3)), "paint", str(number)])


def written(file, rows):
    """Rows in the format that the name of the file says."""
    if file.suffix == ".jsonl":
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif file.suffix == ".parquet":
        pa.parquet.write_table(pa.Table.from_pylist(rows), file)
    else:
        names = list(rows[0])
        lines = [names, *([str(row[name]) for name in names] for row in rows)]
        file.write_text("".join(",".join(line) + "\n" for line in lines))
    return file


def labelled(labels):
    return [{"text": text(number), "label": label} for number, label in enumerate(labels)]


def read(file, **options) -> list[Any]:
    return [one.label for one in CORPORA.build({"kind": "files", "path": str(file), **options}).read()]


def settings(file, task="classification", **corpus):
    """The small run with these labels; rows fall into dev and test by their text."""
    data = {
        "corpus": {"kind": "files", "path": str(file), **corpus},
        "encoding": "single",
        "batching": {"kind": "bucketed", "tokens": 96},
        "dev_share": 0.2,
        "test_share": 0.0,
    }
    model = {"family": "encoder", "layers": 1}
    return {"task": task, "data": data, "model": model, "training": {"budget": {"steps": 2}}}


def run_config(file, folder, task="classification", **corpus):
    return config(folder, **settings(file, task, **corpus))


def refused(tmp_path, monkeypatch, capsys, file, task="classification", **corpus) -> str:
    """What `attnlab train` says: exit code 2, one sentence on stderr, no traceback, nothing half-written."""
    chosen = tmp_path / "run.json"
    chosen.write_text(json.dumps(to_json(run_config(file, tmp_path, task, **corpus))))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "argv", ["attnlab", "train", str(chosen), "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit) as stopped:
        main()
    told = capsys.readouterr()
    assert stopped.value.code == 2 and told.out == "" and "Traceback" not in told.err
    said = " ".join(told.err.replace("│", " ").split())
    if (tmp_path / "out").exists():
        assert {one.name for one in (tmp_path / "out").iterdir()} <= {"run.json", "lock"}
        record = read_record(tmp_path / "out")
        assert record["status"] == "failed" and record["error"], "a run that never began is not under way"
    return said


@pytest.fixture
def said(tmp_path, monkeypatch, capsys):
    return lambda file, *task, **corpus: refused(tmp_path, monkeypatch, capsys, file, *task, **corpus)


# ---------------------------------------------------------------- reading


@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("labels", [["yes", "no", "yes"], ["0", "10", "2"]])
def test_words_are_read_alike_from_every_format(tmp_path, format, labels):
    assert read(written(tmp_path / f"a.{format}", labelled(labels))) == labels


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
@pytest.mark.parametrize(
    ("held", "wanted"),
    [
        ([1, 0, 10], ["1", "0", "10"]),
        ([True, False, True], ["true", "false", "true"]),
        ([0.5, -1.25, 3.0], ["0.5", "-1.25", "3.0"]),
        ([["a", "b"], ["a"], ["b"]], [("a", "b"), ("a",), ("b",)]),
        ([[1, 2], [2], [3]], [("1", "2"), ("2",), ("3",)]),
    ],
    ids=["whole numbers", "truth", "fractions", "lists", "lists of numbers"],
)
def test_typed_labels_are_read(tmp_path, format, held, wanted):
    assert read(written(tmp_path / f"a.{format}", labelled(held))) == wanted


def test_an_empty_list_is_no_label_of_several(tmp_path):
    file = written(tmp_path / "a.jsonl", labelled([["a"], [], ["a", "b"]]))
    examples = [Example("t", label=label) for label in read(file)]
    assert [SETS.read(one) for one in examples] == [("a",), (), ("a", "b")]
    assert SETS.summary(examples) == Labels("classes", ("a", "b"), (2, 1), 3)


def test_a_cell_of_several_is_parted(tmp_path):
    (tmp_path / "a.csv").write_text('text,label\none,"a, b"\ntwo,b\n')
    assert [classes_of(Example("t", label=one), ",") for one in read(tmp_path / "a.csv")] == [
        ("a", "b"),
        ("b",),
    ]
    assert classes_of(Example("t", label="a; b"), ";") == ("a", "b")


def test_classes_are_numbered_by_value_or_by_alphabet():
    def names(*labels):
        return CLASS.summary([Example("t", label=one) for one in labels]).names

    assert names("10", "2", "-1", "2") == ("-1", "2", "10")
    assert names("b", "a", "b") == ("a", "b")
    assert names("10", "2", "x") == ("10", "2", "x")
    long = "9" * 5000  # more digits than Python reads
    assert names("10", "--5", "9") == ("--5", "10", "9") and names("10", long, "9") == ("10", "9", long)


def test_counts_and_numbers_are_those_of_the_rows():
    found = CLASS.summary([Example("t", label=one) for one in "abbb"])
    assert found == Labels("class", ("a", "b"), (1, 3), 4) and found.outputs == 2
    values = [1e6 + 0.1 * n for n in range(50)]
    numbers = NUMBER.summary([Example("t", label=str(one)) for one in values])
    assert numbers.mean == pytest.approx(np.mean(values)) and numbers.outputs == 1
    assert numbers.deviation == pytest.approx(np.std(values), rel=1e-9)


def test_labels_come_back_from_a_record():
    found = CLASS.summary([Example("t", label=one) for one in "abbb"])
    assert Labels.of(json.loads(json.dumps(vars(found)))) == found


@pytest.mark.parametrize("label", ["nan", "inf", "-inf", "seven", "1,5,0", ""])
def test_what_is_no_number_is_told_with_its_place(label):
    with pytest.raises(DataError, match=f'"{label}" at f.csv, line 3 is not a number.*classification'):
        number_of(Example("t", label=label, place="f.csv, line 3"))


def test_a_list_is_no_number_and_no_single_class():
    listed = Example("t", label=("1", "2"), place="f.jsonl, line 1")
    with pytest.raises(DataError, match=r"f.jsonl, line 1.*not a number"):
        number_of(listed)
    with pytest.raises(DataError, match=r"f.jsonl, line 1 is a list of 2.*task = multilabel"):
        class_of(listed)


def test_the_data_has_the_labels_of_its_texts(tmp_path):
    """Through splits, encoding, cache and batches, for each kind."""
    rows = [
        {"text": text(n), "kind": "even" if n % 2 == 0 else "odd", "size": n / 7, "tags": tags(n)}
        for n in range(60)
    ]
    file = written(tmp_path / "a.jsonl", rows)
    wanted = {
        "classification": ("kind", "label", lambda n: n % 2),
        "regression": ("size", "number", lambda n: n / 7),
        "multilabel": ("tags", "labels", lambda n: [int(n % 3 == 0), int(n % 2 == 0)]),
    }
    for task, (column, field, label) in wanted.items():
        chosen = run_config(file, tmp_path, task, label=column)
        for _ in range(2):  # written to the cache, and read from it
            dataset = Session(chosen, cache=tmp_path / "cache").dataset
            for split in ("train", "dev"):
                texts = [int(one.text.split()[-1]) for one in dataset.splits.read(split)]
                loader = dataset.loader(split, seed=0)
                plan, seen = loader.plan(0), set()
                for number in range(len(plan)):
                    batch = loader.load(plan, number)
                    for row, value in zip(batch.rows.tolist(), getattr(batch, field).tolist(), strict=True):
                        assert value == label(texts[row]), (task, split)
                        seen.add(row)
                assert len(seen) == len(texts), "every row is there"


def tags(number):
    return [name for name, step in (("two", 2), ("three", 3)) if number % step == 0]


def test_two_columns_of_one_file_do_not_share_what_is_kept(tmp_path):
    rows = [{"text": text(n), "a": "xy"[n % 2], "b": "uvw"[n % 3]} for n in range(40)]
    file = written(tmp_path / "a.jsonl", rows)
    found = [
        Session(run_config(file, tmp_path, label=column), cache=tmp_path / "cache").dataset.labels.names
        for column in "aba"
    ]
    assert found == [("x", "y"), ("u", "v", "w"), ("x", "y")]


# ---------------------------------------------------------------- what is refused, as a person meets it


def test_one_value(tmp_path, said):
    told = said(written(tmp_path / "a.csv", labelled(["yes"] * 60)))
    assert 'have the label "yes"; a classifier needs at least two classes' in told
    assert "data.corpus.label" in told


def test_one_number(tmp_path, said):
    told = said(written(tmp_path / "a.csv", labelled([3.5] * 60)), "regression")
    assert "have the number 3.5; there is nothing to learn" in told and "data.corpus.label" in told


def test_a_class_that_train_never_has(tmp_path, said):
    train = written(tmp_path / "train.csv", labelled(["yes", "no"] * 30))
    dev = tmp_path / "dev.csv"
    dev.write_text("text,label\nmy own text,yes\nanother one,noo\n")
    told = said(train, dev=str(dev))
    assert 'The label "noo" at' in told and "dev.csv line 3" in told
    assert (
        "occurs only outside the training split, which knows no, yes" in told and 'Did you mean "no"?' in told
    )


def test_a_class_of_the_test_split_alone_is_told_before_training(tmp_path, said):
    train = written(tmp_path / "train.csv", labelled(["yes", "no"] * 30))
    test = tmp_path / "test.csv"
    test.write_text("text,label\nmy own text,yes\nanother one,maybe\n")
    told = said(train, test=str(test))
    assert 'The label "maybe" at' in told and "test.csv line 3" in told


def test_a_number_of_the_test_split_that_is_none_is_told_before_training(tmp_path, said):
    train = written(tmp_path / "train.csv", labelled([n / 3 for n in range(60)]))
    test = tmp_path / "test.csv"
    test.write_text("text,label\nmy own text,1\nanother one,nan\n")
    assert "test.csv line 3 is not a number" in said(train, "regression", test=str(test))


@pytest.mark.parametrize("task", ["classification", "multilabel", "regression"])
@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_an_unlabelled_row_in_the_middle(tmp_path, said, task, format):
    rows = labelled(["1", "2", "3"] * 20)
    rows[31]["label"] = "" if format == "csv" else None
    told = said(written(tmp_path / f"a.{format}", rows), task)
    line = 33 if format == "csv" else 32
    assert "1 of 60 rows of" in told and f"line {line}" in told
    assert 'its label "label" is' in told and "--skip-bad" in told and "skip_bad = true" in told


def test_an_unlabelled_row_is_left_out_when_asked_and_counted(tmp_path):
    rows = labelled(["a", "b"] * 20)
    rows[7]["label"] = ""
    corpus = CORPORA.build(
        {"kind": "files", "path": str(written(tmp_path / "a.csv", rows)), "skip_bad": True}
    )
    assert len(list(corpus.read())) == 39 and corpus.skipped == 1


def test_no_label_column_at_all(tmp_path, said):
    file = written(tmp_path / "a.csv", [{"text": text(n), "stars": n % 5} for n in range(60)])
    told = said(file)
    assert "has no label" in told and "data.corpus.label" in told and "a.csv line 2" in told


def test_a_column_that_is_not_there_is_answered_with_those_that_are(tmp_path, said):
    told = said(written(tmp_path / "a.csv", labelled(["a", "b"] * 30)), label="lable")
    assert 'has no column "lable"' in told and 'Did you mean "label"?' in told and "data.corpus.label" in told


def test_numbers_and_words_mixed(tmp_path, said):
    told = said(written(tmp_path / "a.csv", labelled(["1", "0", "positive"] * 20)))
    assert "mixes numbers (0, 1) and words (positive)" in told and "data.corpus.labels" in told


def test_numbers_and_words_that_were_declared_are_taken(tmp_path):
    file = written(tmp_path / "a.csv", labelled(["1", "0", "none"] * 20))
    made = set_up(run_config(file, tmp_path, labels=["0", "1", "none"]))
    assert made.task.labels.names == ("0", "1", "none")


def test_far_too_many_classes(tmp_path, said):
    told = said(written(tmp_path / "a.csv", labelled([f"id-{n}" for n in range(60)])))
    assert "different values in" in told and "too many to be classes" in told and "task = regression" in told


@pytest.mark.parametrize("bad", ["nan", "many"])
def test_a_number_that_is_none(tmp_path, said, bad):
    rows = labelled([n / 3 for n in range(60)])
    rows[30]["label"] = bad
    told = said(written(tmp_path / "a.csv", rows), "regression")
    assert f'The label "{bad}" at' in told and "line 32 is not a number" in told


def test_several_labels_for_one_class(tmp_path, said):
    told = said(written(tmp_path / "a.jsonl", labelled([["a", "b"], ["a"]] * 30)))
    assert "is a list of" in told and "use task = multilabel" in told and "a.jsonl line" in told


@pytest.mark.parametrize(("held", "what"), [("a,a", "a name twice"), ("a,,b", "an empty name")])
def test_names_twice_or_empty_in_one_row(tmp_path, said, held, what):
    rows = labelled([["a"], ["b"]] * 30)
    rows[20]["label"] = held.split(",")
    if what == "an empty name":
        rows[20]["label"] = held
    told = said(written(tmp_path / "a.jsonl", rows), "multilabel")
    assert f"hold {what}" in told and "a.jsonl line 21" in told and "list each class once" in told


def test_a_label_that_was_not_declared(tmp_path, said):
    told = said(written(tmp_path / "a.csv", labelled(["pos", "neg", "psitive"] * 20)), labels=["pos", "neg"])
    assert 'its label "psitive" is not one of pos, neg' in told and "20 of 60 rows" in told


def test_a_class_with_one_example_is_told_and_trained(tmp_path, unchecked):
    rows = labelled(["a", "b"] * 40)
    chosen = run_config(written(tmp_path / "a.csv", rows), tmp_path)
    texts = [one.text for one in Session(chosen).dataset.splits.read("train")]
    next(row for row in rows if row["text"] == texts[3])["label"] = "rare"
    written(tmp_path / "a.csv", rows)
    train(chosen, tmp_path / "run")
    told = [
        line["message"]
        for line in read_events(tmp_path / "run" / "metrics.jsonl")
        if line["event"] == "warned"
    ]
    assert len(told) == 1 and f'The class "rare" has 1 example of {len(texts)}' in told[0]
    assert "merge it with another" in told[0]


def test_labels_are_judged_before_a_tokenizer_is_trained(tmp_path, monkeypatch):
    """A person with a large file waits for nothing."""
    monkeypatch.setattr(
        "attnlab.data.dataset.Dataset.tokenizer", property(lambda self: pytest.fail("trained"))
    )
    with pytest.raises(DataError, match="at least two"):
        set_up(run_config(written(tmp_path / "a.csv", labelled(["yes"] * 60)), tmp_path))


def test_labels_that_can_be_learnt_are_left_alone():
    few = Labels("class", tuple(str(n) for n in range(20)), (1,) * 20, 20)
    many = Labels("class", tuple(f"c{n}" for n in range(500)), (2,) * 500, 1000)
    for fine in (
        few,
        many,
        Labels("class", ("a", "b"), (99, 1), 100),
        Labels(),
        Labels("number", deviation=1e-9),
    ):
        TARGETS[fine.kind].refuse(fine, declared=False)
    assert not math.isnan(few.mean)
    with pytest.raises(DataError, match="too many to be classes"):
        TARGETS["class"].refuse(
            Labels("class", tuple(f"c{n}" for n in range(501)), (1,) * 501, 1000), declared=False
        )


def test_a_run_that_was_refused_begins_anew_in_the_same_folder(tmp_path, unchecked):
    """After the file was corrected."""
    file = written(tmp_path / "a.csv", labelled(["a"] * 60))
    with pytest.raises(DataError):
        train(run_config(file, tmp_path), tmp_path / "run")
    written(file, labelled(["a", "b"] * 30))
    assert train(run_config(file, tmp_path), tmp_path / "run").reason == "budget"
    assert (
        read_record(tmp_path / "run")["status"] == "finished" and not read_record(tmp_path / "run")["error"]
    )


def test_the_number_of_classes_may_be_given_and_must_be_right(tmp_path):
    file = written(tmp_path / "a.csv", labelled(["a", "b", "c"] * 20))
    held = merged(settings(file), {"model": {"output": "classification(classes=3)"}})
    assert set_up(config(tmp_path, **held)).model.head.classes == 3
    wrong = merged(settings(file), {"model": {"output": "classification(classes=4)"}})
    with pytest.raises(ValueError, match="has 4 outputs, and the labels ask for 3"):
        set_up(config(tmp_path, **wrong))


def test_the_config_is_one_that_loads(tmp_path):
    made = run_config(written(tmp_path / "a.csv", labelled(["a", "b"] * 30)), tmp_path)
    assert config_of(to_json(made)) == made


def test_pairs_for_a_model_without_token_types_are_refused_when_the_config_loads(tmp_path):
    file = written(tmp_path / "a.csv", [one | {"pair": "x"} for one in labelled(["a", "b"] * 30)])
    for held in (0, 1):
        changes = {"data": {"encoding": "pair"}, "model": {"token_types": held}}
        chosen = config(tmp_path, **merged(settings(file), changes))
        with pytest.raises(ConfigError, match=f"model.token_types is {held}; set model.token_types = 2"):
            (Session if held == 0 else set_up)(chosen)
