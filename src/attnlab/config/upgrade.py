"""Settings that an older version recorded, in the names of this one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

RENAMED = {"objective": "task"}
"""Fields of a config by the names that they had."""


def upgrade(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A config as a run recorded it, as it would be recorded today."""
    return {RENAMED.get(name, name): value for name, value in settings.items()}
