"""The loss of a trained model text by text: what intervals and paired differences are made of."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlab.config.values import ConfigError
from attnlab.evaluation.evaluator import Evaluator
from attnlab.evaluation.perplexity import Score
from attnlab.metrics.metric import Examples
from attnlab.model.losses import IGNORE


@dataclass(frozen=True)
class DocumentLosses:
    """One entry a text of a split, in the split's own order, whatever the batches were; all (n).

    `nats` is the task's loss summed over the text's `targets`; `bytes` the UTF-8 size of the text
    that these targets stand for, 0 where the task counts none. A text without a target keeps its place.
    """

    nats: NDArray[np.float64]
    targets: NDArray[np.int64]
    bytes: NDArray[np.int64]
    parts: Mapping[str, float] = field(default_factory=dict)
    """Sums of a task's parts of the loss over all texts, where it has parts."""
    words: NDArray[np.float64] | None = None
    """The nats of the predicted words alone, where the loss has other parts beside them."""
    said: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """What was said of each text as a whole, and what was right, where the task is not about words."""
    texts: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """What was written of each text and what was to be, where a model was asked to write."""
    unknown: int = 0
    """How many of all targets are the token of unknown words, which says nothing of their letters."""

    def __len__(self) -> int:
        return len(self.nats)

    @property
    def examples(self) -> Examples:
        """The same as columns, which metrics are made of."""
        columns = {"nats": self.nats, "targets": self.targets, **self.said}
        if self.said:
            return Examples(columns)
        return Examples(columns | {"bytes": self.bytes, "words": self.of_words.nats, **self.texts})

    @property
    def score(self) -> Score:
        """The sums over all texts."""
        return Score(float(self.nats.sum()), int(self.targets.sum()), int(self.bytes.sum()))

    @property
    def of_words(self) -> DocumentLosses:
        """The same texts with the nats of their words alone: what perplexity is made of."""
        return self if self.words is None else replace(self, nats=self.words, words=None, parts={})

    @property
    def loss(self) -> float:
        return self.score.loss

    @property
    def perplexity(self) -> float:
        return self.of_words.score.perplexity

    @property
    def bits_per_byte(self) -> float:
        return self.of_words.score.bits_per_byte

    @property
    def unknown_share(self) -> float:
        return self.unknown / max(1, int(self.targets.sum()))


def document_losses(evaluator: Evaluator) -> DocumentLosses:
    """The loss of every text of the batches; together what the evaluator gives over them.

    A text that was parted into several rows is put together again, and those that shared a line of a
    batch are told apart.
    """
    rows, task = evaluator.loader.rows, evaluator.task
    if not task.predicts_words:
        return _labelled(evaluator, rows.scalars("example"))
    example = rows.scalars("example")
    count = int(example.max()) + 1
    nats, targets, bytes_ = np.zeros(count), np.zeros(count, np.int64), np.zeros(count, np.int64)
    words, unknown, parts = np.zeros(count), 0, dict[str, float]()
    for batch, prepared, loss in evaluator.losses():
        if loss.each is None or loss.of_words.each is None:
            raise ValueError(
                f"{type(task).__name__} gives its loss as a whole only, which cannot be told by "
                "texts; hand the nats of each target on in LossSum.each."
            )
        wanted = prepared.targets != IGNORE
        text = example[batch.owner.expand_as(wanted)[wanted].numpy()]
        nats += np.bincount(text, loss.each.double().cpu().numpy(), minlength=count)
        words += np.bincount(text, loss.of_words.each.double().cpu().numpy(), minlength=count)
        targets += np.bincount(text, minlength=count)
        unknown += prepared.targets[wanted].tolist().count(task.vocabulary.unknown)
        for name, part in loss.parts.items():
            parts[name] = parts.get(name, 0.0) + float(part)
        if prepared.sizes is not None:
            np.add.at(bytes_, text, prepared.sizes[wanted].numpy())
    if not targets.any():
        raise ConfigError(
            "These texts have no token to predict: each is too short, or all its words are unknown to the "
            "tokenizer. Give other texts."
        )
    texts = evaluator.said()
    written = {} if texts is None else texts.columns
    return DocumentLosses(
        nats, targets, bytes_, parts, words if parts else None, texts=written, unknown=unknown
    )


def _labelled(evaluator: Evaluator, example: NDArray[np.int64]) -> DocumentLosses:
    """Of a task that says one thing of each text: its columns, in the split's own order. A text of which
    nothing was said has no number: its scores are nan, so that no metric takes it for one that was read."""
    judged = [(part.columns, part.batch.rows.numpy()) for part in evaluator.judged()]
    columns, place = evaluator.by_example(*map(list, zip(*judged, strict=True)))
    count = int(example.max()) + 1

    def ordered(name: str) -> NDArray[Any]:
        column = columns[name]
        missing = math.nan if column.dtype.kind == "f" else -1 if column.dtype.kind == "i" else 0
        filled = np.full((count, *column.shape[1:]), missing, column.dtype)
        filled[place] = column
        return filled

    by_text = {name: ordered(name) for name in columns if name not in ("nats", "targets")}
    targets = np.nan_to_num(ordered("targets")).astype(np.int64)
    return DocumentLosses(ordered("nats"), targets, np.zeros(count, np.int64), said=by_text)
