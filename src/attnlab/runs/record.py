"""run.json: what a run was begun with, and what became of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attnlab.config.upgrade import upgrade
from attnlab.config.values import ConfigError
from attnlab.runs.damage import as_object, reading

RECORD = "run.json"


def read_record(path: Path) -> dict[str, Any]:
    """A run's run.json, its config in today's names."""
    file = path / RECORD
    try:
        with reading(file):
            return upgrade(as_object(json.loads(file.read_text(encoding="utf-8")), "config"))
    except FileNotFoundError:
        raise ConfigError(f"{path} holds no run: there is no {RECORD} in it.") from None


def refuse_changes(before: Mapping[str, Any], now: Mapping[str, Any], path: Path) -> None:
    changes = list(differences(before, now))
    if changes:
        raise ConfigError(
            f"The config is not the one that {path} was begun with: {'; '.join(changes)}. Resume with the "
            "config unchanged, or start a new run with another --out."
        )


def differences(before: Any, now: Any, where: str = "") -> Iterator[str]:
    """What changed between two configs, one line a value."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in dict.fromkeys([*before, *now]):
            inner = f"{where}.{key}" if where else str(key)
            yield from differences(before.get(key, "absent"), now.get(key, "absent"), inner)
    elif before != now and not (isinstance(before, (list, tuple)) and list(before) == list(now)):
        yield f"{where} was {before}, now {now}"


def other_versions(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Why a resumed run may differ in its last bits."""
    changed = [name for name in ("torch", "machine", "threads") if before.get(name) != now[name]]
    if changed:
        what = "; ".join(f"{name} was {before.get(name)}, now {now[name]}" for name in changed)
        yield f"The run was begun in another environment ({what}): it continues, but not bit for bit."


def fingerprints_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """What a run was trained and judged on, by its record."""
    own = {name: record.get(name) for name in ("text", "data", "tokenizer", "order")}
    return own | {"task": record["config"]["task"]}
