"""Answers that are a span of a passage: what tasks that give them have in common, and where spans are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from attnlab.config.values import ConfigError
from attnlab.data.labels import Labels
from attnlab.targets.spans import SpanTarget
from attnlab.tasks.task import Prediction, Prepared, Task
from attnlab.tasks.vocabulary import Vocabulary


@dataclass(frozen=True, kw_only=True)
class AnswerPrediction(Prediction):
    """An answer, empty for none. `span` is the best one that the passage has, given or not, and `start` and
    `end` are its characters there. `margin` is how far its score is above that of no answer and the
    threshold, in nats: below 0 it is not given."""

    of: ClassVar[Literal["labels", "words", "answer"]] = "answer"
    span: str
    start: int
    end: int
    margin: float

    @property
    def columns(self) -> dict[str, Any]:
        place = {"start": self.start, "end": self.end} if self.answer else {"start": None, "end": None}
        return {"prediction": self.answer, "margin": self.margin, **place}


class AnswerSpans(Task):
    """A question is answered by a span of its passage of at most `longest_answer` tokens, where its margin is
    above the `threshold`; "dev" for one that is chosen there."""

    def __init__(
        self, vocabulary: Vocabulary, labels: Labels, longest_answer: int, threshold: float | Literal["dev"]
    ):
        super().__init__(vocabulary, labels)
        if longest_answer < 1:
            raise ConfigError(f"task.longest_answer is {longest_answer}; it must be at least 1 token.")
        if threshold != "dev" and not math.isfinite(threshold):
            raise ConfigError(f'task.threshold is {threshold}; give a finite number, or "dev".')
        self.longest_answer, self.threshold = longest_answer, threshold
        self.target = SpanTarget(fixed=threshold != "dev")


# ---------------------------------------------------------------- places in rows and texts
def first_places(prepared: Prepared) -> Tensor:
    """(B) the place of the first token, which stands for no answer: padding may be before it."""
    real = prepared.tokens.real
    if real is None:
        return torch.zeros(len(prepared.ids), dtype=torch.long, device=prepared.ids.device)
    return real.expand_as(prepared.ids).long().argmax(1)


def choices(prepared: Prepared) -> Tensor:
    """(B,T) where an answer can begin and end: in the passage, or at the first token for none."""
    assert prepared.passage is not None
    line = torch.arange(len(prepared.ids), device=prepared.ids.device)
    can = prepared.passage.start >= 0
    can[line, first_places(prepared)] = True
    return can


def best_spans(start: Tensor, end: Tensor, longest: int) -> tuple[Tensor, Tensor, Tensor]:
    """(B) the largest start_i + end_j of (B,T) each with i ≤ j < i + longest, and i and j; of equal ones the
    shortest, and of these the first. −∞ where there is no span."""
    best = torch.full_like(start[:, 0], -math.inf)
    first = torch.zeros(len(start), dtype=torch.long, device=start.device)
    last = first.clone()
    for more in range(min(longest, start.shape[1])):
        score, place = (start[:, : start.shape[1] - more] + end[:, more:]).max(1)
        better = score > best
        best = torch.where(better, score, best)
        first, last = torch.where(better, place, first), torch.where(better, place + more, last)
    return best, first, last
