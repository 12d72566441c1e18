"""What heads are worth: the output without each of them. A head is removed by setting what it reads to 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnlab.model.capture import patch
from attnlab.model.heads.head import Head
from attnlab.model.isolation import undisturbed
from attnlab.model.model import Model
from attnlab.model.tokens import Tokens

DIVERGENCE = (
    "KL divergence of the predicted words without the head from those with it, nats, mean over the text"
)
RELATIVE = "length of the change of the output without the head, as a share of the output's own length"


@dataclass(frozen=True)
class HeadName:
    """A head by the place of its layer's heads (`layers.3.heads`) and its number."""

    heads: str
    number: int

    @property
    def place(self) -> str:
        return f"{self.heads}.{self.number}"

    @property
    def layer(self) -> str:
        """Its layer in words: "layer 3", "decoder layer 1", "cross-attention layer 1"."""
        *side, _, number, _ = self.heads.split(".")
        return " ".join([*(["cross-attention"] if self.crosses else side), "layer", number])

    @property
    def crosses(self) -> bool:
        """Whether it looks from a target at its source."""
        return self.heads.rpartition(".")[2].startswith("cross")

    def __str__(self) -> str:
        return f"{self.layer}, head {self.number}"


def effect_definition(model: Model) -> str:
    """What `effects` are for this model."""
    return DIVERGENCE if model.head.scores_words else RELATIVE


def effects(model: Model, inputs: Mapping[str, Any], layers: Mapping[str, int]) -> dict[HeadName, float]:
    """How far the output on one row moves without each head of each layer.

    `layers` has the number of heads at each place of heads (`layers.0.heads`). All heads of a layer are
    removed in one forward, each in a row of its own.
    """
    changes: dict[HeadName, float] = {}
    with undisturbed(model):
        usual = _outputs(model, inputs, 1)[0]
        for place, heads in layers.items():
            with patch(model, {place: _without_own}):
                without = _outputs(model, inputs, heads)
            for head, output in enumerate(without):
                changes[HeadName(place, head)] = moved(model, usual, output)
    return changes


def outputs_without(
    model: Model, inputs: Mapping[str, Any], heads: Sequence[HeadName]
) -> tuple[Tensor, Tensor]:
    """The head's scores on one row, with all heads and without these."""
    with undisturbed(model):
        usual = _outputs(model, inputs, 1)[0]
        with patch(model, {head.place: 0 for head in heads}):
            return usual, _outputs(model, inputs, 1)[0]


def divergences(usual: Tensor, other: Tensor) -> Tensor:
    """(T) KL divergence of words predicted by other scores (T,V) from those by the usual ones, nats."""
    old, new = usual.double().log_softmax(-1), other.double().log_softmax(-1)
    return (old.exp() * (old - new)).sum(-1)


def _without_own(read: Tensor) -> Tensor:
    """Row n (H,H,T,K) without head n."""
    return read * (1 - torch.eye(len(read)).to(read))[:, :, None, None]


def _outputs(model: Model, inputs: Mapping[str, Any], rows: int) -> list[Tensor]:
    """The head's scores, row by row, so that only one row of them is held at a time of a large vocabulary."""
    scores: list[Tensor] = model(**repeated_row(inputs, rows), objective=row_by_row)
    return scores


def repeated_row(inputs: Mapping[str, Any], rows: int) -> dict[str, Any]:
    """The inputs of one row so many times, which is what each copy is changed in by itself."""
    given: dict[str, Any] = {
        name: value.expand(rows, *value.shape[1:]) if isinstance(value, Tensor) else value
        for name, value in inputs.items()
    }
    ids = given["ids"]
    return given | {"tokens": given.get("tokens") or Tokens.of(ids.shape[1], device=ids.device)}


def row_by_row(head: Head, hidden: Tensor, tokens: Tokens, *, training: bool) -> list[Tensor]:
    return [head(hidden[row : row + 1], tokens)[0] for row in range(len(hidden))]


def moved(model: Model, usual: Tensor, without: Tensor) -> float:
    """How far an output is from the usual one, as `effect_definition` says."""
    if model.head.scores_words:
        return float(divergences(usual, without).mean())
    usual, without = usual.double(), without.double()
    return float((without - usual).norm() / usual.norm().clamp(min=1e-30))
