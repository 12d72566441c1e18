"""What a model writes of the examples of a split, by decoding: columns of text, which metrics read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from attnlab.data.encode.texts import ends
from attnlab.data.example import Example
from attnlab.data.rows import Rows
from attnlab.data.tokenizers.tokenizer import Tokenizer
from attnlab.generation.generate import generate
from attnlab.metrics import METRICS
from attnlab.metrics.metric import OF_TEXTS, Examples, Metric
from attnlab.model.isolation import undisturbed
from attnlab.model.model import Model
from attnlab.runs.atomic import replace_bytes

GENERATED, REFERENCE = OF_TEXTS
TOGETHER = 32
"""Texts that are written side by side."""
FILE = "said.jsonl"


@dataclass(frozen=True, kw_only=True)
class TextWriter:
    """Writes the target of each example after its source, greedily, up to `length` tokens."""

    model: Model
    tokenizer: Tokenizer
    rows: Rows
    texts: Callable[[], Sequence[Example]]
    length: int

    def __call__(self, count: int | None = None) -> Examples:
        """Of the first examples, or of all; the model's mode and the random numbers stay as they are."""
        texts, numbers = self.texts(), self.rows.scalars("example")[:count]
        examples = [texts[number] for number in numbers]
        with undisturbed(self.model) as model, torch.random.fork_rng():
            starts = range(0, len(examples), TOGETHER)
            written = [text for at in starts for text in self._write(model, at, len(examples))]
        wanted = [example.target or "" for example in examples]
        return Examples({GENERATED: of_texts(written), REFERENCE: of_texts(wanted)})

    def _write(self, model: Model, at: int, count: int) -> list[str]:
        start, stop = ends(self.tokenizer)
        rows = range(at, min(at + TOGETHER, count))
        sources = [self.rows.ragged("ids", row).astype(np.int64).tolist() for row in rows]
        written = generate(model, [[start]] * len(rows), sources=sources, length=self.length, stop={stop})
        return [self.tokenizer.decode([token for token in text.new if token != stop]) for text in written]


def of_texts(texts: Sequence[str] | Sequence[tuple[str, ...]]) -> NDArray[Any]:
    """A column of text, or of several texts for each example."""
    column = np.empty(len(texts), dtype=object)
    column[:] = texts
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
    pairs = zip(texts[GENERATED], texts[REFERENCE], strict=True)
    rows = ({GENERATED: text, REFERENCE: wanted} for text, wanted in pairs)
    lines = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    replace_bytes(folder / FILE, lines.encode())


def read_texts(folder: Path) -> dict[str, NDArray[Any]]:
    """The columns of what was written; none where nothing was."""
    file = folder / FILE
    if not file.is_file():
        return {}
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return {name: of_texts([row[name] for row in rows]) for name in (GENERATED, REFERENCE)}
