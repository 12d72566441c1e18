from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attnlab.training.listeners.tracker import Tracker, imported


class WeightsAndBiases(Tracker):
    """Weights & Biases: curves and configs on its server, or offline in the run's folder.

    Needs the package `wandb` and its own login. A resumed run goes on in the same record.
    """

    package = "wandb"

    def __init__(self, folder: Path, config: Mapping[str, Any]):
        super().__init__(folder, config)
        self.run = imported("wandb", "wandb").init(
            dir=str(folder), name=folder.name, id=folder.name, config=dict(config), resume="allow"
        )

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        self.run.log(dict(numbers), step=step)

    def finish(self) -> None:
        self.run.finish()
