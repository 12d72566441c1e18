"""A tag for each word of a text."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from attnlab.data.labels import Labels
from attnlab.targets.classes import ClassTarget
from attnlab.targets.target import Row


class TagTarget(ClassTarget):
    """A tag for each word. By the scores of a word's first token, or by the mean over its tokens."""

    name = "tags"
    columns = ("text", "tags")
    by_token = True

    def __init__(self, *, first_piece: bool = True):
        self.first_piece = first_piece

    def row(self, label: Any, known: Labels, place: str = "") -> dict[str, Any]:
        return {}  # the encoding places each tag at its word

    def stratum(self, label: Any) -> str:
        return ""

    def refuse(self, labels: Labels, *, declared: bool) -> None:
        super().refuse(labels, declared=True)  # tags are never a column that was meant otherwise

    def plain_loss(self, scores: Tensor, row: Row) -> Tensor:
        """Σ over words of log Σ e^s − s_tag, by scores (T,C)."""
        words, tags = (row[name][row["real"]].tolist() for name in ("words", "targets"))
        total = scores.new_zeros(())
        for place, tag in enumerate(tags):
            if tag < 0:
                continue
            own = [n for n, word in enumerate(words) if word == words[place]]
            mean = scores[own[:1] if self.first_piece else own].mean(0)
            total = total + mean.logsumexp(-1) - mean[tag]
        return total
