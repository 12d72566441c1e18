"""What a run's corpus names on the disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

PATHS = ("path", "dev", "test", "target_path", "target_dev", "target_test", "pictures")


def paths_in(settings: Any) -> Iterator[str]:
    """Whatever a corpus names that may be a path."""
    if isinstance(settings, Mapping):
        for name, value in settings.items():
            if isinstance(value, str) and (name in PATHS or "/" in value):
                yield value
            else:
                yield from paths_in(value)
