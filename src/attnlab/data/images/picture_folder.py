"""A folder of pictures, as the library datasets has it: with a table that names them, or a folder a class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from attnlab.data.corpora.records import Record
from attnlab.data.images.picture import is_picture_file

TABLES = ("metadata.csv", "metadata.jsonl", "metadata.parquet")
"""The tables that name pictures, in a column file_name."""
SPLIT_FOLDERS = {
    "train": ("train", "training"),
    "dev": ("dev", "val", "valid", "validation"),
    "test": ("test", "testing"),
}


def pictures_by_split(folder: Path) -> dict[str, list[Path]]:
    """The pictures below a folder, or the tables that name them, by split; nothing where there are none.

    Folders named train, dev (or val, valid, validation) and test directly in it are splits.
    """
    inside = sorted(f for f in folder.rglob("*") if f.is_file() and not hidden(f.relative_to(folder)))
    pictures = [file for file in inside if is_picture_file(file)]
    if not pictures:
        return {}
    tables = [file for file in inside if file.name in TABLES]
    files = tables or pictures
    split_of = {name: split for split, names in SPLIT_FOLDERS.items() for name in names}
    sides: dict[str, list[Path]] = {split: [] for split in SPLIT_FOLDERS}
    outside = []
    for file in files:
        first = file.relative_to(folder).parts[0].lower()
        sides[split_of[first]].append(file) if first in split_of else outside.append(file)
    if outside or not sides["train"]:
        return {"train": files}
    return {split: side for split, side in sides.items() if side}


def hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def has_class_folders(files: Mapping[str, Sequence[Path]]) -> bool:
    """Whether pictures stand in several folders, each of which is then a class."""
    folders = {file.parent.name for side in files.values() for file in side if is_picture_file(file)}
    return len(folders) > 1


def picture_record(file: Path, *, classed: bool) -> Record:
    """A picture as a row, with the name of its folder as its label where folders are classes."""
    values: dict[str, object] = {"image": {"bytes": None, "path": str(file.absolute())}}
    return Record(str(file), values | ({"label": file.parent.name} if classed else {}))
