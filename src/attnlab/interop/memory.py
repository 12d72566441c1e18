"""Whether something fits, before it is asked for."""

from __future__ import annotations

import os

from attnlab.config.values import ConfigError


def refuse_beyond_memory(elements: int, what: str) -> None:
    """Stop before more float32 numbers are allocated than this machine can hold."""
    needed, held = 4 * elements, machine_bytes()
    if held and needed > held:
        raise ConfigError(
            f"{what} needs {needed / 2**30:,.1f} GiB as float32, and this machine has "
            f"{held / 2**30:,.1f} GiB."
        )


def machine_bytes() -> int:
    """This machine's memory; 0 where the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 0
