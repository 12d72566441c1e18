"""Pictures that a page asks about: sent by the browser, or those that the run itself was judged on."""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as NotBase64Error
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnlab.config.files import to_json
from attnlab.config.values import ConfigError
from attnlab.config.visible_text import visible
from attnlab.data.example import Example
from attnlab.data.images.decoding import PictureError, facts_of, opened, pixels_of, png_of
from attnlab.data.images.picture import Picture
from attnlab.generation.sample_file import split_shown
from attnlab.studies.files_read import text_paths
from attnlab.web.actions import Answer
from attnlab.web.actions.files_read import text_outside
from attnlab.web.worker_request import WorkerRequest

if TYPE_CHECKING:
    from attnlab.session.trained import Trained

MOST_BYTES = 10 * 2**20
"""Of a picture that is sent."""
LONGEST_NAME = 80
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM")
"""What of Pillow decodes a picture that is sent: its others may start programs (EPS)."""
FITS = {"pad": "padded", "crop": "cropped", "stretch": "stretched"}
DRAWN = "shapes"
"""The corpus whose pictures are in no file."""


@dataclass(frozen=True)
class PictureValues:
    """`picture` is {"name", "data"} of a file, as base64, or {"number"}: one of dev, from 1."""

    picture: dict[str, Any]


def picture(asked: WorkerRequest) -> Answer:
    """A picture as the model sees it, and in words what was done to it."""
    values = asked.read(PictureValues)
    grid, given = asked.trained.config.model.picture, asked_picture(asked, values.picture)
    if grid is None:
        raise ConfigError("This model reads no pictures; give a text.")
    fit = asked.trained.config.data.encoding.options.get("fit", "pad")
    try:
        seen, facts = pixels_of(given.image, grid.size, fit), facts_of(given.image)
    except PictureError as error:
        raise unusable(given.name, error) from None
    steps = [f"{facts.width:,} × {facts.height:,} pixels"]
    if facts.animated:
        steps.append(f"animated: the first of {facts.frames} frames")
    if facts.transparent:
        steps.append("transparent: laid on white")
    if (facts.width, facts.height) != (grid.size, grid.size):
        square = "resized" if facts.width == facts.height else FITS[fit]
        steps.append(f"{square} to {grid.size} × {grid.size}")
    steps.append(f"{grid.patches} patches")
    return {
        "name": given.name,
        "png": as_base64(png_of(seen)),
        "side": grid.side,
        "done": "; ".join(steps),
        "right": given.right,
        "text": given.text,
    }


@dataclass(frozen=True)
class GivenPicture:
    """A picture with its name; of one of dev also the text beside it, and what is right."""

    image: Picture
    name: str
    text: str = ""
    right: str = ""


def asked_picture(asked: WorkerRequest, given: Mapping[str, Any]) -> GivenPicture:
    """The picture that a request names; a ConfigError says what is wrong with it."""
    if "number" in given:
        return picture_of_dev(asked, given["number"])
    data, name = given.get("data"), given.get("name", "")
    if not isinstance(data, str) or not (data or name):
        raise ConfigError("No picture was given; choose a file, or a number of the run's own pictures.")
    name = visible(name.encode("utf-8", "replace").decode())[:LONGEST_NAME] if isinstance(name, str) else ""
    name = name or "The picture"
    if not data:
        raise ConfigError(f"{name} is empty: it has 0 bytes. Choose another file.")
    if len(data) * 3 // 4 > MOST_BYTES + 2:
        raise ConfigError(
            f"{name} is too large: {len(data) * 3 / 4 / 2**20:.1f} MB, limit {MOST_BYTES // 2**20} MB. Make "
            "it smaller, or use the command line, which has no limit."
        )
    try:
        image = Picture(b64decode(data, validate=True), name)
    except (NotBase64Error, ValueError):
        raise ConfigError(f"{name} cannot be used: its data is not base64.") from None
    try:
        if (kind := opened(image).format) not in FORMATS:
            raise PictureError(f"its format is {kind}, and the page reads {', '.join(FORMATS)}")
    except PictureError as error:
        raise unusable(name, error) from None
    return GivenPicture(image, name)


def unusable(name: str, error: PictureError) -> ConfigError:
    return ConfigError(f"{name} cannot be used: {error}.")


# ---------------------------------------------------------------- pictures of the run's own corpus
def picture_of_dev(asked: WorkerRequest, number: Any) -> GivenPicture:
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ConfigError(
            f"The number of a picture is {number!r:.40}; it must be whole, and the run's own pictures are "
            "counted from 1."
        )
    examples = own_examples(asked)
    example = next(islice(examples, number - 1, None), None)
    if example is None:
        count = sum(1 for _ in own_examples(asked))
        raise ConfigError(f"There is no picture {number:,}: the run's own are 1 to {count:,}.")
    return given_of(example, number)


def given_of(example: Example, number: int) -> GivenPicture:
    assert example.image is not None
    right = example.target or example.label
    label = right if isinstance(right, str) else ", ".join(right or ())
    return GivenPicture(example.image, example.place or f"picture {number}", example.text, label)


def own_examples(asked: WorkerRequest) -> Iterator[Example]:
    """The examples with a picture that the run is judged on, where they are in the served folder."""
    trained = asked.trained
    if not gives_pictures(asked):
        raise ConfigError(
            "The pictures of this run are not in the folder that is served, and the page reads nothing else; "
            "choose a file."
        )
    dataset = trained.dataset
    for example in dataset.examples(split_shown(dataset)):
        source = None if example.image is None else example.image.source
        if source is not None and (isinstance(source, bytes) or asked.holds(source)):
            yield example


def gives_pictures(asked: WorkerRequest) -> bool:
    """Whether the page may read the pictures that a run is judged on: drawn ones, or files that are all in
    the served folder."""
    trained = asked.trained
    if trained.imported or trained.config.model.picture is None:
        return False
    corpus = trained.config.data.corpus
    paths = [Path(path).expanduser() for path in text_paths(to_json(trained.config))]
    outside = text_outside(asked, trained.config) or not all(held_wholly(asked, path) for path in paths)
    return corpus.kind == DRAWN or (bool(paths) and not outside)


def held_wholly(asked: WorkerRequest, path: Path) -> bool:
    """Whether a file, or a folder with all that is in it, is in the served folder."""
    inside = path.rglob("*") if path.is_dir() else iter(())
    return asked.holds(path) and all(asked.holds(file) for file in inside if file.is_symlink())


def picture_facts(asked: WorkerRequest) -> Answer | None:
    """What a page needs to know to ask about pictures; None of a model that reads none."""
    trained = asked.trained
    grid = trained.config.model.picture
    if grid is None:
        return None
    return {
        "size": grid.size,
        "text": text_beside(trained),
        "own": gives_pictures(asked),
        "bytes": MOST_BYTES,
    }


def text_beside(trained: Trained) -> str:
    """Where a text goes with a picture: both are read (`needed`), it is what was `written`, it is read
    `instead`, or `none` is."""
    if trained.captions:
        return "written"
    if trained.config.data.encoding.kind == "image_text":
        return "needed"
    return "instead" if "text" in trained.config.model.modalities else "none"


def as_base64(content: bytes) -> str:
    return b64encode(content).decode()
