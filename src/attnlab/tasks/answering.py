from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnlab.config.ranges import Count
from attnlab.config.values import ConfigError
from attnlab.data.batch import Batch
from attnlab.data.errors import DataError
from attnlab.data.example import Example
from attnlab.data.labels import Labels, answer_class
from attnlab.data.splits import fraction, key_of
from attnlab.metrics.answers import exact_match, gold_of, overlap_f1
from attnlab.metrics.metric import CLUSTER
from attnlab.metrics.thresholds import FOLDS, cross_fitted, curve, folds
from attnlab.model.heads.head import Head
from attnlab.model.losses import LossSum
from attnlab.model.model import Model
from attnlab.targets import TARGETS
from attnlab.targets.spans import SpanTarget, passages_of, span_of
from attnlab.tasks.answer_spans import (
    AnswerPrediction,
    AnswerSpans,
    best_spans,
    choices,
    first_places,
)
from attnlab.tasks.labelled import summed
from attnlab.tasks.task import (
    ExampleColumns,
    PassagePlaces,
    Prediction,
    Prepared,
    SplitColumns,
    tokens_of,
)
from attnlab.tasks.vocabulary import Vocabulary


class Answering(AnswerSpans):
    """Answering: a question is answered by a span of its passage, or by none (SQuAD 2.0).

    Formula: −log p(first token) − log p(last token) of each window of the passage, over its tokens and the
    first of all, C, which stands for no answer. A span i … j of at most `longest_answer` tokens scores
    S·T_i + E·T_j, no answer s_null = S·C + E·C. The margin is the best span's score − s_null, the largest
    over all windows; above `threshold` (τ) the span is the answer. By default τ is the one with the best F1
    on dev: to score each fifth of its passages that of the others, and to keep with the model that of all.

    Cost: a long passage is read in overlapping windows, each a row.

    When it helps: questions whose answer stands in a text, where "it does not say" is an answer too.

    Paper: Devlin et al. 2018, "BERT"; Rajpurkar et al. 2018, "Know What You Don't Know".
    """

    sees = "all"
    packs = False
    heads: ClassVar[tuple[str, ...]] = ("span",)
    head: ClassVar[str] = "span"
    encodings: ClassVar[tuple[str, ...]] = ("question",)
    target = TARGETS["answer"]
    compares_text = True
    metrics = (
        "span_f1",
        "exact_match",
        "span_f1_answerable",
        "exact_match_answerable",
        "exact_match_unanswerable",
        "loss",
    )

    def __init__(
        self,
        vocabulary: Vocabulary,
        labels: Labels,
        *,
        longest_answer: Count = 30,
        threshold: float | Literal["dev"] = "dev",
    ):
        super().__init__(vocabulary, labels, longest_answer, threshold)

    def label_of(self, example: Example) -> str:
        return answer_class(example)

    def check(self, model: Model) -> None:
        super().check(model)
        if model.trunk.sees != "all":
            raise ConfigError(
                'task "answering" reads at the first token that there is no answer, and model.mask shows it '
                'nothing of the text; use model.family = "encoder".'
            )

    # ------------------------------------------------------------ windows
    @property
    def command(self) -> str:
        return 'ask RUN "…" --passage FILE'

    def prepare(self, batch: Batch, seed: int) -> Prepared:
        if batch.start is None or batch.end is None:
            raise DataError("These rows have no answers, and the task is to predict them.")
        return replace(self.unlabelled(batch), targets=torch.stack([batch.start, batch.end], 1))

    def unlabelled(self, batch: Batch) -> Prepared:
        assert batch.char_start is not None and batch.char_end is not None  # of the encoding `question`
        return Prepared(
            ids=batch.ids,
            targets=torch.zeros(len(batch.ids), 2, dtype=torch.long),
            tokens=tokens_of(batch),
            types=batch.types,
            vectors=batch.vectors,
            passage=PassagePlaces(start=batch.char_start, end=batch.char_end),
            of_examples=True,
        )

    def scores(self, head: Head, hidden: Tensor, prepared: Prepared) -> Tensor:
        """(B,T,2) start and end; −∞ where no answer can begin or end."""
        scores = super().scores(head, hidden, prepared)
        return scores.masked_fill(~choices(prepared)[..., None], -math.inf)

    def head_loss(self, head: Head, hidden: Tensor, prepared: Prepared, *, training: bool) -> LossSum:
        chances = self.scores(head, hidden, prepared).log_softmax(1)
        return summed(-chances.gather(1, prepared.targets[:, None]).sum((1, 2)))

    def head_outputs(self, head: Head, hidden: Tensor, prepared: Prepared) -> ExampleColumns:
        scores, passage = self.scores(head, hidden, prepared), prepared.passage
        assert passage is not None
        null = scores[torch.arange(len(scores)), first_places(prepared)].sum(-1)
        readable = passage.end > passage.start  # some tokens are nothing but white space
        start, end = scores.masked_fill(~readable[..., None], -math.inf).unbind(-1)
        best, first, last = best_spans(start, end, self.longest_answer)
        line = torch.arange(len(best))
        return {
            "margin": best - null,
            "char_start": passage.start[line, first],
            "char_end": passage.end[line, last],
        }

    def blind_loss(self, prepared: Prepared) -> float:
        return float(2 * choices(prepared).sum(1).double().log().mean())

    def flops(self, model: Model, prepared: Prepared) -> int:
        places = prepared.ids.numel() - prepared.count  # every token is scored, not one a row
        return super().flops(model, prepared) + 3 * model.head.flops(places)

    # ------------------------------------------------------------ questions
    def by_example(
        self, columns: SplitColumns, example: NDArray[np.int64]
    ) -> tuple[SplitColumns, NDArray[np.int64]]:
        """Of the windows of a question the one with the largest margin, whatever order they come in; of equal
        ones the one whose span is first in the passage. What was lost on them adds up."""
        order = np.lexsort([columns["char_end"], columns["char_start"], -columns["margin"], example])
        numbers, first = np.unique(example[order], return_index=True)
        place = np.searchsorted(numbers, example)
        best = {
            name: np.bincount(place, column) if name in ("nats", "targets") else column[order[first]]
            for name, column in columns.items()
        }
        return best, numbers

    def compare(self, given: SplitColumns, texts: Sequence[Example]) -> SplitColumns:
        gold = [gold_of([answer.text for answer in example.answers]) for example in texts]
        spans = [span_of(example, *place) for example, *place in zip(texts, *_places(given), strict=True)]
        columns: SplitColumns = {
            "span_exact": np.array([exact_match(s, g) for s, g in zip(spans, gold, strict=True)]),
            "span_f1": np.array([overlap_f1(s, g) for s, g in zip(spans, gold, strict=True)]),
            "silent": np.array([exact_match("", g) for g in gold]),
            "answerable": np.array([bool(example.answers) for example in texts]),
            "fold": _folds(texts),
            CLUSTER: passages_of(texts),
        }
        merged = given | columns
        return merged | {"threshold": self._thresholds(merged)}

    def _thresholds(self, columns: SplitColumns) -> NDArray[np.float64]:
        if self.threshold != "dev":
            return np.full(len(columns["margin"]), self.threshold)
        return cross_fitted(columns["margin"], columns["span_f1"], columns["silent"], columns["fold"])

    def fit_decision(self, examples: Mapping[str, NDArray[Any]]) -> dict[str, float]:
        if self.threshold != "dev" or "span_f1" not in examples:
            return {}
        return {"threshold": curve(examples["margin"], examples["span_f1"], examples["silent"]).best}

    def with_decision(self, settings: Mapping[str, float]) -> Self:
        if self.threshold != "dev":
            return self
        task = copy.copy(self)
        task.threshold, task.target = settings.get("threshold", 0.0), SpanTarget(fixed=True)
        return task

    def predictions(self, columns: Mapping[str, Any], texts: Sequence[Example]) -> list[Prediction]:
        threshold = 0.0 if self.threshold == "dev" else self.threshold
        predictions: list[Prediction] = []
        for example, margin, start, end in zip(texts, columns["margin"], *_places(columns), strict=True):
            span, given = span_of(example, start, end), margin > threshold
            predictions.append(
                AnswerPrediction(
                    answer=span if given else "",
                    span=span,
                    start=start if span else 0,
                    end=end if span else 0,
                    margin=float(margin) - threshold,
                )
            )
        return predictions


def _places(columns: Mapping[str, Any]) -> tuple[list[int], list[int]]:
    return columns["char_start"].tolist(), columns["char_end"].tolist()


def _folds(texts: Sequence[Example]) -> NDArray[np.int64]:
    """Questions of one passage, or group, in one fold; where there are too few of these, each by itself."""
    keys = [key_of(example) for example in texts]
    if len(set(keys)) < FOLDS:
        keys = [f"{example.text}\x1f{example.pair}" for example in texts]
    return folds(keys, [fraction(key, 0) for key in keys])
