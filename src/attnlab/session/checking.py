"""Checks made on demand: of a config before it is trained, of a run or checkpoint as it stands."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attnlab.checks.check import run_checks
from attnlab.config.schema import Config
from attnlab.data.corpora.readers import reader_of
from attnlab.data.corpora.records import Broken
from attnlab.data.errors import DataError
from attnlab.data.labels import Labels
from attnlab.interop.foreign import CONFIG
from attnlab.interop.published_checks import of_imported, of_published
from attnlab.metrics.metric import Examples
from attnlab.runs.findings import Finding, When, joined, read_findings
from attnlab.runs.record import RECORD
from attnlab.session.session import Session, default_cache
from attnlab.session.soundness import ScoredExamples, case_of
from attnlab.session.trained import Trained
from attnlab.session.training import samples_of
from attnlab.targets import TARGETS
from attnlab.targets.predictions import judge

Told = Callable[[str], None]


def of_config(config: Config, *, tell: Told = lambda message: None) -> list[Finding]:
    """What the checks before a training find."""
    tell("Reading the corpus")
    session = Session(config, cache=default_cache())
    moments: tuple[When, ...] = ("config", "before")
    return [finding for when in moments for finding in _made(session, when, tell)]


def of_folder(path: Path, *, tell: Told = lambda message: None) -> list[Finding]:
    """Of a run or a checkpoint of ours, or of a folder in transformers' layout."""
    if (path / CONFIG).is_file() and not (path / RECORD).is_file():
        return of_published(path, tell=tell)
    return of_run(path, tell=tell)


def of_run(path: Path, *, tell: Told = lambda message: None) -> list[Finding]:
    """What was found before and during a run, and what the checks find in its trained weights now."""
    trained = Trained.at(path, which="last")
    if trained.imported:
        tell("Checking attnlab's implementation")
        origin = trained.record.get("source", {}).get("name", "FOLDER")
        architecture = trained.record.get("certificate", {}).get("architecture", "")
        return of_imported(trained.model, architecture, str(origin))
    tell("Reading the corpus")
    recorded = read_findings(trained.folder)
    earlier = [one for one in recorded if one.when in ("config", "before", "during")]
    facts: dict[str, Any] = {"folder": trained.folder, "step": trained.step}
    if "dev" in trained.dataset.splits.names:
        tell("Scoring the dev split")
        evaluation = trained.evaluator("dev", batches=trained.config.training.evaluate_batches)()
        facts["scores"] = {"loss": evaluation.loss, **evaluation.scores}
        facts["samples"] = _samples(trained)
        facts["scored"] = ScoredExamples.of(trained, evaluation)
    moments: tuple[When, ...] = ("evaluation", "after")
    failed = [one for one in recorded if one.when in moments and one.outcome == "fail"]
    return joined(
        [*earlier, *failed], [one for when in moments for one in _made(trained, when, tell, **facts)]
    )


def of_predictions(file: Path, *, label: str = "label", prediction: str = "prediction") -> list[Finding]:
    """What a table of labels and predictions comes to, whatever made them. They are numbers where all are,
    and some are no whole ones; else classes."""
    columns = {"label": label, "prediction": prediction}
    records = []
    for record in reader_of(file)(file, "utf-8", "line"):
        if isinstance(record, Broken):
            raise DataError(f"{record.place}: {record.reason}")
        missing = [name for name in columns.values() if name not in record.values]
        if missing:
            raise DataError(
                f"{record.place} has no column {' and no column '.join(missing)}, only "
                f"{', '.join(map(str, record.values))}; name those that hold labels and predictions with "
                "--label COLUMN and --prediction COLUMN."
            )
        empty = [name for name in columns.values() if not said(record.values[name])]
        if empty:
            raise DataError(
                f"{record.place} has no {' and no '.join(empty)}; fill it in, or leave the row out."
            )
        records.append(record.values)
    if not records:
        raise DataError(f"{file} has no rows; give a label and a prediction in each.")
    texts = [str(r["text"]) for r in records if str(r.get("text") or "").strip()]
    if texts and len(texts) < len(records):
        raise DataError(
            f"{file} has a text in {len(texts)} of {len(records)} rows; give it in each, or in none."
        )
    labels, predicted = ([said(r[column]) for r in records] for column in columns.values())
    numbers = measurements(labels), measurements(predicted)
    if all(found is not None for found in numbers) and any(part(x) for found in numbers for x in found or ()):
        examples = Examples({"number": np.array(numbers[0]), "predicted_number": np.array(numbers[1])})
        return [TARGETS["number"].majority(examples, Labels())]
    return judge(labels, predicted, texts)


def measurements(values: Sequence[str]) -> list[float] | None:
    """Values as numbers; None where one of them is none."""
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        return None
    return numbers if all(map(math.isfinite, numbers)) else None


def part(number: float) -> bool:
    """Whether it is no whole number."""
    return number != round(number)


def said(value: Any) -> str:
    """A label or a prediction as one name, whatever its type and order; nothing where there is none."""
    if isinstance(value, (list, tuple)):
        return " + ".join(sorted(map(said, value))) or "none"
    shown = str(value).lower() if isinstance(value, bool) else str(value)
    return "" if value is None else shown.strip() and shown


def _made(session: Session, when: When, tell: Told, **facts: Any) -> list[Finding]:
    tell(f"Checking ({when})")
    return run_checks(case_of(session, when, **facts))


def _samples(session: Session) -> list[Any]:
    with tempfile.TemporaryDirectory() as folder:
        files = samples_of(session, Path(folder) / "samples.txt")
        for file in files:
            file.text(0)
    return [sample for file in files for sample in file.last]
