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
from attnlab.data.labels import Labels, number_in
from attnlab.interop.foreign import CONFIG
from attnlab.interop.published_checks import of_imported, of_published
from attnlab.metrics.metric import Examples
from attnlab.runs.findings import Finding, When, merge_findings, read_findings
from attnlab.runs.record import RECORD
from attnlab.session.evaluation_checks import references_seen
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
    earlier = [finding for finding in recorded if finding.when in ("config", "before", "during")]
    facts: dict[str, Any] = {"folder": trained.folder, "step": trained.step}
    facts["decides"] = bool(trained.decision)
    best = trained.record.get("best") or {}
    facts["best"] = (best["step"], best["value"]) if best.get("value") is not None else None
    if "dev" in trained.dataset.splits.names:
        tell("Scoring the dev split")
        settings = trained.config.training
        evaluator = trained.evaluator("dev", batches=settings.evaluate_batches)
        evaluation = evaluator(written=settings.generate_examples if evaluator.writer is not None else 0)
        facts["scores"] = {"loss": evaluation.loss, **evaluation.scores}
        facts["samples"] = _samples(trained)
        facts["scored"] = ScoredExamples.of(trained, evaluation)
    moments: tuple[When, ...] = ("evaluation", "after")
    failed = [finding for finding in recorded if finding.when in moments and finding.outcome == "fail"]
    made = [finding for when in moments for finding in _made(trained, when, tell, **facts)]
    return merge_findings([*earlier, *failed], [*made, *references_seen(trained, "dev")])


def of_predictions(file: Path, *, label: str = "label", prediction: str = "prediction") -> list[Finding]:
    """What a table of labels and predictions comes to, whatever made them. They are numbers where all are,
    and some are not whole; else classes."""
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
        empty = [name for name in columns.values() if not label_name(record.values[name])]
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
    labels, predicted = ([label_name(r[column]) for r in records] for column in columns.values())
    truth, guesses = measurements(labels), measurements(predicted)
    if truth is not None and guesses is not None and any(map(has_fraction, [*truth, *guesses])):
        examples = Examples({"number": np.array(truth), "predicted_number": np.array(guesses)})
        return [TARGETS["number"].majority(examples, Labels())]
    return judge(labels, predicted, texts)


def measurements(values: Sequence[str]) -> list[float] | None:
    """Values as numbers; None where one of them is not a number."""
    try:
        numbers = [number_in(value) for value in values]
    except ValueError:
        return None
    return numbers if all(map(math.isfinite, numbers)) else None


def has_fraction(number: float) -> bool:
    """Whether it is not a whole number."""
    return number != round(number)


def label_name(value: Any) -> str:
    """A label or a prediction as one name, whatever its type and order; nothing where there is none."""
    if isinstance(value, (list, tuple)):
        return " + ".join(sorted(map(label_name, value))) or "none"
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
