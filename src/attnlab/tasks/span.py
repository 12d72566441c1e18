from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from attnlab.config.ranges import Count, Share
from attnlab.config.values import ConfigError
from attnlab.data.batch import Batch
from attnlab.model.heads.boundary import SpanBoundary
from attnlab.model.heads.head import Head
from attnlab.model.heads.language import language_head
from attnlab.model.losses import IGNORE, LossSum
from attnlab.model.model import Model
from attnlab.tasks.masked_tokens import (
    ATTEMPTS,
    Lengths,
    Replacement,
    budget,
    documents,
    in_unit,
    maskable,
    targets_at,
    words_of,
)
from attnlab.tasks.task import Prepared, Spans, Task, tokens_of
from attnlab.tasks.vocabulary import Flags, Ids, Vocabulary


class Span(Task):
    """Span: whole stretches of words are hidden, and guessed from within and from their two neighbours.

    Formula: lengths in words are geometric, P(l) ∝ p(1 − p)^{l−1} up to `longest` (mean 3.8 for 0.2
    and 10), until `share` of the tokens is hidden; never two spans side by side, since the token
    before and the one after must be there to be seen. With the head `span_boundary` the loss is
    −Σ log p(x_i | x_i's own vector) − Σ log p(x_i | x_{s−1}, x_{e+1}, its place), both shown.

    Cost: like `masked`; the boundary's part costs as much in the head again.

    When it helps: tasks whose answers are spans.

    Paper: Joshi et al. 2019, "SpanBERT".
    """

    sees = "all"

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        share: Share = 0.15,
        p: Share = 0.2,
        longest: Count = 10,
        mask: Share = 0.8,
        random: Share = 0.1,
    ):
        super().__init__(vocabulary)
        vocabulary.needed("mask", "the masked tokens are replaced by")
        if not 0 < p < 1:
            raise ConfigError(f"task.p is {p}; it must be above 0 and below 1.")
        if longest < 1:
            raise ConfigError(f"task.longest is {longest}; it must be at least 1.")
        self.share, self.p, self.longest = in_unit("task.share", share), p, longest
        self.replacement = Replacement(mask, random)

    @property
    def shown_targets(self) -> float:
        return self.replacement.kept

    @property
    def lengths(self) -> Lengths:
        """The probability of each length from 1 on."""
        weights = self.p * (1 - self.p) ** np.arange(self.longest)
        return weights / weights.sum()

    @property
    def span_lengths(self) -> tuple[float, ...]:
        return tuple(self.lengths.tolist())

    def prepare(self, batch: Batch, seed: int) -> Prepared:
        generator = np.random.default_rng(seed)
        ids, candidates = batch.ids.numpy(), maskable(batch, self.vocabulary)
        document, seen = documents(batch), batch.real.numpy()
        words = words_of(ids, candidates, document, self.vocabulary)
        hidden_spans: list[tuple[int, int, int]] = []
        for row in range(len(ids)):
            spans = self.spans(candidates[row], seen[row], words[row], document[row], generator)
            hidden_spans += [(row, start, end) for start, end in spans]
        chosen, units = np.zeros_like(candidates), np.zeros_like(ids)
        for number, (row, start, end) in enumerate(hidden_spans):
            chosen[row, start : end + 1], units[row, start : end + 1] = True, number
        read = self.replacement.apply(ids, chosen, units, self.vocabulary, generator)
        return Prepared(
            ids=torch.from_numpy(read),
            targets=targets_at(ids, chosen),
            tokens=tokens_of(batch),
            types=batch.types,
            vectors=batch.vectors,
            spans=placed(hidden_spans),
        )

    def spans(
        self, candidates: Flags, seen: Flags, words: Ids, document: Ids, generator: np.random.Generator
    ) -> list[tuple[int, int]]:
        """Spans [start, end] of whole words in one row, in the order of drawing."""
        left = budget(int(candidates.sum()), self.share)
        begins = np.flatnonzero(candidates & (np.diff(words, prepend=-1) > 0))
        taken = np.zeros_like(candidates)
        spans: list[tuple[int, int]] = []
        failures = len(begins) == 0 and ATTEMPTS
        wanted = self.length(generator)
        while left > 0 and failures < ATTEMPTS:
            start = int(begins[generator.integers(len(begins))])
            span = whole_words(start, wanted, words, candidates, min(left, self.longest))
            if span is None or not open_at(span, taken, seen, document):
                failures += 1  # another place for the same length: drawing that anew would favour short ones
                continue
            spans.append(span)
            taken[span[0] : span[1] + 1] = True
            left, failures, wanted = left - (span[1] - span[0] + 1), 0, self.length(generator)
        return spans

    def length(self, generator: np.random.Generator) -> int:
        return 1 + int(generator.choice(self.longest, p=self.lengths))

    def head_loss(self, head: Head, hidden: Tensor, prepared: Prepared, *, training: bool) -> LossSum:
        inside = language_head(head).loss(hidden, prepared.targets)
        if not isinstance(head, SpanBoundary) or prepared.spans is None:
            return inside
        s = prepared.spans
        wanted = prepared.targets[s.row, s.place]
        boundary = head.boundary_loss(hidden, s.row, s.start, s.end, s.place, wanted)
        parts = {"masked": inside.total, "boundary": boundary.total}
        each = None
        if inside.each is not None and boundary.each is not None:
            outside = torch.zeros_like(hidden[..., 0], dtype=boundary.each.dtype)
            outside[s.row, s.place] = boundary.each  # spans come in the order of drawing, targets by place
            each = inside.each + outside[prepared.targets != IGNORE]
        return LossSum(inside.total + boundary.total, inside.count, parts, each, words=inside)

    def check(self, model: Model) -> None:
        super().check(model)
        if isinstance(model.head, SpanBoundary) and model.head.longest < self.longest:
            raise ConfigError(
                f"task.longest {self.longest} is more than the head's places {model.head.longest}; "
                f"use model.output = span_boundary(longest={self.longest})."
            )


def whole_words(start: int, wanted: int, words: Ids, candidates: Flags, room: int) -> tuple[int, int] | None:
    """Up to `wanted` whole words from the one that begins at `start`, in at most `room` tokens; None if none
    fits."""
    end = start - 1
    for word in range(int(words[start]), int(words[start]) + wanted):
        last = int(np.searchsorted(words, word, side="right")) - 1
        if last == end or last - start >= room or not candidates[end + 1 : last + 1].all():
            break
        end = last
    return (start, end) if end >= start else None


def open_at(span: tuple[int, int], taken: Flags, seen: Flags, document: Ids) -> bool:
    """Whether a span is free, and both its neighbours are there, of the same text, and not hidden."""
    start, end = span
    if start == 0 or end + 1 >= len(taken) or not (seen[start - 1] and seen[end + 1]):
        return False
    if taken[start - 1 : end + 2].any():
        return False
    return bool(document[start - 1] == document[start] == document[end + 1])


def placed(spans: list[tuple[int, int, int]]) -> Spans:
    """Every token of every span, with its span's ends."""
    rows = [(row, start, end, place) for row, start, end in spans for place in range(start, end + 1)]
    columns = torch.tensor(rows, dtype=torch.long).view(-1, 4)
    return Spans(row=columns[:, 0], start=columns[:, 1], end=columns[:, 2], place=columns[:, 3])
