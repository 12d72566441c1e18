"""What runs wrote for the same sources, compared text by text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from attnlab.config.values import ConfigError
from attnlab.data.errors import DataError
from attnlab.evaluation.written_texts import REFERENCE, SOURCE, read_texts, text_scores
from attnlab.metrics.metric import Examples
from attnlab.runs.faults import RunError
from attnlab.runs.summary import RunSummary
from attnlab.session.scoring import differences_from_first
from attnlab.session.trained import Trained
from attnlab.studies.outcome import Note, NoteKind
from attnlab.studies.side_by_side import SideBySide


def with_written_texts(
    comparison: SideBySide, folders: Sequence[Path], *, tell: Callable[[str], None] = lambda message: None
) -> SideBySide:
    """The comparison with the scores of all dev texts that each run writes, in the place of those of the part
    that was written in training, and their differences from the first run, paired by text.

    Runs that wrote other texts, or cannot write any more, are left as they were, with a note.
    """
    columns = dict[str, Examples]()
    for summary, folder in zip(comparison.runs, folders, strict=True):
        tell(f"Dev texts of {folder}")
        name = summary.result.folder
        try:
            columns[name] = texts_written(folder)
        except (ConfigError, DataError, RunError, OSError) as error:
            return unpaired(comparison, name, str(error))
    first, *others = columns.items()
    for name, examples in others:
        if not same_texts(examples, first[1]):
            return unpaired(comparison, name, f"its dev texts are not those of {first[0]}")
    runs = [rescored(run, text_scores(columns[run.result.folder])) for run in comparison.runs]
    return replace(comparison, runs=runs, texts=len(first[1]), differences=differences_from_first(columns))


def texts_written(folder: Path) -> Examples:
    """As a study kept them, or written now by the checkpoint that is opened."""
    stored = Examples(read_texts(folder))
    return stored if len(stored) else Trained.at(folder).writer("dev")()


def same_texts(one: Examples, other: Examples) -> bool:
    """Whether two runs were asked the same, line by line."""
    return all(one[name].tolist() == other[name].tolist() for name in (REFERENCE, SOURCE))


def rescored(run: RunSummary, scores: dict[str, float]) -> RunSummary:
    return replace(run, result=replace(run.result, metrics={**run.result.metrics, **scores}))


def unpaired(comparison: SideBySide, folder: str, why: str) -> SideBySide:
    note = Note(NoteKind.TEXTS_NOT_PAIRED, {"folder": folder, "why": why.rstrip(".")})
    return replace(comparison, notes=[*comparison.notes, note])
