"""What a study measures beside the common numbers: a hook in the run, after it, and over all of them.

A study names its class as `extras = "package.module:Class"`; it is imported in every worker too. From a
study's file it is imported only where the person has named its module (config/imports.py).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from attnlab.config.imports import of_package, refuse_unseen
from attnlab.config.registry import locate
from attnlab.config.values import ConfigError
from attnlab.metrics.measures import Measure

if TYPE_CHECKING:
    from attnlab.runs.events import Listener
    from attnlab.session.session import Session
    from attnlab.session.trained import Trained


class Extras:
    """Nothing beside the common numbers; a study overrides what it needs."""

    metrics: ClassVar[Mapping[str, Measure]] = {}
    """The numbers that `measure` adds to a run, defined."""

    def watch(self, session: Session, folder: Path) -> Iterable[Listener]:
        """Listeners of a run's events, with its model at hand; `Notes` keeps what they find."""
        return ()

    def measure(self, trained: Trained) -> dict[str, Any]:
        """Of one trained model: {"metrics": {name: number}, "extra_curves": {name: {"step": …, "value": …}}}.

        Every other key is kept beside them in the run's results, for `summarise`.
        """
        return {}

    def summarise(self, results: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        """Over all runs: {"figures": […], "tables": […], "notes": […]} for the report."""
        return {}


class Notes:
    """Numbers by step that a listener keeps in the run's folder, whole again after a kill."""

    def __init__(self, folder: Path):
        self.file = folder / "notes.jsonl"

    def add(self, step: int, **numbers: float) -> None:
        with self.file.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps({"step": step} | numbers) + "\n")

    def curves(self) -> dict[str, dict[str, list[float]]]:
        """Each number by step. A step that came twice, before a kill and after, counts once."""
        at: dict[int, dict[str, float]] = {}
        if self.file.exists():
            for line in self.file.read_text(encoding="utf-8").splitlines():
                with contextlib.suppress(ValueError):  # a line that a kill cut off comes again
                    held = json.loads(line)
                    at[held.pop("step")] = held
        found: dict[str, dict[str, list[float]]] = {}
        for step in sorted(at):
            for name, value in at[step].items():
                curve = found.setdefault(name, {"step": [], "value": []})
                curve["step"].append(step)
                curve["value"].append(value)
        return found


def refuse_unseen_extras(path: Any, asker: str, *, beside: Path) -> None:
    """Stop where a study's file names a class whose code the person has not imported."""
    module = path.partition(":")[0] if isinstance(path, str) else ""
    if module and not of_package(module):
        refuse_unseen([module], asker, beside=beside, key="extras")


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
