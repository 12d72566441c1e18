"""From an address on the page to a folder on the disk: nothing outside the served folder is read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from attnlab.config.values import ConfigError

LARGEST = 64 << 20
"""Bytes of a record above which the page does not read it."""
LARGEST_EVENTS = 512 << 20
"""Of metrics.jsonl, which is read in parts."""
EVENTS = ("metrics.jsonl",)


class NotServedError(ConfigError):
    """An address that leads nowhere in the served folder."""


def folder_at(root: Path, address: str) -> Path:
    """The folder of an address below `root`, itself resolved; a link that leads out of it is none."""
    parts = PurePosixPath(address).parts
    if not parts or "\0" in address or any(part in ("..", "/") for part in parts):
        raise NotServedError(f'There is no folder "{address}" here.')
    try:
        place = root.joinpath(*parts)
        inside = place.resolve(strict=True).is_relative_to(root)
    except (OSError, ValueError, RuntimeError):
        raise NotServedError(f'There is no folder "{address}" here.') from None
    if not inside or not place.is_dir():
        raise NotServedError(f'There is no folder "{address}" here.')
    return place


def address_of(root: Path, folder: Path) -> str:
    return folder.relative_to(root).as_posix()


def refuse_outside(root: Path, folder: Path, *, whole: bool = False) -> None:
    """Refuse a run's folder that stands behind a link, or of which a file is a link that leads out of the
    served one, a pipe, or too large to be a record; `whole` asks its checkpoints as well, before a model is
    opened."""
    if folder.resolve() != folder:
        raise NotServedError(f"{address_of(root, folder)} stands behind a link: not read.")
    for entry in _entries(folder, whole=whole):
        if entry.is_symlink() and not Path(entry.path).resolve().is_relative_to(root):
            raise NotServedError(
                f"{entry.name} in {folder.name} is a link that leads out of the served folder: not read."
            )
        if not entry.is_file() and not entry.is_dir() and entry.name != "lock":
            raise NotServedError(
                f"{entry.name} in {folder.name} is a pipe or a device, not a file: not read."
            )
        if entry.name.endswith((".json", ".jsonl", ".txt")) and entry.is_file():
            most = LARGEST_EVENTS if entry.name in EVENTS else LARGEST
            if (size := entry.stat().st_size) > most:
                raise NotServedError(f"{entry.name} is too large: {size:,} bytes, limit {most:,} bytes.")


def _entries(folder: Path, *, whole: bool) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        listed = list(entries)
    yield from listed
    if whole:
        for entry in listed:
            if entry.is_dir(follow_symlinks=False):
                yield from _entries(Path(entry.path), whole=True)
