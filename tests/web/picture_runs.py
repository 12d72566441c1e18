"""Small runs of pictures in one folder, and questions to them as a worker answers them."""

from __future__ import annotations

import io
from base64 import b64encode

import pytest
from PIL import Image

from attnlab.config.files import load
from attnlab.data.corpora.shapes import Shapes
from attnlab.data.images.decoding import pixels_of, png_of
from attnlab.session import soundness
from attnlab.session.session import Session
from attnlab.session.trained import Trained
from attnlab.session.training import train
from tests.web.asking import Questions

SMALL = {
    "data.corpus.examples": 64,
    "model.width": 16,
    "model.layers": 2,
    "model.heads": 2,
    "training.budget": {"steps": 12},
    "training.evaluate_every": 12,
    "training.optimizer.learning_rate": 1e-2,
}
PREFIX = {
    "task": "prefix",
    "data.encoding": "image_prefix",
    "model.family": "decoder",
    "model.mask": "prefix",
}
CLIP = {
    "model.trunk": "two_encoders(projection=16, image_width=16, image_layers=2, image_heads=2)",
    "model.output": "contrast",
    "model.mask": "causal",
    "model.positions": "learned(patches=order)",
    "model.embedding_scale": 1.0,
    "task": "similarity(objective=symmetric, temperature=1)",
}
RUNS = {
    "classify": ("image-classifier-mini", {"model.inputs": "image(size=16, patch=4)"}),
    "matching": ("image-matching-mini", {}),
    "caption": ("image-caption-mini", {}),
    "prefix": ("image-caption-mini", PREFIX),
    "search": ("image-search-mini", {}),
    "clip": ("image-search-mini", CLIP),
}


@pytest.fixture(scope="session")
def pictures_served(tmp_path_factory):
    """A folder as it would be served: a run of each kind, and pictures beside them."""
    folder = tmp_path_factory.mktemp("pictures-served")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(soundness, "run_checks", lambda case, names=(): [])
        for kind, (config, changes) in RUNS.items():
            train(Session(load(config, set=SMALL | changes)), folder / kind, allow=["overfit"])
    pictures_in(folder / "pictures")
    return folder


def shapes(split="dev"):
    return list(Shapes(task="caption", examples=64).read(split))


def pictures_in(folder, count=6):
    folder.mkdir()
    for number, example in enumerate(shapes()[:count]):
        (folder / f"{number}.png").write_bytes(png_of(pixels_of(example.image, 32)))
    return folder


@pytest.fixture(scope="session")
def ask_about_pictures(pictures_served):
    return Questions(pictures_served)


@pytest.fixture(scope="session")
def opened_pictures(pictures_served):
    return {kind: Trained.at(pictures_served / kind) for kind in RUNS}


def sent(content, name="mine.png"):
    """A picture as a browser sends it."""
    return {"name": name, "data": b64encode(content).decode()}


def drawing(mode="RGB", size=(40, 24), kind="PNG", **options):
    """The bytes of a picture with two halves."""
    image = Image.new("RGB", size, (214, 39, 40))
    image.paste((31, 90, 200), (0, 0, size[0] // 2, size[1]))
    file = io.BytesIO()
    image.convert(mode).save(file, kind, **options)
    return file.getvalue()
