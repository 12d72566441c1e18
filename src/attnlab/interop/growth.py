"""More words or positions than a model was trained with: its tables with rows added or taken away."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from attnlab.config.streams import stream_seed
from attnlab.interop.fields import Settings

NOISE = 0.01
"""Of the rows' own spread: enough that new rows differ, too little to be heard."""


def with_words(table: Tensor, rows: int, *, seed: int) -> Tensor:
    """A table or bias with this many rows; new ones begin as the mean of the old, and a little noise.

    So a new word is at first as likely as words are on average, and disturbs nothing (Hewitt 2021,
    "Initializing New Word Embeddings for Pretrained Language Models").
    """
    if rows <= len(table):
        return table[:rows]
    drawn = torch.Generator().manual_seed(stream_seed(seed, "growth"))
    noise = torch.randn((rows - len(table), *table.shape[1:]), generator=drawn).to(table.dtype)
    new = table.mean(0, keepdim=True) + NOISE * table.std(0, keepdim=True) * noise
    return torch.cat([table, new])


def with_positions(table: Tensor, length: int, *, offset: int) -> Tensor:
    """A table of positions for this length; beyond its end it is repeated from its start.

    So a new position begins as one that attention knows: neighbours stay neighbours (Beltagy et al.
    2020, "Longformer"). The first `offset` rows, which stand for no position, stay.
    """
    apart, known = table[:offset], table[offset:]
    repeats = -(-length // len(known))
    return torch.cat([apart, known.repeat(repeats, 1)[:length]])


@torch.no_grad()
def resized(weights: Mapping[str, Tensor], settings: Settings, *, seed: int) -> dict[str, Tensor]:
    """Every weight, with the tables of words and of learned positions in the sizes of these settings."""
    found = dict(weights)
    learned = settings["positions"]["kind"] == "learned"
    for name, weight in weights.items():
        if name.endswith(".embedding.tokens.weight") or name in ("head.table.weight", "head.bias"):
            # one stream for all: tables that are tied stay so
            found[name] = with_words(weight, settings["vocabulary"], seed=seed)
        elif learned and name.endswith(".embedding.positions.table.weight"):
            found[name] = with_positions(weight, settings["length"], offset=settings["positions"]["offset"])
    return found
