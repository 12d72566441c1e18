"""Pictures nearest to a text: those of a folder that is served, or those that the run was judged on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Annotated

from attnlab.config.ranges import Range
from attnlab.config.values import ConfigError
from attnlab.data.errors import DataError
from attnlab.data.images.decoding import pixels_of, thumbnail
from attnlab.data.images.picture import Picture, is_picture_file
from attnlab.data.passages import files_in
from attnlab.session.embedding import Embedder
from attnlab.web.actions import Answer
from attnlab.web.actions.pictures import as_base64, given_of, own_examples
from attnlab.web.worker_request import WorkerRequest

MOST = 3000
"""Pictures that are read for a question; an index of more is kept by the command line."""
Named = tuple[str, Picture, str]
"""A picture with its name, and what is right of it where that is known."""


@dataclass(frozen=True)
class SearchPicturesValues:
    """`folder` is one below the served folder, with its own below it; without one the run's own pictures."""

    query: str
    folder: str = ""
    top: Annotated[int, Range(least=1, most=50)] = 8


def search_pictures(asked: WorkerRequest) -> Answer:
    values, trained = asked.read(SearchPicturesValues), asked.trained
    if not values.query.strip():
        raise ConfigError("The query is empty; say what to search for.")
    if trained.config.model.picture is None:
        raise ConfigError("This model reads no pictures; search in texts.")
    embedder = Embedder.of(trained)
    pictures = pictures_in(asked, values.folder) if values.folder.strip() else own_pictures(asked)
    read: list[Named] = []
    skipped = []
    for named in islice(pictures, MOST + 1):
        try:
            pixels_of(named[1], 1)
            read.append(named)
        except DataError as error:
            skipped.append(f"{named[0]}: {error}.")
    if len(read) + len(skipped) > MOST:
        raise ConfigError(
            f"There are more than {MOST:,} pictures, which is what the page reads for a question. Search in "
            'them with an index: attnlab search RUN --in FOLDER "…"'
        )
    if not read:
        raise ConfigError("There is no picture to search in" + (f" ({skipped[0]})" if skipped else "") + ".")
    scores = (
        embedder.picture_vectors([picture for _, picture, _ in read]) @ embedder.vectors([values.query])[0]
    )
    order = sorted(range(len(read)), key=lambda n: -scores[n])[: values.top]
    hits = [
        {
            "score": float(scores[n]),
            "name": read[n][0],
            "right": read[n][2],
            "png": as_base64(thumbnail(read[n][1])),
        }
        for n in order
    ]
    return {"hits": hits, "of": len(read), "skipped": skipped}


def pictures_in(asked: WorkerRequest, folder: str) -> Iterator[Named]:
    """The pictures below a folder; links that lead out of the served one are not followed."""
    place = asked.root / folder.strip()
    if not asked.holds(place) or not place.is_dir():
        raise ConfigError(
            f'There is no folder "{folder}" in the folder that is served; give one that is in it.'
        )
    for file in files_in(place):
        if is_picture_file(file) and asked.holds(file):
            name = str(file.relative_to(place))
            yield name, Picture(file, name), ""


def own_pictures(asked: WorkerRequest) -> Iterator[Named]:
    for number, example in enumerate(own_examples(asked), start=1):
        given = given_of(example, number)
        yield given.name, given.image, given.right or given.text
