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


def upgrade(settings: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """A config as a run recorded it, as it would be recorded today."""
    return {
        RENAMED.get(path + name, name): upgrade(value, f"{path}{name}.")
        if isinstance(value, Mapping)
        else value
        for name, value in settings.items()
    }
