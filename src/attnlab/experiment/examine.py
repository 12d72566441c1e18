"""Checks made on demand: of a config before it is trained, of a run or checkpoint as it stands."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attnlab.checks.check import run_checks
from attnlab.checks.predictions import judge
from attnlab.config.schema import Config
from attnlab.data.corpora.readers import reader_of
from attnlab.data.corpora.records import Broken
from attnlab.data.errors import DataError
from attnlab.experiment.run import default_cache
from attnlab.experiment.sample_file import sample_files
from attnlab.experiment.setup import Setup, evaluator_of, set_up, set_up_again
from attnlab.experiment.soundness import case_of, said_by
from attnlab.experiment.stored import stored_at
from attnlab.runs.findings import Finding, When, joined, read_findings

Told = Callable[[str], None]


def of_config(config: Config, *, tell: Told = lambda message: None) -> list[Finding]:
    """What the checks before a training find."""
    tell("Reading the corpus")
    setup = set_up(config, cache=default_cache())
    moments: tuple[When, ...] = ("config", "before")
    return [one for when in moments for one in _made(setup, when, tell)]


def of_run(path: Path, *, tell: Told = lambda message: None) -> list[Finding]:
    """What was found before and during a run, and what the checks find in its trained weights now."""
    stored = stored_at(path)
    tell("Reading the corpus")
    setup = set_up_again(stored, stored.model(), cache=default_cache())
    recorded = read_findings(stored.folder)
    held = [one for one in recorded if one.when in ("config", "before", "during")]
    facts: dict[str, Any] = {"folder": stored.folder, "step": stored.step}
    if "dev" in setup.dataset.splits.names:
        tell("Scoring the dev split")
        facts |= _evaluated(setup)
    moments: tuple[When, ...] = ("evaluation", "after")
    failed = [one for one in recorded if one.when in moments and one.outcome == "fail"]
    return joined([*held, *failed], [one for when in moments for one in _made(setup, when, tell, **facts)])


def of_predictions(file: Path) -> list[Finding]:
    """What a table of labels and predictions comes to, whatever made them."""
    records = []
    for record in reader_of(file)(file, "utf-8", "line"):
        if isinstance(record, Broken):
            raise DataError(f"{record.place}: {record.reason}")
        missing = [name for name in ("label", "prediction") if name not in record.values]
        if missing:
            raise DataError(
                f"{record.place} has no column {' and no column '.join(missing)}, only "
                f"{', '.join(map(str, record.values))}; predictions are judged by label and prediction: "
                "rename the columns that hold them."
            )
        empty = [name for name in ("label", "prediction") if not said(record.values[name])]
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
    return judge([said(r["label"]) for r in records], [said(r["prediction"]) for r in records], texts)


def said(value: Any) -> str:
    """A label or a prediction as one name, whatever its type and order; nothing where there is none."""
    if isinstance(value, (list, tuple)):
        return " + ".join(sorted(map(said, value))) or "none"
    shown = str(value).lower() if isinstance(value, bool) else str(value)
    return "" if value is None else shown.strip() and shown


def _made(setup: Setup, when: When, tell: Told, **facts: Any) -> list[Finding]:
    tell(f"Checking ({when})")
    return run_checks(case_of(setup, when, **facts))


def _evaluated(setup: Setup) -> dict[str, Any]:
    """The dev scores and samples of the model as it is, as an evaluation in training gives them."""
    batches = setup.config.training.evaluate_batches
    found = evaluator_of(setup.config, setup.dataset, setup.model, setup.task, "dev", batches=batches)()
    scores = {"loss": found.loss, **found.scores}
    return {"scores": scores, "samples": _samples(setup), **said_by(setup, found)}


def _samples(setup: Setup) -> list[Any]:
    with tempfile.TemporaryDirectory() as folder:
        files = sample_files(setup, Path(folder) / "samples.txt", 0)
        for file in files:
            file.text(0)
    return [sample for file in files for sample in file.last]
