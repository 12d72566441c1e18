"""A picture of an example: its bytes, or the file that holds them, read when they are asked for."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.data.errors import DataError

SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm")
"""The files that a folder of pictures is looked through for."""


@dataclass(frozen=True, slots=True)
class Picture:
    """An encoded picture. `name` is that of its file, where it has one: no model reads it."""

    source: bytes | Path
    name: str = ""

    def read(self) -> bytes:
        """Its bytes, as they are stored."""
        if isinstance(self.source, bytes):
            return self.source
        try:
            return self.source.read_bytes()
        except OSError as error:
            raise DataError(f"{self.source} cannot be read: {error.strerror or error}.") from error

    @property
    def held(self) -> int:
        """The bytes of it that are in memory."""
        return len(self.source) if isinstance(self.source, bytes) else 0

    @property
    def digest(self) -> str:
        """A hash of its bytes: equal for two copies of one file, whatever their names."""
        return hashlib.blake2b(self.read(), digest_size=16).hexdigest()

    def __repr__(self) -> str:
        where = f"{len(self.source):,} bytes" if isinstance(self.source, bytes) else str(self.source)
        return f"Picture({self.name or where})"


def is_picture_file(file: Path) -> bool:
    """Whether a file is a picture, by its name."""
    return file.suffix.lower() in SUFFIXES


def looks_like_picture(value: Any) -> bool:
    """Whether a cell of a table holds a picture: its bytes, {bytes, path}, or the name of its file."""
    if isinstance(value, Mapping):
        return {"bytes", "path"} <= set(value)
    return isinstance(value, bytes) or (isinstance(value, str) and is_picture_file(Path(value)))


def picture_of(value: Any, folder: Path) -> Picture | str:
    """The picture of a cell, whose file is looked for in `folder`; or why there is none."""
    if isinstance(value, Mapping):
        content, path = value.get("bytes"), value.get("path")
    else:
        content, path = (value, None) if isinstance(value, bytes) else (None, value)
    name = os.path.basename(path) if isinstance(path, str) else ""
    if isinstance(content, bytes):
        return Picture(content, name) if content else "is empty: it has 0 bytes"
    if not isinstance(path, str) or not path:
        shown = "null" if value is None else f"{value!r:.40}"
        return f"is {shown}, not a picture; give its bytes, {{bytes, path}}, or the name of its file"
    file = Path(path).expanduser()
    file = file if file.is_absolute() else folder / file
    return Picture(file, name) if file.is_file() else f"names {path}, and there is no such file in {folder}"
