"""What a model writes of the examples of a split, by decoding: columns of text, which metrics read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from attnlab.data.example import Example
from attnlab.data.rows import Rows
from attnlab.data.sharing import UNSHARED, Sharing
from attnlab.generation.target_writer import TargetSource, TargetWriter, each_of
from attnlab.metrics import METRICS
from attnlab.metrics.metric import OF_TEXTS, Examples, Metric
from attnlab.model.isolation import undisturbed
from attnlab.runs.atomic import replace_bytes

GENERATED, REFERENCE = OF_TEXTS
SOURCE, STOPPED, WRITTEN_IDS = "source", "stopped", "written_ids"
"""Columns beside them: what each text was written from, whether the model ended it by itself, its tokens."""
FILE = "said.jsonl"
KEPT = (GENERATED, REFERENCE, SOURCE, STOPPED)


@dataclass(frozen=True, kw_only=True)
class TextWriter(TargetWriter):
    """Writes the target of each example of a split after its source."""

    rows: Rows
    texts: Callable[[], Sequence[Example]]
    sharing: Sharing = UNSHARED

    def __call__(self, count: int | None = None) -> Examples:
        """Of the first examples, or of all; the model's mode and the random numbers stay as they are."""
        asked = self.asked(count)
        sources = [self.source(row) for row in range(len(asked[REFERENCE]))]
        with undisturbed(self.model) as model, torch.random.fork_rng():
            in_order = each_of(sources, partial(self.write, model), device=self.device, sharing=self.sharing)
        return Examples(
            {
                GENERATED: of_texts([self.tokenizer.target.decode(text.new).strip() for text in in_order]),
                **asked,
                STOPPED: np.array([text.stopped for text in in_order], bool),
                WRITTEN_IDS: ids_of([text.new for text in in_order]),
            }
        )

    def asked(self, count: int | None = None) -> dict[str, NDArray[Any]]:
        """What texts are written for, and what they are to be."""
        texts, numbers = self.texts(), self.rows.scalars("example")[:count]
        examples = [texts[number] for number in numbers]
        return {
            REFERENCE: of_texts([example.target or "" for example in examples]),
            SOURCE: of_texts([example.text for example in examples]),
        }

    def ideal(self, count: int | None = None) -> Examples:
        """The columns of a model that writes every reference: the scores that they have, others can have."""
        asked = self.asked(count)
        return Examples({GENERATED: asked[REFERENCE], **asked, STOPPED: np.ones(len(asked[REFERENCE]), bool)})

    def source(self, row: int) -> TargetSource:
        """What is read before the target."""
        return TargetSource.of_rows(self.rows, row)


def of_texts(texts: Sequence[str] | Sequence[tuple[str, ...]]) -> NDArray[Any]:
    """A column of text, or of several texts for each example."""
    column = np.empty(len(texts), dtype=object)
    column[:] = texts
    return column


def ids_of(texts: Sequence[Sequence[int]]) -> NDArray[Any]:
    """A column of tokens, as many as each text has."""
    column = np.empty(len(texts), dtype=object)
    for row, ids in enumerate(texts):
        column[row] = tuple(ids)
    return column


def text_metrics(examples: Examples) -> dict[str, Metric]:
    """Every metric that reads what was written."""
    metrics = {name: METRICS.build(name) for name in METRICS if GENERATED in METRICS[name].needs}
    return {name: metric for name, metric in metrics.items() if metric.applies(examples)}


def text_scores(examples: Examples) -> dict[str, float]:
    """The values of all of them."""
    return {name: metric.value(examples) for name, metric in text_metrics(examples).items()}


def text_signatures(examples: Examples) -> dict[str, str]:
    """How those are computed that other packages define."""
    signatures = {name: metric.signature(examples) for name, metric in text_metrics(examples).items()}
    return {name: signature for name, signature in signatures.items() if signature}


def save_texts(folder: Path, texts: Mapping[str, NDArray[Any]]) -> None:
    """Keep what was written of each example, a line each."""
    columns = {name: texts[name].tolist() for name in KEPT if name in texts}
    rows = (dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True))
    lines = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    replace_bytes(folder / FILE, lines.encode())


def read_texts(folder: Path) -> dict[str, NDArray[Any]]:
    """The columns of what was written; none where nothing was."""
    file = folder / FILE
    if not file.is_file():
        return {}
    rows = [json.loads(line) for line in file.read_bytes().splitlines()]  # str.splitlines parts texts too
    columns = {name: [row[name] for row in rows] for name in KEPT if all(name in row for row in rows)}
    return {
        name: np.array(column, bool) if name == STOPPED else of_texts(column)
        for name, column in columns.items()
    }
