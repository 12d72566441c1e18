"""What every tracking service gets, numbers by name at a step, and how three of them take it."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from attnlab.config.values import ConfigError
from attnlab.runs.events import Ended, Evaluated, Event, Stepped


class Tracker(ABC):
    """A listener that passes a run's numbers on to a service."""

    package: ClassVar[str] = ""
    """What must be installed for it."""

    @classmethod
    def refuse_missing(cls) -> None:
        """Stop before any work where its package is not installed."""
        if cls.package and not is_there(cls.package):
            raise ConfigError(missing(cls.package))

    def __init__(self, folder: Path, config: Mapping[str, Any]):
        self.folder, self.config = folder, config

    @abstractmethod
    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        """Hand numbers to the service."""

    def finish(self) -> None:  # noqa: B027 - a service that needs no end has nothing to do here
        """The run is over."""

    def __call__(self, event: Event) -> None:
        if isinstance(event, Stepped):
            numbers = {"loss": event.loss, "learning_rate": event.learning_rate, "gradient": event.gradient}
            numbers |= {"tokens_per_second": event.tokens / event.seconds if event.seconds else 0.0}
            self.log(event.step, {f"train/{name}": n for name, n in (numbers | dict(event.parts)).items()})
        elif isinstance(event, Evaluated):
            scores = {"loss": event.loss} | dict(event.scores)
            self.log(event.step, {f"dev/{name}": number for name, number in scores.items()})
        elif isinstance(event, Ended):
            self.finish()


def imported(module: str, package: str) -> Any:
    """A service's package, which only those install who use it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(missing(package)) from error


def is_there(package: str) -> bool:
    """Whether a package can be imported; it is not."""
    if package in sys.modules:
        return sys.modules[package] is not None
    return importlib.util.find_spec(package) is not None


def missing(package: str) -> str:
    return f"training.listeners asks for {package}, which is not installed: pip install {package}."


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
