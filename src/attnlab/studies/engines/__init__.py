"""Where a study's runs are executed: one engine a file. They are given jobs, and give back results."""

from __future__ import annotations

from attnlab.config.registry import Registry
from attnlab.studies.engines.engine import Engine

ENGINES: Registry[Engine] = Registry(
    "engines",
    base="attnlab.studies.engines.engine:Engine",
    default="local",
    variants={"local": "attnlab.studies.engines.local:Local"},
)
