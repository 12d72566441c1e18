"""Settings that an older version recorded, in the names of this one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

RENAMED = {
    "objective": "task",
    "data.batching.rows": "batch_size",
    "training.optimizer.rate": "learning_rate",
    "training.optimizer.adamw_rate": "adamw_learning_rate",
    "training.optimizer.decay": "weight_decay",
    "training.recompute": "gradient_checkpointing",
}
"""What a setting of a config is called now, by the path under which it was recorded."""


def upgrade(record: Mapping[str, Any]) -> dict[str, Any]:
    """What a run recorded of itself, as it would be recorded today. Its identity stays as it was."""
    config = record["config"]
    if "recompute" in config.get("training", {}):  # while model.vocabulary was written, and not used
        used = record.get("vocabulary", "tokenizer")
        config = config | {"model": config.get("model", {}) | {"vocabulary": used}}
    encoding = config.get("data", {}).get("encoding")
    if isinstance(encoding, Mapping) and encoding.get("kind") == "words":  # while long texts were cut
        kept = {name: value for name, value in encoding.items() if name != "cut"}
        config = config | {"data": config["data"] | {"encoding": kept}}
    return {**record, "config": renamed(config)}


def renamed_keys(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted keys with today's names, and what is within their values: {"training.optimizer.rate": 1e-3}."""
    renamed_changes = {}
    for key, value in changes.items():
        above, _, _ = key.rpartition(".")
        name = f"{above}.{RENAMED[key]}".lstrip(".") if key in RENAMED else key
        renamed_changes[name] = renamed(value, f"{key}.") if isinstance(value, Mapping) else value
    return renamed_changes


def renamed(settings: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Settings with today's names, those within them too."""
    return {
        RENAMED.get(path + name, name): renamed(value, f"{path}{name}.")
        if isinstance(value, Mapping)
        else value
        for name, value in settings.items()
    }
