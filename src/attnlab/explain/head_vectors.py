"""What each head is worth to a model without a head for words or labels: how far the vectors of texts turn
without it, with the interval over texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import stats
from torch import Tensor

from attnlab.documents.nodes import Details, Node, Number, Sentence, Table, TableColumn
from attnlab.explain.ablation import HeadName
from attnlab.explain.explanation import Explanation
from attnlab.explain.head_losses import LEVEL, MOST, heads_in
from attnlab.metrics.metric import Estimate
from attnlab.model.capture import patch
from attnlab.model.model import Model


@dataclass(frozen=True)
class HeadVector:
    """How far a head's removal turns the vector of a text: 1 − cosine, the mean over texts."""

    name: HeadName
    turned: Estimate


@dataclass(frozen=True)
class HeadVectors(Explanation):
    """Every head, the one whose removal turns vectors most first."""

    heads: Sequence[HeadVector]
    texts: int
    on: str

    kind = "heads"

    @cached_property
    def ranked(self) -> list[HeadVector]:
        return sorted(self.heads, key=lambda head: -head.turned.value)

    @property
    def headline(self) -> str:
        first, middle = self.ranked[0], self.ranked[len(self.ranked) // 2]
        return (
            f"Removing {first.name} turns the vectors of texts most ({first.turned.value:.2g} of 1 − "
            "cosine); the "
            f"median head {middle.turned.value:.2g}."
        )

    @property
    def remark(self) -> str:
        return "The model has no head for words or labels, so that there is no loss to compare."

    def parts(self) -> list[Node]:
        return [self._table(MOST), Sentence(self._definition(), "fine")]

    def page_parts(self) -> list[Node]:
        rest = [Details(f"All {len(self.heads)} heads", [self._table(len(self.heads))])]
        return [*self.parts(), *(rest if len(self.heads) > MOST else [])]

    def _table(self, most: int) -> Table:
        rows = [
            (head.name.layer, head.name.number, Number.within(head.turned.value, head.turned.interval))
            for head in self.ranked[:most]
        ]
        which = f", the first {most} of {len(self.heads)}" if most < len(self.heads) else ""
        columns = (TableColumn("layer", whole=True), "head", "1 − cosine")
        return Table(columns, rows, title=f"Turn of a text's vector without each head{which}")

    def _definition(self) -> str:
        return (
            f"Mean over {self.texts:,} texts of {self.on}, with {LEVEL:.0%} intervals over other texts "
            "like these. "
            "A head is removed by setting what it reads to 0."
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "on": self.on,
            "texts": self.texts,
            "heads": [
                {
                    "place": head.name.place,
                    "turned": head.turned.value,
                    "interval": [head.turned.low, head.turned.high],
                }
                for head in self.ranked
            ],
        }


def head_vectors(
    model: Model,
    embed: Callable[[], Tensor],
    *,
    on: str,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> HeadVectors:
    """`embed` gives the vectors (N,D) of texts, each of length 1, by the model as it then is."""
    names, usual = heads_in(model), embed().double()
    heads = []
    for done, name in enumerate(names):
        progress(done, len(names))
        with patch(model, {name.place: 0}):
            without = embed().double()
        heads.append(HeadVector(name, mean_estimate((1 - (usual * without).sum(-1)).cpu().numpy())))
    return HeadVectors(heads, len(usual), on)


def mean_estimate(values: np.ndarray[Any, np.dtype[np.float64]]) -> Estimate:
    """A mean with its interval by Student's t."""
    mean, count = float(values.mean()), len(values)
    if count < 2:
        return Estimate(mean, np.nan, np.nan, count)
    half = float(stats.t.ppf(0.5 + LEVEL / 2, count - 1) * values.std(ddof=1) / count**0.5)
    return Estimate(mean, mean - half, mean + half, count)
