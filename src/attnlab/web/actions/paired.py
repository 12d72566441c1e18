"""Differences of runs from the first of them, paired by the texts of dev."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from attnlab.config.values import ConfigError
from attnlab.evaluation.documents import DocumentLosses, document_losses
from attnlab.metrics import METRICS
from attnlab.runs.summary import read_summary
from attnlab.studies.judgement import DOCUMENTS
from attnlab.studies.run_measures import read_documents
from attnlab.studies.side_by_side import side_by_side
from attnlab.web.actions import Answer, Parts
from attnlab.web.actions.corpus_paths import paths_in
from attnlab.web.worker_request import WorkerRequest

MOST = 20


@dataclass(frozen=True)
class PairedValues:
    """The folders of the runs, the first of which the others are set beside."""

    folders: tuple[str, ...]


def paired(asked: WorkerRequest) -> Parts:
    """Each run minus the first in every measure that may be compared; a part a run that is being scored."""
    folders = [Path(folder) for folder in asked.read(PairedValues).folders]
    if not 2 <= len(folders) <= MOST or not all(map(asked.holds, folders)):
        raise ConfigError(f"Give 2 to {MOST} runs of the folder that is served.")
    measures = [name for name in side_by_side(folders).measures if name in METRICS]
    losses = {}
    for folder in folders:
        yield {"scoring": str(folder)}
        losses[folder] = losses_of(asked, folder)
    first = losses[folders[0]]
    rows = [
        row for folder in folders[1:] for row in _differences(str(folder), losses[folder], first, measures)
    ]
    return {"texts": len(first), "rows": rows}


def losses_of(asked: WorkerRequest, folder: Path) -> DocumentLosses:
    """As a study kept them, or scored now by the checkpoint that is opened."""
    if (stored := read_documents(folder / DOCUMENTS)) is not None:
        return stored
    corpus = read_summary(folder).config["data"]["corpus"]
    for path in paths_in(corpus):
        if not asked.holds(Path(path).expanduser()):
            raise ConfigError(
                f"The text of {folder.name} is not in the served folder, and the page reads nothing else. "
                f"Its scores with intervals: attnlab evaluate {folder}"
            )
    return document_losses(asked.open(folder).evaluator("dev"))


def _differences(
    name: str, one: DocumentLosses, other: DocumentLosses, measures: list[str]
) -> Iterator[Answer]:
    if len(one) != len(other):
        raise ConfigError(
            f"{Path(name).name} was scored on {len(one):,} texts and the first run on {len(other):,}: they "
            "cannot be paired."
        )
    for measure in measures:
        metric = METRICS.build(measure)
        if not (metric.applies(one.examples) and metric.applies(other.examples)):
            continue
        estimate = metric.difference(one.examples, other.examples)
        yield {"run": name, "metric": measure, **estimate.as_json()}
