"""What a model can tell apart at best: by its masks and positions, whatever its weights."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import torch
from torch import Tensor

from attnlab.model.model import Model
from attnlab.tasks.task import Prepared


def contexts(model: Model, prepared: Prepared, places: Sequence[Sequence[int]]) -> list[Hashable]:
    """The context of each (row, place): equal for two places that no weights can tell apart."""
    found = {row: contexts_of_row(model, prepared, row) for row in {row for row, _ in places}}
    return [found[row][place] for row, place in places]


def contexts_of_row(model: Model, prepared: Prepared, row: int) -> list[Hashable]:
    which = torch.tensor([row])
    source_tokens = prepared.source_tokens
    return model.trunk.contexts(
        told_apart(prepared)[row],
        prepared.tokens.select(which),
        types=None if prepared.types is None else prepared.types[row],
        source=None if prepared.source is None else prepared.source[row],
        source_tokens=None if source_tokens is None else source_tokens.select(which),
    )


def told_apart(prepared: Prepared) -> Tensor:
    """(B,T) a number for each token, equal for equal ids with equal vectors; the ids, without vectors."""
    if prepared.vectors is None:
        return prepared.ids
    both = torch.cat([prepared.ids[..., None].to(prepared.vectors), prepared.vectors], -1)
    numbers: Tensor = both.flatten(0, 1).unique(dim=0, return_inverse=True)[1]
    return numbers.view(prepared.ids.shape)
