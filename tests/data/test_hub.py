"""The hub's data sets, with real data set objects in place of the network."""

from typing import Any

import datasets
import pytest

from attnlab.data.corpora import CORPORA
from attnlab.data.errors import DataError
from attnlab.data.example import Example

YES_NO = datasets.Features({"question": datasets.Value("string"), "passage": datasets.Value("string"),
                            "label": datasets.ClassLabel(names=["no", "yes"])})  # fmt: skip


def split(*labels: int) -> datasets.Dataset:
    rows = [{"question": f"q{i}", "passage": f"p{i}", "label": label} for i, label in enumerate(labels)]
    return datasets.Dataset.from_list(rows, features=YES_NO)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    asked: dict[str, Any] = {}

    def load(name: str, subset: str | None, *, revision: str) -> datasets.DatasetDict:
        asked.update(name=name, subset=subset, revision=revision)
        return datasets.DatasetDict({"train": split(0, 1, 1), "validation": split(1), "test": split(-1)})

    monkeypatch.setattr(datasets, "load_dataset", load)
    return asked


def test_a_data_set_by_name_with_its_own_splits_and_class_names(hub: dict[str, Any]) -> None:
    corpus = CORPORA.build(CORPORA.resolve("hub:google/boolq", "data.corpus"))
    assert corpus.given == ("train", "dev", "test")
    assert hub == {"name": "google/boolq", "subset": None, "revision": "main"}
    place = "hub:google/boolq (dev) row 1"
    assert list(corpus.read("dev")) == [Example("q0", pair="p0", label="yes", place=place)]
    assert [e.label for e in corpus.read("train")] == ["no", "yes", "yes"]


def test_hidden_labels_are_not_taken_for_labels(hub: dict[str, Any]) -> None:
    with pytest.raises(
        DataError, match=r'1 of 1 row of .*boolq \(test\).*\n.*row 1: its label "label" is null'
    ):
        list(CORPORA.build("hub:google/boolq").read("test"))


def test_columns_of_the_hub_are_mapped_and_missing_ones_named(hub: dict[str, Any]) -> None:
    named = {"kind": "hub", "name": "a/b", "subset": "small", "text": "passage", "pair": []}
    assert next(CORPORA.build(named).read()).text == "p0" and hub["subset"] == "small"
    with pytest.raises(DataError, match=r'no column "answer".* It has: question, passage, label'):
        list(CORPORA.build(named | {"label": "answer"}).read())


def test_rows_of_the_hub_with_a_label_are_not_divided(hub: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=r"unit = sentence divides rows of nothing but text"):
        list(CORPORA.build({"kind": "hub", "name": "a/b", "unit": "sentence"}).read())
    alone = {"kind": "hub", "name": "a/b", "unit": "sentence", "pair": [], "label": []}
    assert [e.text for e in CORPORA.build(alone).read()] == ["q0", "q1", "q2"]


def test_the_fingerprint_follows_the_data(hub: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    before = CORPORA.build("hub:a/b").fingerprint()
    other = datasets.DatasetDict({"train": split(0, 0)})
    monkeypatch.setattr(datasets, "load_dataset", lambda *a, **k: other)
    assert CORPORA.build("hub:a/b").fingerprint() != before


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            ConnectionError("Couldn't reach 'a/b' on the Hub (LocalEntryNotFoundError)"),
            "the hub cannot be reached from",
        ),
        (OSError("We couldn't connect: offline mode is enabled"), "the hub cannot be reached from here"),
        (
            datasets.exceptions.DatasetNotFoundError("Dataset 'a/b' doesn't exist"),
            'The hub has no data set "a/b"',
        ),
        (
            ValueError("Config name is missing.\nPlease pick one: ['cola']"),
            r"has several subsets.*\['cola'\]",
        ),
        (RuntimeError("odd"), 'The data set "a/b" could not be loaded: odd'),
    ],
)
def test_what_goes_wrong_is_a_sentence(
    error: Exception, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any, **options: Any) -> None:
        raise error

    monkeypatch.setattr(datasets, "load_dataset", fail)
    with pytest.raises(DataError, match=message):
        list(CORPORA.build("hub:a/b").read())
