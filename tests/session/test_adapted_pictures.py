"""A model of pictures, adapted to a person's pictures: what of a row it reads, and that it learns from it."""

import csv
import json

import pytest

from attnlab.config.files import load
from attnlab.data.corpora.shapes import Shapes
from attnlab.data.images.decoding import pixels_of, png_of
from attnlab.session.adapting import adapting_config
from attnlab.session.session import Session
from attnlab.session.training import train
from tests.session.commands import command

TINY = {
    "data.corpus.examples": 64,
    "data.tokenizer.vocabulary": 64,
    "model.width": 16,
    "model.layers": 2,
    "model.heads": 2,
    "training.budget": {"steps": 2},
    "training.evaluate_every": 2,
}
BOTH = ["image(size=8, patch=4)", "text"]


@pytest.fixture(scope="module")
def starts(tmp_path_factory):
    """A model of pictures and texts, and one of pictures alone."""
    home = tmp_path_factory.mktemp("starts")
    for name, inputs in {"image-matching-mini": BOTH, "image-classifier-mini": BOTH[:1]}.items():
        train(Session(load(name, set={**TINY, "model.inputs": inputs})), home / name)
    return home


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The same pictures with a table of captions and labels, and in a folder for each label."""
    home = tmp_path_factory.mktemp("pictures")
    rows = []
    for number, example in enumerate(Shapes(task="caption", size=16, examples=60).read("train")):
        label = example.target.split()[2]
        place = home / "by class" / label / f"{number}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(png_of(pixels_of(example.image, 16)))
        rows.append((f"../by class/{label}/{number}.png", example.target, label))
    (home / "table").mkdir()
    with (home / "table" / "rows.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("photo", "text", "label"), *rows])
    return home


@pytest.mark.parametrize(
    ("start", "data", "columns", "form"),
    [
        ("image-matching-mini", "table/rows.csv", {"image": "photo"}, "image_text"),
        ("image-matching-mini", "by class", {}, "image"),
        ("image-classifier-mini", "table/rows.csv", {"image": "photo"}, "image"),
    ],
)
def test_rows_are_read_as_the_start_can_read_them(starts, folders, start, data, columns, form):
    config = adapting_config(starts / start, data=folders / data, reading=columns)
    assert config.data.encoding.kind == form
    session = Session(config)
    batch = next(iter(session.dataset.trained(0)))
    assert (batch.patch > 0).sum() == 4 * len(batch.ids) and batch.vectors is not None
    words = session.tokenizer.decode(batch.ids[0].tolist())
    assert ("a " in words) == (form == "image_text")


def test_a_model_adapted_to_pictures_predicts_pictures(starts, folders, tmp_path):
    start, data = starts / "image-classifier-mini", folders / "by class"
    asked = ("--set", "training.budget.steps=3", "--allow", "majority")
    ended = command("adapt", start, "--data", data, *asked, "--out", tmp_path / "adapted")
    assert (tmp_path / "adapted" / "run.json").is_file(), ended.output
    out = tmp_path / "predicted.jsonl"
    command("predict", tmp_path / "adapted", "--data", data, "--out", out, "--allow", "majority")
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(rows) == 60 and {row["prediction"] for row in rows} <= {
        "circle",
        "square",
        "triangle",
        "cross",
    }
    assert {row["image"] for row in rows} == {str(file.relative_to(data)) for file in data.rglob("*.png")}
    assert len({row["confidence"] for row in rows}) > 50, "each picture is read"
