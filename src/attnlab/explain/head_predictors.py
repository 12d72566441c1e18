"""Does a head's picture predict what it is worth? Its weights and values in numbers, against its ablation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy import stats

from attnlab.explain.ablation import HeadName
from attnlab.explain.attention_maps import RowOfText
from attnlab.explain.head_kinds import distance, entropy
from attnlab.explain.head_losses import HeadLoss
from attnlab.model.apart import undisturbed
from attnlab.model.attention.rule import spread
from attnlab.model.capture import capture
from attnlab.model.model import Model, hidden_states

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
