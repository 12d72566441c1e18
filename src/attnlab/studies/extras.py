"""What a study measures beside the common numbers: a hook in the run, after it, and over all of them.

A study names its class as `extras = "package.module:Class"`; it is imported in every worker too, so
that its module is also the place to register parts of one's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from attnlab.config.registry import locate
from attnlab.config.values import ConfigError
from attnlab.studies.metrics import Metric

if TYPE_CHECKING:
    from attnlab.experiment.setup import Setup
    from attnlab.experiment.trained import Trained
    from attnlab.training.events import Listener


class Extras:
    """Nothing beside the common numbers; a study overrides what it needs."""

    metrics: ClassVar[Mapping[str, Metric]] = {}
    """The numbers that `measure` adds to a run, defined."""

    def watch(self, setup: Setup, folder: Path) -> Iterable[Listener]:
        """Listeners of a run's events, with its model at hand; `Notes` keeps what they find."""
        return ()

    def measure(self, trained: Trained) -> dict[str, Any]:
        """Of one trained model: {"metrics": {name: number}, "extra_curves": {name: {"step": …, "y": …}}}."""
        return {}

    def summarise(self, results: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        """Over all runs: {"figures": […], "tables": […], "notes": […]} for the report."""
        return {}


def extras_of(path: str) -> Extras:
    """The extras that a study names; none by default."""
    if not path:
        return Extras()
    try:
        made = locate(path)()
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f'extras = "{path}" cannot be loaded: {error}. Write "package.module:Class".'
        ) from error
    if not isinstance(made, Extras):
        raise ConfigError(f'extras = "{path}" is not a subclass of attnlab.studies.extras.Extras.')
    return made
