"""Faults of pictures and their texts, injected one by one: each is named, and sound data raise no alarm."""

import io
import json

import numpy as np
import pytest
from PIL import Image

from attnlab.config.files import load
from attnlab.session.session import Session
from tests.checks.cases import found, of

COLOURS = {"red": (200, 30, 30), "blue": (30, 30, 200)}


def picture(label, number, size=16):
    """A noisy picture that is of its class's colour on the whole."""
    random = np.random.default_rng([number, len(label)])
    noise = random.integers(-30, 30, (size, size, 3))
    pixels = np.clip(np.array(COLOURS[label]) + noise, 0, 255).astype(np.uint8)
    return Image.fromarray(pixels)


def table(folder, *, text="a picture of number {n}", name="{n}.png", shared=0, colour=None):
    """Folders train and dev with metadata.jsonl; the first `shared` pictures of train are in dev as well."""
    made = {}
    for split, count in (("train", 80), ("dev", 40)):
        (folder / split).mkdir(parents=True)
        lines = []
        for number in range(count):
            label = list(COLOURS)[number % 2]
            about = {"n": number, "label": label}
            file = name.format(**about)
            whole = picture(label, number if split == "train" else 1000 + number)
            if split == "train":
                made[number] = whole
            elif number < shared:
                whole = made[number].resize((24, 24))
            if colour == label:
                whole = whole.convert("L")
            whole.save(folder / split / file)
            lines.append(json.dumps({"file_name": file, "text": text.format(**about), "label": label}))
        (folder / split / "metadata.jsonl").write_text("\n".join(lines))
    return folder


def session_of(folder, **changes):
    settings = {
        "data.corpus": {"kind": "files", "path": str(folder)},
        "data.encoding": "image_text",
        "data.tokenizer": "word",
        "data.length": 32,
        "model.length": 32,
        "model.width": 16,
        "model.layers": 1,
        "model.inputs": ["image(size=16, patch=8)", "text"],
        "model.output": "classification(pooling=first)",
    }
    return Session(load("image-classifier-mini", set=settings | changes))


def test_sound_pictures_raise_no_alarm(tmp_path):
    about = of(session_of(table(tmp_path / "sound")))
    for check in ("giveaway", "pictures", "source_rows", "contamination"):
        assert found(check, about).outcome in ("pass", "not applicable"), found(check, about).found


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"text": "picture {n} of {label} things"}, "red"),
        ({"name": "{label}-{n}.png"}, "file name red"),
        ({"colour": "red"}, "pictures in mode L"),
    ],
)
def test_what_gives_the_label_away_is_named(tmp_path, fault, said):
    """A caption, the name of the file, and its form: none is what the picture shows."""
    finding = found("giveaway", of(session_of(table(tmp_path / "faulty", **fault))))
    assert finding.outcome == "warn" and finding.kind == "word"
    assert said in [word for word, *_ in finding.values["words"]], finding.values


def test_the_same_picture_in_train_and_dev_is_named(tmp_path):
    """Of another name and another size: near it, not equal to it."""
    finding = found("pictures", of(session_of(table(tmp_path / "faulty", shared=10))))
    assert finding.outcome == "warn", finding.found
    assert "dev" in finding.found and "train" in finding.found, finding.found


@pytest.mark.parametrize("form", ["folders", "parquet"])
def test_rows_of_pictures_are_counted_by_the_split_that_their_bytes_are_in(tmp_path, form):
    """The files are read a second time: every picture is a row, on the side that its bytes decide."""
    if form == "folders":
        for number in range(60):
            label = list(COLOURS)[number % 2]
            (tmp_path / "data" / label).mkdir(parents=True, exist_ok=True)
            picture(label, number).save(tmp_path / "data" / label / f"{number}.png")
        changes = {
            "data.encoding": "image",
            "model.inputs": "image(size=16, patch=8)",
            "data.tokenizer": "patches",
        }
    else:
        parquet(tmp_path / "data" / "train.parquet", 60)
        changes = {}
    session = session_of(tmp_path / "data", **changes, **{"data.dev_share": 0.3})
    finding = found("source_rows", of(session))
    assert finding.outcome == "pass", finding.found
    source = session.dataset.notes["source"]
    assert sum(map(len, source.rows.values())) == 60
    source.rows["train"].pop()
    assert found("source_rows", of(session)).outcome == "fail"


def parquet(file, count):
    import pyarrow
    import pyarrow.parquet

    file.parent.mkdir()
    column, labels = [], []
    for number in range(count):
        labels.append(list(COLOURS)[number % 2])
        stored = io.BytesIO()
        picture(labels[-1], number).save(stored, "PNG")
        column.append({"bytes": stored.getvalue(), "path": f"{number}.png"})
    texts = ["the same text"] * count  # which must not decide the side
    rows = pyarrow.table({"image": column, "text": texts, "label": labels})
    pyarrow.parquet.write_table(rows, file)
