"""Pictures of a folder for search: each named by the digest of its bytes."""

from __future__ import annotations

from pathlib import Path

from attnlab.data.errors import DataError
from attnlab.data.images.decoding import pixels_of
from attnlab.data.images.picture import Picture
from attnlab.data.passages import PlacedPassage, Skipped


class PictureReader:
    """Reads a file as one passage whose text is the picture's digest; `pictures` has those that were read."""

    def __init__(self) -> None:
        self.pictures: dict[str, Picture] = {}

    def __call__(self, file: Path, encoding: str) -> tuple[list[PlacedPassage], list[Skipped]]:
        picture = Picture(file, file.name)
        try:
            pixels_of(picture, 1)
        except DataError as error:
            return [], [Skipped(str(file), str(error))]
        self.pictures[picture.digest] = picture
        return [PlacedPassage(picture.digest, "picture")], []
