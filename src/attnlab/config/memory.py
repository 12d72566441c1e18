"""Whether something fits, before it is asked for."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from attnlab.config.values import ConfigError


def refuse_beyond_memory(elements: int, what: str, fix: str = "") -> None:
    """Stop before more float32 numbers are allocated than this machine can hold."""
    needed, available = 4 * elements, machine_bytes()
    if available and needed > available:
        raise ConfigError(
            f"{what} needs {needed / 2**30:,.1f} GiB as float32, and this machine has "
            f"{available / 2**30:,.1f} GiB{'; ' * bool(fix)}{fix}."
        )


CONTAINER = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Where the system says what a container may use."""


def machine_bytes() -> int:
    """The memory of this machine, or of the container that this is; 0 where the system does not tell."""
    try:
        limit = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 0
    for file in CONTAINER:
        with suppress(OSError, ValueError):  # not there, or "max"
            limit = min(limit, int(file.read_text(encoding="ascii")))
    return limit
