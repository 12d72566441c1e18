"""From settings to batches; shards are written once, whole or not at all, and found again."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attnlab.config.files import section_of
from attnlab.config.values import ConfigError
from attnlab.data import dataset as dataset_module
from attnlab.data import shards
from attnlab.data import splits as splits_module
from attnlab.data.columns import Row
from attnlab.data.dataset import Dataset
from attnlab.data.errors import DataError
from attnlab.data.rows import in_memory


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    file = tmp_path / "reviews.jsonl"
    lines = [
        {"text": f"film {i} was {'good' if i % 3 else 'bad'}", "label": str(i % 3 > 0)} for i in range(300)
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def dataset(path: Path, cache: Path | None = None, **settings: Any) -> Dataset:
    chosen = {"corpus": str(path), "tokenizer": "word(minimum_count=1)", "length": 16} | settings
    return Dataset(section_of("data", chosen), cache=cache)


def example_rows(count: int = 40) -> list[Row]:
    return [
        Row(list(range(i, i + i % 7 + 1)), i, [300 * i] * (i % 7 + 1), types=[1] * (i % 7 + 1), label=i % 3)
        for i in range(count)
    ]


def test_shards_give_back_what_rows_in_memory_give(tmp_path: Path) -> None:
    rows = example_rows()
    kept = shards.write(iter(rows), tmp_path / "s", fingerprint="f", vocabulary=70_000, shard_tokens=20)
    held = in_memory(rows, vocabulary=70_000)
    assert len(kept.parts) > 3 and len(kept) == len(held) == 40
    assert np.array_equal(kept.lengths, held.lengths)
    for i, row in enumerate(rows):
        for rows_ in (kept, held):
            assert rows_.ragged("ids", i).tolist() == row.ids
            assert rows_.ragged("types", i).tolist() == row.types
            assert rows_.ragged("sizes", i).tolist() == row.sizes
            assert rows_.scalar("label", i) == row.label
    assert isinstance(kept.parts[0]["ids"], np.memmap)


def test_shards_that_could_not_be_finished_leave_nothing(tmp_path: Path) -> None:
    def failing() -> Iterator[Row]:
        yield from example_rows()
        raise RuntimeError("the disk is full")

    with pytest.raises(RuntimeError, match="the disk is full"):
        shards.write(failing(), tmp_path / "s", fingerprint="f", vocabulary=100, shard_tokens=20)
    assert list(tmp_path.iterdir()) == []


def test_damaged_shards_are_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    shards.write(iter(example_rows()), folder, fingerprint="f", vocabulary=100)
    assert shards.opened(folder, "f") is not None and shards.opened(folder, "g") is None
    whole = {file: file.read_bytes() for file in folder.iterdir()}
    for file, content in whole.items():
        other = bytearray(content)
        other[-3] ^= 1  # of a row, or of the manifest: as long as before, and still an array
        for damaged in (
            content[:-1],
            bytes(other),
            b"",
            content.replace(b"}", b"{", 1),
        ):  # the array's header
            file.write_bytes(damaged)
            assert shards.opened(folder, "f") is None, file
        file.write_bytes(content)
    assert shards.opened(folder, "f") is not None


def test_what_is_damaged_in_the_cache_is_made_anew(reviews: Path, tmp_path: Path) -> None:
    """Another value in it that can be read would change a result, and nobody would know why."""
    cache = tmp_path / "cache"

    def found() -> tuple[object, ...]:
        made = dataset(reviews, cache)
        rows = [made.rows(split).ragged("ids", 0).tolist() for split in made.splits.names]
        return rows, made.tokenizer.fingerprint, made.labels, made.overlap, made.fingerprint("train")

    expected = found()
    files = [file for file in sorted(cache.rglob("*")) if file.is_file()]
    assert len(files) > 8
    for file in files:
        content = file.read_bytes()
        other = content.replace(b"1", b"2", 1) if file.suffix == ".json" else content[:-1] + b"\x07"
        for damaged in (other, content[: len(content) // 2], b"[1, 2]", b"5", b"\xff"):
            file.write_bytes(damaged)
            assert found() == expected, file


def test_text_is_tokenised_once_and_again_only_when_something_changed(
    reviews: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    begin = shards.ShardWriter.__enter__

    def noted(writer: shards.ShardWriter) -> shards.ShardWriter:
        if writer.about()["split"] == "train":
            written.append(writer.fingerprint)
        return begin(writer)

    monkeypatch.setattr(shards.ShardWriter, "__enter__", noted)
    cache = tmp_path / "cache"
    first = dataset(reviews, cache).rows("train")
    second = dataset(reviews, cache).rows("train")
    assert len(written) == 1 and np.array_equal(first.lengths, second.lengths)
    for change in (
        {"length": 8},
        {"tokenizer": "bpe(vocabulary=300)"},
        {"split_seed": 1},
        {"encoding": "single"},
    ):
        dataset(reviews, cache, **change).rows("train")
    assert len(set(written)) == 5
    reviews.write_text(reviews.read_text() + '{"text": "one more", "label": "True"}\n')
    dataset(reviews, cache).rows("train")
    assert len(written) == 6


def test_mapped_and_held_rows_give_the_same_batches(reviews: Path, tmp_path: Path) -> None:
    held = dataset(reviews).loader("train", seed=3)
    mapped = dataset(reviews, tmp_path / "cache").loader("train", seed=3)
    assert held.fingerprint == mapped.fingerprint
    for a, b in zip(held, mapped, strict=True):
        assert torch.equal(a.ids, b.ids) and torch.equal(a.rows, b.rows)


def test_labels_come_from_training_and_cuts_are_remembered(reviews: Path, tmp_path: Path) -> None:
    settings = {"encoding": "single", "batching": "bucketed(tokens=64)", "length": 4}
    for _ in range(2):  # the second time from the shards
        made = dataset(reviews, tmp_path / "cache", **settings)
        batch = next(iter(made.loader("dev", seed=0)))
        assert made.labels.names == ("False", "True")
        assert made.cuts["dev"].cut == made.cuts["dev"].examples == len(made.rows("dev"))
        assert batch.label is not None and set(batch.label.tolist()) <= {0, 1}
        assert made.cuts["dev"].lost == 2 * made.cuts["dev"].examples


def test_the_tokenizer_learns_from_the_training_split_alone(reviews: Path) -> None:
    made = dataset(reviews, dev_share=0.3)
    train = {w for e in made.splits.read("train") for w in e.text.split()}
    dev = {w for e in made.splits.read("dev") for w in e.text.split()}
    assert dev - train and all(made.tokenizer.id(word) is None for word in dev - train)


def test_rows_lead_back_to_their_examples(reviews: Path) -> None:
    made = dataset(
        reviews, encoding="single", batching="padded(batch_size=7)", tokenizer="bpe(vocabulary=300)"
    )
    texts = [e.text for e in made.splits.read("dev")]
    rows = made.rows("dev")
    for batch in made.loader("dev", seed=0):
        for line, row in enumerate(batch.rows.tolist()):
            text = made.tokenizer.decode(batch.ids[line][batch.real[line]])
            assert text == texts[rows.scalar("example", row)]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"corpus": "pyhton_docs"}, 'Did you mean "python_docs"'),
        ({"tokenizer": "bpr"}, 'Did you mean "bpe"'),
        ({"batching": "packd"}, 'Did you mean "packed"'),
        ({"length": 1}, r"data\.length is 1; it must be at least 2"),
        ({"dev_share": 0.6, "test_share": 0.5}, "leave nothing to train on"),
        ({"lenght": 3}, 'Did you mean "length"'),
    ],
)
def test_wrong_settings_are_refused_when_they_load(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        section_of("data", settings)


def test_the_first_tokens_of_the_training_text_can_be_all_there_is(tmp_path: Path) -> None:
    file = tmp_path / "text.txt"
    file.write_text("\n".join(f"line {i} has words" for i in range(200)))
    corpus = {"kind": "files", "path": str(file), "unit": "line"}
    settings = {"corpus": corpus, "tokenizer": {"kind": "word", "minimum_count": 1}, "length": 16}
    whole, part = (Dataset(section_of("data", settings | more)) for more in ({}, {"tokens": 100}))
    rows, all_rows = part.rows("train"), whole.rows("train")
    assert 100 <= rows.lengths.sum() < 100 + rows.lengths[-1]
    assert [list(rows.ragged("ids", r)) for r in range(len(rows))] == [
        list(all_rows.ragged("ids", r)) for r in range(len(rows))
    ]
    assert len(part.rows("dev")) == len(whole.rows("dev"))
    assert part.fingerprint("dev") == whole.fingerprint("dev")
    assert part.fingerprint("train") != whole.fingerprint("train")


def test_rows_of_which_only_some_have_a_label_are_refused():
    rows = [Row([5, 6], 0, [1, 1], label=1), Row([7], 1, [1])]
    with pytest.raises(DataError, match="1 of 2 rows have no label, and the others have one"):
        in_memory(rows, vocabulary=10)


def test_what_tells_texts_apart_is_read_once_and_kept(
    reviews: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    made = dataset(reviews, cache=tmp_path / "cache", dev_share=0.3)
    found = made.overlap
    assert {name: read["of"] for name, read in found["read"].items()} == {
        name: sum(1 for _ in made.splits.read(name)) for name in made.splits.names
    }
    again = dataset(reviews, cache=tmp_path / "cache", dev_share=0.3)
    monkeypatch.setattr(type(again.corpus), "read", lambda *_: pytest.fail("the text was read again"))
    assert again.overlap == found


def test_the_text_of_a_tokenizer_is_recorded_and_kept(reviews: Path, tmp_path: Path) -> None:
    made = dataset(reviews, cache=tmp_path / "cache")
    text = made.tokenizer.text
    assert text is not None and text.source == "train"
    assert text.texts == sum(1 for _ in made.splits.read("train"))
    (record,) = (tmp_path / "cache").glob("tokenizer-*.text.json")
    again = dataset(reviews, cache=tmp_path / "cache").tokenizer.text
    assert again == text == dataset(reviews).tokenizer.text
    record.unlink()  # as an earlier version left it
    assert dataset(reviews, cache=tmp_path / "cache").tokenizer.text == text and record.exists()
    other = dataset(reviews, cache=tmp_path / "cache", split_seed=1).tokenizer.text
    assert other is not None and other.fingerprint != text.fingerprint


def test_of_a_large_text_a_sample_teaches_the_tokenizer_and_it_is_said(
    reviews: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chosen by the texts themselves, from all of train and from nothing else; a small text is read whole."""
    whole = dataset(reviews).tokenizer.text
    monkeypatch.setattr(dataset_module, "TAUGHT", reviews.stat().st_size // 3)
    told: list[str] = []
    sampled = dataset(reviews, tmp_path / "cache")
    sampled.progress = lambda work: told.append(work) or shards.silent  # type: ignore[func-returns-value]
    text, again = sampled.tokenizer.text, dataset(reviews).tokenizer.text
    assert whole is not None and text is not None and again is not None
    assert whole.source == "train" and text.source == "a sample of train (33% of its texts)"
    assert told == [f"Training the tokenizer on {text.source}"]
    assert 0.2 < text.texts / whole.texts < 0.45 and text.fingerprint == again.fingerprint
    letters = dataset(reviews, tokenizer="character").tokenizer.text
    assert letters is not None and letters.texts == whole.texts


@pytest.mark.parametrize(("most", "expected"), [(0, 2), (splits_module.HELD, 1)])
def test_text_is_read_once_for_the_tokenizer_and_once_for_all_splits_and_a_small_one_is_held(
    reviews: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, expected: int
) -> None:
    monkeypatch.setattr(splits_module, "HELD", most)
    made = dataset(reviews, tmp_path / "cache", dev_share=0.2, test_share=0.2)
    held = dataset(reviews, dev_share=0.2, test_share=0.2)
    read, times = type(made.corpus).read, []
    monkeypatch.setattr(type(made.corpus), "read", lambda *a: times.append(a) or read(*a))
    assert made.tokenizer and len(times) == 1
    found = {split: made.rows(split) for split in made.splits.names}
    assert made.overlap["read"]["dev"]["of"] > 30 and len(times) == expected
    monkeypatch.undo()
    for split, rows in found.items():
        assert [rows.ragged("ids", n).tolist() for n in range(len(rows))] == [
            held.rows(split).ragged("ids", n).tolist() for n in range(len(held.rows(split)))
        ]
        assert rows.scalars("example").tolist() == held.rows(split).scalars("example").tolist()
        assert made.truncation(split) == held.truncation(split)
