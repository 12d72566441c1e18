"""A masked token keeps its position: masking that too makes every masked output the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnlab.config.values import ConfigError
from attnlab.documents.nodes import Grid, Grids, Node, Table
from attnlab.documents.numbers import short
from attnlab.explain.explanation import Explanation
from attnlab.model.isolation import undisturbed
from attnlab.model.model import Model, hidden_states
from attnlab.model.tokens import Tokens

SAME = 1e-4
"""Of an output's own length: outputs nearer than that are taken to be the same."""


@dataclass(frozen=True)
class MaskedPositions(Explanation):
    """Distances between the outputs at masked tokens: as they are, and with one position for all of them."""

    words: Sequence[str]
    masked: Sequence[int]
    kept: Tensor
    """(n,n) between outputs whose tokens keep their positions, as a share of an output's length."""
    hidden: Tensor
    """The same with the position masked too."""

    kind = "masked positions"

    @property
    def identical(self) -> bool:
        return float(self.hidden.max()) < SAME

    @property
    def headline(self) -> str:
        return (
            f"The token is hidden, its position is not: outputs at the {len(self.masked)} masked tokens "
            f"differ by up to {short(float(self.kept.max()))} of their length."
        )

    @property
    def remark(self) -> str:
        after = "become identical" if self.identical else "still differ"
        largest = short(float(self.hidden.max()))
        return f"With the position masked too they {after} (largest difference {largest})."

    def parts(self) -> list[Node]:
        names = [f"{place} {self.words[place]}" for place in self.masked]
        return [
            Grids(
                [
                    Grid(names, names, self.kept.tolist(), title="Positions kept"),
                    Grid(names, names, self.hidden.tolist(), title="Positions masked too"),
                ],
                title="Distance between the outputs at masked tokens",
            ),
            Table(
                ("", "largest", "mean"),
                [
                    ["positions kept", float(self.kept.max()), _mean(self.kept)],
                    ["positions masked too", float(self.hidden.max()), _mean(self.hidden)],
                ],
                title="Largest distance",
                note="‖h_i − h_j‖ over the mean ‖h‖ of the trunk's outputs at masked tokens; means over "
                "pairs. All masked tokens are given the position of the first of them.",
            ),
        ]

    def as_json(self) -> dict[str, Any]:
        return {
            "words": list(self.words),
            "masked": list(self.masked),
            "identical": self.identical,
            "positions_kept": self.kept.tolist(),
            "positions_masked": self.hidden.tolist(),
        }


def _mean(distances: Tensor) -> float:
    n = len(distances)
    return float(distances.sum() / (n * (n - 1)))


def masked_positions(
    model: Model, ids: Tensor, masked: Sequence[int], words: Sequence[str]
) -> MaskedPositions:
    """On one row, ids (T), whose masked tokens stand at these places."""
    if len(masked) < 2:
        raise ConfigError("Two masked tokens at least are needed to compare; write [MASK] twice in --text.")
    if model.trunk.sees != "all":
        raise ConfigError(
            "This model sees only what stands before a token, so its masked outputs differ by that; use a "
            "model that sees the whole text (an encoder)."
        )
    places = torch.arange(len(ids))[None].clone()
    kept = _distances(model, ids, masked, places)
    places[0, list(masked)] = masked[0]
    return MaskedPositions(words, list(masked), kept, _distances(model, ids, masked, places))


def _distances(model: Model, ids: Tensor, masked: Sequence[int], position: Tensor) -> Tensor:
    source = torch.ones(1, len(ids), dtype=torch.bool) if model.trunk.asks_for_source else None
    with undisturbed(model):
        tokens = Tokens.of(len(ids), position=position, source=source)
        hidden: Tensor = model(ids[None], tokens, places=(0, list(masked)), objective=hidden_states)
    return (
        torch.cdist(
            hidden[None].double(), hidden[None].double(), compute_mode="donot_use_mm_for_euclid_dist"
        )[0]
        / hidden.double().norm(dim=-1).mean()
    )
