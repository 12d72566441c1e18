"""What a study measures beside the common numbers: a hook in the run, after it, and over all of them.

A study names its class as `extras = "package.module:Class"`; it is imported in every worker too. From a
study's file it is imported only where the person has named its module (config/imports.py).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from attnlab.config.imports import of_package, refuse_unseen
from attnlab.config.registry import locate
from attnlab.config.values import ConfigError
from attnlab.metrics.measures import Measure
from attnlab.runs.result import Curve
from attnlab.studies.outcome import FigureRecord, Note, StudyOutcome, TableRecord

if TYPE_CHECKING:
    from attnlab.runs.events import Listener
    from attnlab.session.session import Session
    from attnlab.session.trained import Trained


@dataclass(frozen=True)
class OwnMeasures:
    """What a study's own hook measured of one run: numbers by name, curves by name and step, and whatever
    `summarise` needs of it."""

    metrics: Mapping[str, float] = field(default_factory=dict)
    extra_curves: Mapping[str, Curve] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Summary:
    """What a study shows beside the common numbers: figures and tables (see `shown.py`), and notes, as
    facts or in its own words; `extra` is kept in results.json under its own names."""

    figures: Sequence[FigureRecord] = ()
    tables: Sequence[TableRecord] = ()
    notes: Sequence[Note | str] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)


Own = TypeVar("Own", OwnMeasures, Summary)


class Extras:
    """Nothing beside the common numbers; a study overrides what it needs."""

    metrics: ClassVar[Mapping[str, Measure]] = {}
    """The numbers that `measure` adds to a run, defined."""

    def watch(self, session: Session, folder: Path) -> Iterable[Listener]:
        """Listeners of a run's events, with its model at hand; `Notes` keeps what they find."""
        return ()

    def measure(self, trained: Trained) -> OwnMeasures | Mapping[str, Any]:
        """Of one trained model: its own numbers and curves, and what `summarise` needs of it."""
        return OwnMeasures()

    def summarise(self, outcome: StudyOutcome, folder: Path) -> Summary | Mapping[str, Any]:
        """Over all runs: what the report is to show beside the common numbers."""
        return Summary()


def own_measures(extras: Extras, trained: Trained) -> OwnMeasures:
    """What a study's hook measures of a run; a plain dict of the same names will do."""
    given = extras.measure(trained)
    return given if isinstance(given, OwnMeasures) else _record_of(given, OwnMeasures)


def with_summary(extras: Extras, outcome: StudyOutcome, folder: Path) -> StudyOutcome:
    """An outcome with what its study shows beside it; a plain dict of the same names will do."""
    summary = extras.summarise(outcome, folder)
    own = summary if isinstance(summary, Summary) else _record_of(summary, Summary)
    notes = (*outcome.notes, *(note if isinstance(note, Note) else Note.of_text(note) for note in own.notes))
    return replace(outcome, figures=own.figures, tables=own.tables, notes=notes, extra=own.extra)


def _record_of(given: Mapping[str, Any], record: type[Own]) -> Own:
    """The record of a person's dict, with all other keys as its `extra`."""
    own = {field.name for field in fields(record)} - {"extra"}
    known = {name: value for name, value in given.items() if name in own}
    return record(**known, extra={name: value for name, value in given.items() if name not in own})


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
                    numbers = json.loads(line)
                    at[numbers.pop("step")] = numbers
        by_name: dict[str, dict[str, list[float]]] = {}
        for step in sorted(at):
            for name, value in at[step].items():
                curve = by_name.setdefault(name, {"step": [], "value": []})
                curve["step"].append(step)
                curve["value"].append(value)
        return by_name


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
