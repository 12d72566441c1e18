"""An answer within a passage, or none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from attnlab.data.errors import DataError
from attnlab.data.labels import ANSWER, NO_ANSWER, ClassNames, Labels
from attnlab.targets.recipes import OF_SPANS
from attnlab.targets.target import Row, Target, entropy


class SpanTarget(ClassNames, Target):
    """The first and the last token of an answer. The classes of its labels are questions with an answer and
    without one: a row of a long passage holds neither."""

    name = "answer"
    columns = ("text", "pair", "answers")
    recipes = OF_SPANS

    def draft(self, classes: int = 2) -> Labels:
        return Labels(self.name, (ANSWER, NO_ANSWER), (1, 1), 2)

    def summary(self, labels: Iterable[Any]) -> Labels:
        counts, names = Counter(labels), (ANSWER, NO_ANSWER)  # both are known, whichever there are
        return Labels(self.name, names, tuple(counts[name] for name in names), counts.total())

    def row(self, label: Any, known: Labels, place: str = "") -> dict[str, Any]:
        return {}

    def refuse(self, labels: Labels, *, declared: bool) -> None:
        if not labels.counts[labels.names.index(ANSWER)]:
            raise DataError(
                f"None of the {labels.examples:,} questions of the training split has an answer; there is "
                "nothing to learn. Name the column that holds them with data.corpus.answers (--answers "
                "COLUMN)."
            )

    def plain_loss(self, scores: Tensor, row: Row) -> Tensor:
        """−log p of the first and last token by scores (T,2), among the tokens of the passage, whose places
        in its text are not −1, and the first of all, which is no answer."""
        real = row["real"]
        places, first = row["char_start"][real], int(real.long().argmax())
        among = [0, *(places >= 0).nonzero()[:, 0].tolist()]
        return sum(
            (
                side[among].logsumexp(0) - side[target - first]
                for side, target in zip(scores.T, row["targets"], strict=True)
            ),
            torch.zeros((), dtype=scores.dtype),
        )

    def uncertainty(self, targets: Tensor, given: Sequence[Hashable]) -> float:
        return sum(entropy(given, column.tolist()) for column in targets.T)

    def shown(self, truth: Mapping[str, Any], labels: Labels) -> str | float:
        first, last = truth["targets"]
        return f"tokens {first} to {last}" if last else "no answer in this window"
