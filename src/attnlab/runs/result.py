"""result.json: what a finished run of a study came to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULT = "result.json"


def read_result(folder: Path) -> dict[str, Any]:
    """A run's result.json; empty where it has none."""
    try:
        return dict(json.loads((folder / RESULT).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {}
