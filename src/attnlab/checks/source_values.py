"""What is right of each row, by its file and by the columns that scores are made of."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from attnlab.checks.source import SourceRow
from attnlab.tasks.task import Task

Right = frozenset[str] | tuple[str, ...] | str | float | bool | None
"""A class, a set of them, a number, tags, or whether there is an answer; None where it is not known."""
NEAR = 1e-4
"""Numbers are held in float32 on their way through the model, relative."""


def right_of(columns: Mapping[str, NDArray[Any]], task: Task) -> list[Right]:
    """What was right of each example, as its columns have it; nothing where they do not say."""
    names = task.labels.names
    if "label" in columns:
        return [names[n] if 0 <= n < len(names) else None for n in columns["label"].tolist()]
    if "labels" in columns:
        return [frozenset(names[c] for c, has in enumerate(row) if has) for row in columns["labels"].tolist()]
    if "number" in columns:
        return [float(number) for number in columns["number"].tolist()]
    if "word_truth" in columns:
        return [tuple(names[tag] for tag in row if tag >= 0) for row in columns["word_truth"].tolist()]
    if "answerable" in columns:
        return [bool(has) for has in columns["answerable"].tolist()]
    return []


def written_of(row: SourceRow, like: Right, task: Task) -> Right:
    """What a row of a file says is right, in the form of what the columns say; None where it is in a form of
    its own, such as spans in characters."""
    value = row.values.get("label")
    if isinstance(like, bool):
        return has_answer(row.values.get("answers"))
    if isinstance(like, tuple):
        tags = row.values.get("tags")
        plain = isinstance(tags, (list, tuple)) and all(isinstance(tag, (str, int)) for tag in tags)
        return tuple(str(tag) for tag in tags) if plain and tags else None
    if isinstance(like, frozenset):
        parts = (
            value if isinstance(value, (list, tuple)) else str(value).split(getattr(task, "separator", ","))
        )
        return frozenset(name_of(part) for part in parts)
    if isinstance(like, float):
        return None if value is None else plain_number(value)
    return None if value is None else name_of(value)


def plain_number(value: Any) -> float:
    """A number as a cell has it, with a point or a comma before its decimals."""
    whole, comma, decimals = str(value).strip().partition(",")
    return float(f"{whole.replace('.', '')}.{decimals}") if comma else float(whole)


def name_of(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value).strip()


def has_answer(value: Any) -> bool:
    """Whether a cell or a list of answers holds one."""
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.strip()[:1] in ("[", "{") else value.strip()
        except ValueError:
            return True
    return bool(value.get("text")) if isinstance(value, Mapping) else bool(value)


def differing(right: Sequence[Right], rows: Sequence[SourceRow], task: Task) -> list[tuple[str, str, str]]:
    """The rows whose file says something else than the columns: where, and what both say."""
    wrong = []
    for held, row in zip(right, rows, strict=False):
        written = written_of(row, held, task)
        if written is not None and not same(held, written):
            wrong.append((row.place, shown(held), shown(written)))
    return wrong


def same(held: Right, written: Right) -> bool:
    if isinstance(held, float) and isinstance(written, float):
        return abs(held - written) <= NEAR * max(1.0, abs(written))
    if isinstance(held, tuple) and isinstance(written, tuple):
        return held == written[: len(held)]  # words beyond the last window have no tag
    return held == written


def shown(right: Right) -> str:
    """It in a message."""
    if isinstance(right, bool):
        return "an answer" if right else "no answer"
    if isinstance(right, (tuple, frozenset)):
        return ", ".join(sorted(right) if isinstance(right, frozenset) else right)[:80] or "none"
    return f"{right:g}" if isinstance(right, float) else str(right)[:80]
