"""Where a study's runs are executed: one engine a file. They are given jobs, and give back results."""

from __future__ import annotations

from attnlab.config.registry import Registry
from attnlab.config.values import Choice, ConfigError
from attnlab.studies.engines.engine import Engine

ENGINES: Registry[Engine] = Registry(
    "engines",
    base="attnlab.studies.engines.engine:Engine",
    default="local",
    variants={
        "local": "attnlab.studies.engines.local:Local",
        "ray": "attnlab.studies.engines.ray:Ray",
        "slurm": "attnlab.studies.engines.slurm:Slurm",
    },
)


def engine_choice(on: str, address: str = "") -> Choice:
    """The engine of a name, at an address where it takes one; checked before any work."""
    if on not in ENGINES:
        raise ConfigError(f'--on takes {" or ".join(ENGINES)}, not "{on}".')
    if address and "address" not in ENGINES.options(on):
        raise ConfigError(f"--address {address} is of a Ray cluster; use it with --on ray, or leave it out.")
    return ENGINES.resolve(Choice(on, {"address": address} if address else {}))
