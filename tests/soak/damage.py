"""Sound files with one of them damaged."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

from tests.soak.hostile import changed, spoiled


def damage_one(pick: Random, folder: Path) -> Path:
    """Another content of one file of a folder: other values where it is JSON, or other bytes."""
    file = pick.choice(sorted(f for f in folder.rglob("*") if f.is_file() and f.name != "lock"))
    content = file.read_bytes()
    what = pick.random()
    if file.suffix == ".json" and what < 0.6:
        held = changed(pick, json.loads(content), pick.choice((1, 1, 2)))
        file.write_text(json.dumps(held), encoding="utf-8")
    elif file.suffix == ".jsonl" and what < 0.6:
        file.write_text(other_line(pick, content.decode()), encoding="utf-8")
    elif what < 0.65:
        file.unlink()
    else:
        file.write_bytes(spoiled(pick, content))
    return file


def damaged_data(pick: Random, sound: Path, work: Path) -> Path:
    """A file of text or rows that was damaged, or holds other values."""
    source = pick.choice(sorted((sound / "data").iterdir()))
    file, what = work / source.name, pick.random()
    if source.suffix == ".json" and what < 0.6:
        held = json.loads(source.read_text(encoding="utf-8"))
        file.write_text(json.dumps(changed(pick, held, pick.choice((1, 3)))), encoding="utf-8")
    elif source.suffix == ".jsonl" and what < 0.6:
        file.write_text(other_line(pick, source.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        file.write_bytes(spoiled(pick, source.read_bytes()))
    return file


def other_line(pick: Random, text: str) -> str:
    """JSON lines, one of them with other values."""
    lines = text.splitlines() or ["{}"]
    at = pick.randrange(len(lines))
    lines[at] = json.dumps(changed(pick, json.loads(lines[at])))
    return "\n".join(lines) + "\n"
