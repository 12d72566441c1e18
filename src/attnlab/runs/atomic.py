"""Files that are whole or not there: written beside their place, flushed to the disk, renamed."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from attnlab.config.untrusted import refuse_device


def write_bytes(file: Path, content: bytes) -> None:
    """Write and flush down to the disk."""
    with file.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def sync_folder(folder: Path) -> None:
    """Make renames in a folder last through a power cut."""
    if os.name != "posix":
        return  # elsewhere folders cannot be opened, and renames are flushed by the system
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace_bytes(file: Path, content: bytes) -> None:
    """A file's new content, at one instant, whoever else writes it; what is no file (/dev/stdout) is written
    to."""
    if file.exists() and not file.is_file():
        file.write_bytes(content)
        return
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        write_bytes(beside, content)
        os.replace(beside, file)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
    sync_folder(file.parent)


def remove_halves(folder: Path) -> None:
    """What processes that were killed left beside their files, in a folder that no other one writes to."""
    for file in folder.glob(".*.*"):
        if file.suffix[1:].isdecimal() and file.is_file():
            file.unlink(missing_ok=True)


def replace_json(file: Path, value: Any) -> None:
    replace_bytes(file, as_bytes(value))


def as_bytes(value: Any) -> bytes:
    # half of a character, which is no UTF-8, is written as JSON's own escape
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")


def hash_of(file: Path) -> str:
    refuse_device(file)
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
