"""Arrays in a folder that are memory-mapped and verified: a manifest, written last, names what belongs there.

A kill leaves the folder as the last manifest says: what was being written is not in it, and is removed later.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from attnlab.data.errors import DataError
from attnlab.runs.atomic import replace_bytes
from attnlab.runs.faults import FAULTS

FORMAT = 2
MANIFEST = "manifest.json"
SUFFIX = ".array.npy"
READ = 1 << 20

Part = Mapping[str, Any]
"""An array as a manifest names it: its file, bytes and checksum."""


class DamagedArrayError(Exception):
    """Something that a manifest names is missing, or is not what was written."""


def save_array(file: Path, array: NDArray[Any]) -> Part:
    np.save(file, np.ascontiguousarray(array))
    return {"file": file.name, "bytes": file.stat().st_size, "crc": checksum_of(file)}


def load_array(folder: Path, part: Part) -> NDArray[Any]:
    """Map an array, having read it once: its bytes are those that were written."""
    try:
        file = folder / part["file"]
        sound = file.stat().st_size == part["bytes"] and checksum_of(file) == part["crc"]
        if sound:
            return cast(NDArray[Any], np.load(file, mmap_mode="r"))
    except (OSError, *FAULTS) as error:
        raise DamagedArrayError(f"{folder} lacks an array, or holds a broken one") from error
    raise DamagedArrayError(f"{file} is damaged: it is not what was written")


def checksum_of(file: Path) -> int:
    total = 0
    with file.open("rb") as stream:
        while some := stream.read(READ):
            total = zlib.crc32(some, total)
    return total


class VerifiedArrays:
    """The arrays of a folder. `identity` is what they were made with: those of another are refused.

    What else a person keeps in the manifest is in `held`; parts are found in it wherever they are.
    """

    def __init__(self, folder: Path, identity: str):
        self.folder, self.identity = folder, identity
        self.held: dict[str, Any] = {}
        self.written = 0

    def open(self) -> None:
        """Read the manifest; nothing where the folder is not there or is empty."""
        if not self.folder.is_dir() or not any(self.folder.iterdir()):
            return
        file = self.folder / MANIFEST
        if not file.is_file():
            raise DataError(
                f"{self.folder} is not empty and holds no index ({MANIFEST} is missing); give another folder."
            )
        try:
            manifest = unseal(file)
            form, identity = manifest["format"], manifest["identity"]
            arrays, written = dict(manifest["held"]), int(manifest["written"])
        except FAULTS as error:
            raise DamagedArrayError(f"{file} is damaged, or of another version") from error
        if form != FORMAT:
            raise DamagedArrayError(f"{file} is of another version")
        if identity != self.identity:
            raise DataError(
                f"The index in {self.folder} was made with another model ({identity}, not {self.identity}), "
                "whose vectors mean something else; give another folder, or remove this one."
            )
        self.held, self.written = arrays, written

    def forget(self) -> None:
        """Begin anew; what is there is removed by the next commit."""
        self.held = {}

    def save(self, name: str, array: NDArray[Any]) -> Part:
        """Write an array that the next commit may name."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.written += 1
        return save_array(self.folder / f"{name}-{self.written:05d}{SUFFIX}", array)

    def load(self, part: Part) -> NDArray[Any]:
        """Map an array, verified."""
        return load_array(self.folder, part)

    def commit(self) -> None:
        """Make what `held` names the content, at one instant, and remove what it does not name."""
        about = {"format": FORMAT, "identity": self.identity, "written": self.written, "held": self.held}
        seal(self.folder / MANIFEST, about)
        named = set(files_named(self.held))
        for file in self.folder.glob(f"*{SUFFIX}"):
            if file.name not in named:
                file.unlink()


def files_named(content: Any) -> Iterator[str]:
    """The files of every part in a manifest."""
    if isinstance(content, Mapping):
        if {"file", "bytes", "crc"} <= content.keys():
            yield content["file"]
        for value in content.values():
            yield from files_named(value)
    elif isinstance(content, list):
        for value in content:
            if not isinstance(value, str):
                yield from files_named(value)


# ---------------------------------------------------------------- JSON with its checksum
def seal(file: Path, content: Any) -> None:
    """Write what JSON can hold, whole or not at all; several processes may write the same."""
    replace_bytes(file, json.dumps({"crc": checksum(content), "held": content}).encode())


def unseal(file: Path) -> Any:
    """What was sealed; a fault of `runs/faults.py` where it is not just that."""
    sealed = json.loads(file.read_text(encoding="utf-8"))
    content = sealed["held"]
    if sealed["crc"] != checksum(content):
        raise ValueError("its checksum is not that of what it holds")
    return content


def checksum(content: Any) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())
