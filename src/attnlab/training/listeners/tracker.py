"""What every tracking service gets: numbers by name at a step."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
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
