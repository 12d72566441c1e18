"""Passages of files with one vector each, on disk: exact search, and only new text is embedded again."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlab.data.errors import DataError
from attnlab.data.passages import PlacedPassage, Skipped, files_in, read_passages
from attnlab.data.verified_arrays import DamagedArrayError, VerifiedArrays

SEGMENT = 2048
"""Passages that are embedded between two writings: what a kill can cost."""
FRESH = 2_000_000_000
"""Nanoseconds: a file read so soon after it was written may have changed again within the clock's step."""
DIGEST = 16
AT_ONCE = 1 << 16
"""Vectors that are multiplied at a time: memory stays flat."""

Vectors = NDArray[np.float32]
Embed = Callable[[Sequence[str]], Vectors]
"""Texts -> their vectors (n, D), of length 1."""
Read = Callable[[Path, str], tuple[list[PlacedPassage], list[Skipped]]]
"""A file and its encoding -> its passages, and what of it could not be read."""
Progress = Callable[[int, int], None]
"""Is given how many passages of how many new ones have their vector."""


@dataclass(frozen=True)
class Hit:
    """A passage that was found: its cosine with the query, its text, its file, and where in it."""

    score: float
    text: str
    file: str
    where: str


@dataclass
class IndexUpdate:
    """What bringing an index up to date came to."""

    files: int = 0
    passages: int = 0
    embedded: int = 0
    changed: bool = False
    skipped: list[Skipped] = field(default_factory=list)
    rebuilt: str = ""
    """Why the index was made anew; empty where it was not."""


@dataclass(frozen=True)
class ReadFile:
    """A file as it was when it was read, and how many passages it has."""

    size: int
    modified: int
    read: int
    count: int
    skipped: Sequence[Skipped]

    @classmethod
    def of(cls, file: Path, encoding: str, read: Read) -> tuple[ReadFile, list[PlacedPassage]]:
        status, now = file.stat(), time.time_ns()
        passages, skipped = read(file, encoding)
        return cls(status.st_size, status.st_mtime_ns, now, len(passages), skipped), passages

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> ReadFile:
        return cls(**{**record, "skipped": [Skipped(*one) for one in record["skipped"]]})

    def record(self) -> dict[str, Any]:
        return {**vars(self), "skipped": [[one.place, one.reason] for one in self.skipped]}

    def is_still(self, file: Path) -> bool:
        status = file.stat()
        unchanged = (status.st_size, status.st_mtime_ns) == (self.size, self.modified)
        return unchanged and self.read - self.modified > FRESH


class PassageIndex:
    """The passages of a folder with their vectors, kept in `folder`; `identity` names the model of these.

    A text's vector is found by the text's digest, wherever the text stands: a file that is moved, or
    changed in one place, costs what is new in it. Vectors are written in segments, so that a kill costs one.
    `read` gives a file's passages: those of a text, or of a picture the digest that names it.
    """

    def __init__(self, folder: Path, identity: str, read: Read = read_passages):
        self.arrays, self.read = VerifiedArrays(folder, identity), read
        self.files: dict[str, ReadFile] = {}
        self.vectors: list[Vectors] = []
        self.rows = np.zeros(0, np.int64)

    # ---------------------------------------------------------------- bringing it up to date
    def update(
        self,
        source: Path,
        embed: Embed,
        *,
        encoding: str = "utf-8",
        wanted: Callable[[Path], bool] = lambda file: True,
        progress: Progress = lambda done, of: None,
    ) -> IndexUpdate:
        """Read what has changed below `source`, embed the texts that have no vector yet, open the result.

        A damaged index is made anew, and one of another model is refused.
        """
        files = {str(file): file for file in files_in(source) if wanted(file)}
        try:
            self.arrays.open()
            self._open()
            return self._update(source, files, embed, encoding, progress)
        except DamagedArrayError as damage:
            self.arrays.forget()
            self.files = {}
            return replace(self._update(source, files, embed, encoding, progress), rebuilt=str(damage))

    def _update(
        self, source: Path, files: Mapping[str, Path], embed: Embed, encoding: str, progress: Progress
    ) -> IndexUpdate:
        same = {
            name for name, file in files.items() if name in self.files and self.files[name].is_still(file)
        }
        changed = same != self.files.keys() or same != files.keys()
        embedded = 0
        if changed:
            kept = {name: (self.files[name], self._passages(name)) for name in same}
            read = {
                n: kept[n] if n in kept else ReadFile.of(f, encoding, self.read) for n, f in files.items()
            }
            passages = [passage for _, held in read.values() for passage in held]
            self._refuse_empty(source, [skip for one, _ in read.values() for skip in one.skipped], passages)
            embedded = self._embed([passage.text for passage in passages], embed, progress)
            self._list({name: one for name, (one, _) in read.items()}, passages)
            self._open()
        skipped = [skip for one in self.files.values() for skip in one.skipped]
        return IndexUpdate(len(files), len(self), embedded, changed, skipped)

    def _refuse_empty(
        self, source: Path, skipped: Sequence[Skipped], passages: Sequence[PlacedPassage]
    ) -> None:
        if not passages:
            reasons = "; ".join(map(str, skipped[:3]))
            raise DataError(f"{source} has no text to search in" + (f" ({reasons})." if reasons else "."))

    def _embed(self, texts: Sequence[str], embed: Embed, progress: Progress) -> int:
        """Vectors of the texts that have none, kept as soon as a segment of them is done."""
        rows = self._rows_by_digest()
        new = [text for digest, text in {digest_of(t): t for t in texts}.items() if digest not in rows]
        new.sort(key=len)  # alike in length, little padding
        for first in range(0, len(new), SEGMENT):
            some = new[first : first + SEGMENT]
            self._add(embed(some), [digest_of(text) for text in some])
            self.arrays.commit()
            progress(first + len(some), len(new))
        return len(new)

    def _add(self, vectors: Vectors, digests: Sequence[bytes]) -> None:
        named = np.frombuffer(b"".join(digests), np.uint8).reshape(-1, DIGEST)
        parts: dict[str, NDArray[Any]] = {"vectors": np.asarray(vectors, np.float32), "digests": named}
        segments = self.arrays.held.setdefault("segments", [])
        segments.append({name: self.arrays.save(name, array) for name, array in parts.items()})

    def _list(self, files: Mapping[str, ReadFile], passages: Sequence[PlacedPassage]) -> None:
        """The passages, each with the row of its vector."""
        rows, digests = self._rows_by_digest(), [digest_of(passage.text) for passage in passages]
        if len(rows) > 2 * len(set(digests)):  # most vectors are of texts that are gone
            rows = self._compact(rows, set(digests))
        columns = {
            "rows": np.array([rows[digest] for digest in digests], np.int64),
            **Strings.of("texts", [passage.text for passage in passages]),
            **Strings.of("places", [passage.where for passage in passages]),
        }
        listing: dict[str, Any] = {name: self.arrays.save(name, array) for name, array in columns.items()}
        self.arrays.held["listing"] = listing | {"files": {name: one.record() for name, one in files.items()}}
        self.arrays.commit()

    def _compact(self, rows: Mapping[bytes, int], wanted: set[bytes]) -> dict[bytes, int]:
        """Keep the vectors that are wanted, in one segment; their rows."""
        kept = [digest for digest in rows if digest in wanted]
        vectors = np.concatenate(self._mapped("vectors"))[[rows[digest] for digest in kept]]
        self.arrays.held["segments"] = []
        self._add(vectors, kept)
        return {digest: row for row, digest in enumerate(kept)}

    def _rows_by_digest(self) -> dict[bytes, int]:
        """The row of every text that has a vector, over all segments."""
        every = (one.tobytes() for held in self._mapped("digests") for one in held)
        return {digest: row for row, digest in enumerate(every)}

    def _mapped(self, column: str) -> list[NDArray[Any]]:
        return [self.arrays.load(segment[column]) for segment in self.arrays.held.get("segments", ())]

    def _open(self) -> None:
        """Map the vectors and the passages, verified; nothing where the index was never whole."""
        listing = self.arrays.held.get("listing")
        if listing is None:  # killed while it was made: the vectors that are there are of use
            return
        arrays = {name: self.arrays.load(part) for name, part in listing.items() if name != "files"}
        self.vectors, self.rows = self._mapped("vectors"), arrays["rows"]
        self.texts, self.where = (
            Strings(arrays[name], arrays[f"{name}_ends"]) for name in ("texts", "places")
        )
        self.files = {name: ReadFile.from_record(one) for name, one in listing["files"].items()}
        self.ends = np.cumsum([one.count for one in self.files.values()], dtype=np.int64)
        if len({len(self.rows), len(self.texts), len(self.where), int(self.ends[-1])}) > 1:
            raise DamagedArrayError(f"{self.arrays.folder} lists another number of passages than it holds")

    def _passages(self, name: str) -> list[PlacedPassage]:
        """Those of a file, as they were read."""
        number = list(self.files).index(name)
        end = int(self.ends[number])
        return [PlacedPassage(self.texts[n], self.where[n]) for n in range(end - self.files[name].count, end)]

    # ---------------------------------------------------------------- asking it
    def __len__(self) -> int:
        return len(self.rows)

    def file(self, number: int) -> str:
        """The file of a passage."""
        return list(self.files)[int(np.searchsorted(self.ends, number, side="right"))]

    def scores(self, query: Vectors) -> Vectors:
        """(n) the cosine of a query's vector (D) with every passage."""
        scores = [
            held[first : first + AT_ONCE] @ query
            for held in self.vectors
            for first in range(0, len(held), AT_ONCE)
        ]
        return np.concatenate(scores)[self.rows]

    def nearest(self, query: Vectors, top: int) -> list[Hit]:
        """The best passages for a query's vector, best first; a text that stands in two places comes once."""
        scores = self.scores(query)
        _, first = np.unique(self.rows, return_index=True)
        count = min(top, len(first))
        best = first[np.argpartition(-scores[first], count - 1)[:count]]
        ordered = best[np.lexsort((best, -scores[best]))].tolist()
        return [Hit(float(scores[n]), self.texts[n], self.file(n), self.where[n]) for n in ordered]


@dataclass(frozen=True)
class Strings:
    """Strings in one array of bytes, of which each is read when it is asked for."""

    flat: NDArray[np.uint8]
    ends: NDArray[np.int64]

    @staticmethod
    def of(name: str, strings: Sequence[str]) -> dict[str, NDArray[Any]]:
        """The arrays of strings, by names of their own."""
        encoded = [string.encode() for string in strings]
        flat = np.frombuffer(b"".join(encoded), np.uint8)
        return {name: flat, f"{name}_ends": np.cumsum([len(one) for one in encoded], dtype=np.int64)}

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, number: int) -> str:
        begin = int(self.ends[number - 1]) if number else 0
        return self.flat[begin : int(self.ends[number])].tobytes().decode()


def digest_of(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=DIGEST).digest()
