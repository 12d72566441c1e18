"""The exact config of the base, and what differs between the arms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attnlab.documents.numbers import anything
from attnlab.studies.report.study_results import StudyResults


def configs(study: StudyResults) -> dict[str, Any] | None:
    found = study.part("configs")
    if not found:
        return None
    base = found.get("base") or {}
    changed = {arm.name: arm.data.get("changes") or {} for arm in study.arms}
    keys = sorted({key for changes in changed.values() for key in changes})
    return {
        "arms": study.arms,
        "differences": [(key, [_value(changed[arm.name], base, key) for arm in study.arms]) for key in keys],
        "configs": [(name, [(k, anything(v)) for k, v in flat(config)]) for name, config in found.items()],
    }


def flat(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Fields by their dotted names, as --set takes them."""
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _value(changes: Mapping[str, Any], base: Mapping[str, Any], key: str) -> tuple[str, bool]:
    """The arm's value, and whether it is the arm's own."""
    own = key in changes
    return anything(changes[key] if own else _at(base, key)), own


def _at(config: Any, key: str) -> Any:
    """The value at a dotted name."""
    for name in key.split("."):
        config = config.get(name) if isinstance(config, Mapping) else None
    return config
