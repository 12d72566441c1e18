from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attnlab.training.listeners.tracker import Tracker, imported


class MLflow(Tracker):
    """MLflow: curves and settings on the tracking server that MLflow is set to.

    Needs the package `mlflow`.
    """

    package = "mlflow"

    def __init__(self, folder: Path, config: Mapping[str, Any]):
        super().__init__(folder, config)
        self.mlflow = imported("mlflow", "mlflow")
        self.mlflow.start_run(run_name=folder.name)
        self.mlflow.log_params(dict(flat(config)))

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        self.mlflow.log_metrics(dict(numbers), step=step)

    def finish(self) -> None:
        self.mlflow.end_run()


def flat(config: Mapping[str, Any], place: str = "") -> Iterator[tuple[str, str]]:
    """Settings by their dotted names."""
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{place}{name}.")
        else:
            yield f"{place}{name}", str(value)
