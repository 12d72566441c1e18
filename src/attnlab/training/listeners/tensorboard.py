from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attnlab.training.listeners.tracker import Tracker, imported


class TensorBoard(Tracker):
    """TensorBoard: curves in the browser, from files in the run's own folder.

    Needs the package `tensorboard`; `tensorboard --logdir runs` shows all runs.
    """

    package = "tensorboard"

    def __init__(self, folder: Path, config: Mapping[str, Any]):
        super().__init__(folder, config)
        imported("tensorboard", "tensorboard")
        writer = imported("torch.utils.tensorboard", "tensorboard").SummaryWriter
        self.writer = writer(log_dir=str(folder / "tensorboard"))

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        for name, number in numbers.items():
            self.writer.add_scalar(name, number, step)

    def finish(self) -> None:
        self.writer.close()
