"""JSON with a checksum of what it holds, for what is kept to be read again: damage shows, whatever it is."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

from attnlab.runs.atomic import replace_bytes


def seal(file: Path, held: Any) -> None:
    """Write what JSON can hold, whole or not at all; several processes may write the same."""
    replace_bytes(file, json.dumps({"crc": checksum(held), "held": held}).encode())


def unseal(file: Path) -> Any:
    """What was sealed; a fault of `runs/damage.py` where it is not just that."""
    sealed = json.loads(file.read_text(encoding="utf-8"))
    content = sealed["held"]
    if sealed["crc"] != checksum(content):
        raise ValueError("its checksum is not that of what it holds")
    return content


def checksum(held: Any) -> int:
    return zlib.crc32(json.dumps(held, sort_keys=True).encode())
