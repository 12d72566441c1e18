"""Text tokenised once: memory-mapped parts with a manifest, reused when nothing has changed.

A folder of shards is whole or it does not exist: it is written beside its place and renamed.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from attnlab.data.columns import Row
from attnlab.data.rows import Columns, Rows, columns_of, concatenated
from attnlab.data.verified_arrays import DamagedArrayError, load_array, save_array, seal, unseal
from attnlab.runs.faults import FAULTS

FORMAT = 3
SHARD_TOKENS = 1 << 20
MANIFEST = "manifest.json"

Progress = Callable[[int, int, float | None], None]
"""Is given after every shard: rows so far, tokens so far, and the share of the text that has been read."""


def silent(rows: int, tokens: int, share: float | None) -> None:
    """No progress bar."""


def write(
    rows: Iterable[Row], folder: Path, *, vocabulary: int, shard_tokens: int = SHARD_TOKENS, **facts: Any
) -> Rows:
    """Write rows as shards, and open them; `facts` are those of a ShardWriter."""
    with ShardWriter(folder, shard_tokens=shard_tokens, **facts) as writer:
        for shard in gathered(rows, shard_tokens):
            writer.add(columns_of(shard, vocabulary))
    rows_written = opened(folder, writer.fingerprint)
    assert rows_written is not None, f"{folder} was just written"
    return rows_written[0]


class ShardWriter:
    """Writes columns of rows as shards, holding one shard in memory. Used with `with`, at whose end the
    folder is in its place, or does not exist. `about` goes in the manifest."""

    def __init__(
        self,
        folder: Path,
        *,
        fingerprint: str,
        about: Callable[[], dict[str, Any]] = dict,
        progress: Progress = silent,
        share: Callable[[], float | None] = lambda: None,
        shard_tokens: int = SHARD_TOKENS,
    ):
        self.folder, self.fingerprint, self.about = folder, fingerprint, about
        self.progress, self.share, self.shard_tokens = progress, share, shard_tokens
        self.shards: list[dict[str, Any]] = []
        self.total = {"rows": 0, "tokens": 0}
        self._held: list[Columns] = []

    def __enter__(self) -> ShardWriter:
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        self.beside = Path(tempfile.mkdtemp(prefix=f".{self.folder.name}-", dir=self.folder.parent))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._finish()
        finally:
            shutil.rmtree(self.beside, ignore_errors=True)

    def add(self, columns: Columns) -> None:
        self._held.append(columns)
        if sum(len(one["ids"]) + len(one.get("target", ())) for one in self._held) >= self.shard_tokens:
            self._save()

    def _save(self) -> None:
        self.shards.append(save_shard(concatenated(self._held), self.beside, len(self.shards)))
        self._held = []
        self.total = {key: self.total[key] + self.shards[-1][key] for key in self.total}
        self.progress(self.total["rows"], self.total["tokens"], self.share())

    def _finish(self) -> None:
        if self._held:
            self._save()
        facts = {"format": FORMAT, "fingerprint": self.fingerprint, **self.total}
        manifest = {**facts, "shards": self.shards, "about": self.about()}
        seal(self.beside / MANIFEST, manifest)
        replace(self.beside, self.folder)


def replace(beside: Path, folder: Path) -> None:
    """Put a finished folder in its place; one that is already there made way for a reason."""
    if folder.exists():
        shutil.rmtree(folder)
    try:
        os.replace(beside, folder)
    except OSError:
        # Another process finished the same shards first: theirs are as good.
        if not (folder / MANIFEST).exists():
            raise
        shutil.rmtree(beside)


def gathered(rows: Iterable[Row], tokens: int) -> Iterator[list[Row]]:
    """Rows in lists of about `tokens` tokens."""
    rows_so_far: list[Row] = []
    size = 0
    for row in rows:
        rows_so_far.append(row)
        size += len(row.ids) + len(row.target or ())
        if size >= tokens:
            yield rows_so_far
            rows_so_far, size = [], 0
    if rows_so_far:
        yield rows_so_far


def save_shard(columns: Columns, folder: Path, number: int) -> dict[str, Any]:
    files = {
        name: save_array(folder / f"{number:05d}.{name}.npy", values) for name, values in columns.items()
    }
    return {"rows": len(columns["example"]), "tokens": len(columns["ids"]), "columns": files}


def opened(folder: Path, fingerprint: str) -> tuple[Rows, dict[str, Any]] | None:
    """The rows of a folder, mapped, and what the manifest says about them; None unless they are just those
    that would be written now, all of them, as they were written."""
    try:
        manifest = unseal(folder / MANIFEST)
        if (manifest["format"], manifest["fingerprint"]) != (FORMAT, fingerprint):
            return None
        parts = [
            {name: load_array(folder, column) for name, column in shard["columns"].items()}
            for shard in manifest["shards"]
        ]
        return Rows(parts, fingerprint=fingerprint), manifest["about"]
    except (OSError, DamagedArrayError, *FAULTS):
        return None
