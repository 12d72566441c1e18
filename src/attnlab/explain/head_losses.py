"""What each head is worth over many texts: the change of the loss without it, with its interval; and whether
what is read off its weights and values predicts that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy import stats

from attnlab.documents.nodes import (
    Details,
    Forest,
    ForestRow,
    Name,
    Node,
    Number,
    Sentence,
    Table,
    VerdictPill,
)
from attnlab.documents.numbers import value_text
from attnlab.evaluation.documents import DocumentLosses, document_losses
from attnlab.evaluation.evaluator import Evaluator
from attnlab.evaluation.statistics import loss_interval
from attnlab.explain.ablation import HeadName
from attnlab.explain.attention_maps import RowOfText
from attnlab.explain.explanation import Explanation
from attnlab.explain.head_kinds import distance, entropy
from attnlab.metrics.metric import Estimate
from attnlab.model.attention.rule import spread
from attnlab.model.capture import capture, patch
from attnlab.model.isolation import undisturbed
from attnlab.model.model import Model, hidden_states
from attnlab.model.places import places_of, require_attention

LEVEL = 0.95
MOST = 24
"""Heads that a forest shows."""
VERDICTS = {
    1: ("worse", "loss rises"),
    -1: ("better", "loss falls"),
    0: ("inconclusive", "not told from 0"),
}
"""Of a head whose interval lies above 0, below it or around it: the kind of verdict, and its words."""


@dataclass(frozen=True)
class HeadLoss:
    """The change of the loss without a head, paired by text."""

    name: HeadName
    change: Estimate

    @property
    def matters(self) -> bool:
        """Whether the interval leaves 0 out."""
        return self.change.low > 0 or self.change.high < 0


@dataclass(frozen=True)
class HeadLosses(Explanation):
    """Every head, the one whose removal costs most first."""

    heads: Sequence[HeadLoss]
    loss: Estimate
    """Of the whole model on the same texts."""
    texts: int
    targets: int
    on: str

    kind = "heads"

    @cached_property
    def ranked(self) -> list[HeadLoss]:
        return sorted(self.heads, key=lambda head: -head.change.value)

    @property
    def headline(self) -> str:
        costly = sum(head.change.low > 0 for head in self.heads)
        helped = sum(head.change.high < 0 for head in self.heads)
        better = f", and lowers it for {helped}" if helped else ""
        if len(self.heads) == 1:
            moved = (
                "raises the loss" if costly else "lowers the loss" if helped else "changes no loss that shows"
            )
            return f"Removing the model's only head {moved}."
        return f"Removing one of {len(self.heads)} heads raises the loss for {costly} of them{better}."

    @property
    def remark(self) -> str:
        first = self.ranked[0]
        change = Number(first.change.value, first.change.low, first.change.high, form="signed")
        return (
            f"{str(first.name).capitalize()} costs most: {value_text(change)} nats a target. Counted are "
            "heads whose interval over texts leaves 0 out."
        )

    def parts(self) -> list[Node]:
        return [self._forest(), Sentence(self._definition(), "fine")]

    def page_parts(self) -> list[Node]:
        """A forest of the heads that matter most, and all of them as a table."""
        rest = [Details(f"All {len(self.heads)} heads", [self._table()])] if len(self.heads) > MOST else []
        return [self._forest(), Sentence(self._definition(), "fine"), *rest]

    def _forest(self) -> Forest:
        """The heads whose removal moves the loss most, in the order of the change."""
        largest = sorted(self.heads, key=lambda head: -abs(head.change.value))[:MOST]
        rows = [
            ForestRow(Name(str(head.name)), _change(head), VerdictPill(*VERDICTS[_side(head)]))
            for head in self.ranked
            if head in largest
        ]
        left = len(self.heads) - len(rows)
        which = f", the {MOST} with the largest of {len(self.heads)}" if left else ""
        caption = f"Change of the loss without each head{which}; nats a target"
        return Forest(rows, caption, left="loss falls", right="loss rises")

    def _table(self) -> Table:
        rows = [(h.name.layer, h.name.number, _change(h), VERDICTS[_side(h)][1]) for h in self.ranked]
        return Table(("layer", "head", "change", ""), rows, title="Change of the loss without each head")

    def _definition(self) -> str:
        return (
            f"Nats per target on {self.texts:,} texts ({self.targets:,} targets) of {self.on}; with all "
            f"heads {self.loss.value:.4f}. A head is removed by setting what it reads to 0. Changes are "
            f"paired by text; {LEVEL:.0%} intervals are over other texts like these, each for one head "
            "alone: of 100 heads without any effect about 5 leave 0 out by chance."
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "on": self.on,
            "texts": self.texts,
            "targets": self.targets,
            "loss": self.loss.value,
            "heads": [
                {
                    "place": head.name.place,
                    "change": head.change.value,
                    "interval": [head.change.low, head.change.high],
                }
                for head in self.ranked
            ],
        }


def heads_in(model: Model) -> list[HeadName]:
    """Every head of every attention layer."""
    require_attention(model.trunk)
    named = [name.rpartition(".") for name in places_of(model.trunk) if "heads." in name]
    return [HeadName(heads, int(number)) for heads, _, number in named]


def head_losses(
    evaluator: Evaluator, *, on: str, progress: Callable[[int, int], None] = lambda done, of: None
) -> HeadLosses:
    """The loss of the evaluator's texts without each head in turn, against that with all."""
    names = heads_in(evaluator.model)
    usual = document_losses(evaluator)
    losses = []
    for done, name in enumerate(names):
        progress(done, len(names))
        with patch(evaluator.model, {name.place: 0}):
            without = document_losses(evaluator)
        losses.append(HeadLoss(name, _interval(without, usual)))
    texts = int((usual.targets > 0).sum())
    return HeadLosses(losses, loss_interval(usual), texts, int(usual.targets.sum()), on)


def _interval(without: DocumentLosses, usual: DocumentLosses) -> Estimate:
    change = DocumentLosses(without.nats - usual.nats, usual.targets, usual.bytes)
    return loss_interval(change, level=LEVEL)


def _change(head: HeadLoss) -> Number:
    return Number(head.change.value, head.change.low, head.change.high, form="signed")


def _side(head: HeadLoss) -> int:
    return int(head.change.low > 0) - int(head.change.high < 0)


# ---------------------------------------------------------------- does a head's picture predict it?
PREDICTORS = {
    "entropy": "mean entropy of its weights, nats",
    "distance": "mean distance from query to key, tokens, by weight",
    "value_norm": "mean length of its values",
}
"""What is read off a head without removing it."""


@dataclass(frozen=True)
class HeadPicture:
    """Means over texts of what a head's weights and values look like."""

    entropy: float
    distance: float
    value_norm: float


def head_pictures(model: Model, rows: Iterable[RowOfText]) -> dict[HeadName, HeadPicture]:
    """Every head of self-attention of a model of one stack, over rows of text."""
    sums: dict[HeadName, list[np.ndarray[tuple[int], np.dtype[np.float64]]]] = {}
    for row in rows:
        places = "layers.*.attention.weights", "layers.*.attention.values"
        with undisturbed(model), capture(model, *places) as seen:
            model(**row.inputs, objective=hidden_states)
        for place in [name for name in seen if name.endswith("weights")]:
            weights = seen[place][0].double().cpu()
            values = spread(seen[place.replace("weights", "values")], len(weights))[0].double().cpu()
            columns = torch.stack([entropy(weights), distance(weights), values.norm(dim=-1).mean(-1)], 1)
            for number, numbers in enumerate(columns.numpy()):
                name = HeadName(place.replace("attention.weights", "heads"), number)
                sums.setdefault(name, []).append(numbers)
    return {name: HeadPicture(*map(float, np.mean(numbers, 0))) for name, numbers in sums.items()}


def rank_correlations(
    pictures: Mapping[HeadName, HeadPicture], losses: Sequence[HeadLoss]
) -> dict[str, float]:
    """Spearman's correlation over heads of each number of the picture with the change of loss without it."""
    heads = [head for head in losses if head.name in pictures]
    worth = [head.change.value for head in heads]
    correlations = {}
    for name in PREDICTORS:
        seen = [getattr(pictures[head.name], name) for head in heads]
        if len(set(seen)) > 1 and len(set(worth)) > 1:
            correlations[name] = float(stats.spearmanr(seen, worth).statistic)
    return correlations
