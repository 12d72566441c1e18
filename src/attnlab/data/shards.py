"""Text tokenised once: memory-mapped parts with a manifest, reused when nothing has changed.

A folder of shards is whole or it does not exist: it is written beside its place and renamed.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from attnlab.data.errors import DataError
from attnlab.data.row import Row
from attnlab.data.rows import Columns, Rows, columns_of, joined

FORMAT = 2
SHARD_TOKENS = 1 << 20
MANIFEST = "manifest.json"

Progress = Callable[[int, int, float | None], None]
"""Told after every shard: rows so far, tokens so far, and the share of the text that has been read."""


def silent(rows: int, tokens: int, share: float | None) -> None:
    """No progress bar."""


def write(
    rows: Iterable[Row], folder: Path, *, vocabulary: int, shard_tokens: int = SHARD_TOKENS, **facts: Any
) -> Rows:
    """Write rows as shards, and open them; `facts` are those of `write_parts`."""
    parts = (columns_of(held, vocabulary) for held in gathered(rows, shard_tokens))
    return write_parts(parts, folder, shard_tokens=shard_tokens, **facts)


def write_parts(
    parts: Iterable[Columns],
    folder: Path,
    *,
    fingerprint: str,
    about: Callable[[], dict[str, Any]] = dict,
    progress: Progress = silent,
    share: Callable[[], float | None] = lambda: None,
    shard_tokens: int = SHARD_TOKENS,
) -> Rows:
    """Write columns of rows as shards, holding one shard in memory, and open them. `about` goes in the
    manifest."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        shards: list[dict[str, Any]] = []
        total = {"rows": 0, "tokens": 0}
        for columns in together(parts, shard_tokens):
            shards.append(save_shard(columns, beside, len(shards)))
            total = {key: total[key] + shards[-1][key] for key in total}
            progress(total["rows"], total["tokens"], share())
        manifest = {"format": FORMAT, "fingerprint": fingerprint, **total, "shards": shards, "about": about()}
        (beside / MANIFEST).write_text(json.dumps(manifest, indent=1, ensure_ascii=False), encoding="utf-8")
        replace(beside, folder)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    return open_shards(folder)


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
    held: list[Row] = []
    size = 0
    for row in rows:
        held.append(row)
        size += len(row.ids) + len(row.target or ())
        if size >= tokens:
            yield held
            held, size = [], 0
    if held:
        yield held


def together(parts: Iterable[Columns], tokens: int) -> Iterator[Columns]:
    """Parts in shards of about `tokens` tokens."""
    held: list[Columns] = []
    for part in parts:
        held.append(part)
        if sum(len(one["ids"]) + len(one.get("target", ())) for one in held) >= tokens:
            yield joined(held)
            held = []
    if held:
        yield joined(held)


def save_shard(columns: Columns, folder: Path, number: int) -> dict[str, Any]:
    files = {}
    for name, values in columns.items():
        file = folder / f"{number:05d}.{name}.npy"
        np.save(file, values)
        files[name] = {"file": file.name, "bytes": file.stat().st_size}
    return {"rows": len(columns["example"]), "tokens": len(columns["ids"]), "columns": files}


def manifest_of(folder: Path) -> dict[str, Any]:
    """The manifest of a folder of shards; empty where there is none."""
    try:
        return dict(json.loads((folder / MANIFEST).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def usable(folder: Path, fingerprint: str) -> bool:
    """Whether these shards hold just the rows that would be written now, all of them."""
    manifest = manifest_of(folder)
    if manifest.get("format") != FORMAT or manifest.get("fingerprint") != fingerprint:
        return False
    try:
        return all(whole(folder, shard) for shard in manifest["shards"])
    except (KeyError, TypeError, AttributeError):
        return False


def whole(folder: Path, shard: dict[str, Any]) -> bool:
    for column in shard["columns"].values():
        file = folder / column["file"]
        if not file.is_file() or file.stat().st_size != column["bytes"]:
            return False
    return True


def open_shards(folder: Path) -> Rows:
    """Map the shards of a folder; nothing is read until it is used."""
    manifest = manifest_of(folder)
    if manifest.get("format") != FORMAT:
        raise DataError(f"{folder} holds no shards of this version; remove it, and they are written again.")
    parts = []
    for shard in manifest["shards"]:
        files = {name: folder / column["file"] for name, column in shard["columns"].items()}
        parts.append({name: np.load(file, mmap_mode="r") for name, file in files.items()})
    return Rows(parts, fingerprint=manifest["fingerprint"])
