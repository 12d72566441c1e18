"""Checks: does this run mean what it claims? One file a check; each says what it found and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attnlab.config.registry import Registry

if TYPE_CHECKING:
    from attnlab.checks.check import Check

CHECKS: Registry[Check] = Registry(
    "checks",
    base="attnlab.checks.check:Check",
    default="dependency",
    variants={
        "dependency": "attnlab.checks.dependency:Dependency",
        "invariance": "attnlab.checks.invariance:Invariance",
    },
)


def __getattr__(name: str) -> Any:
    """`attnlab.checks.probe`, imported when it is first asked for: listing checks loads no torch."""
    if name == "probe":
        from attnlab.checks.probing import probe

        return probe
    raise AttributeError(f"attnlab.checks has no {name!r}")
