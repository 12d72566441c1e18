"""A fixed penalty on distance."""

from __future__ import annotations

import torch
from torch import Tensor

from attnlab.model.pairs import BiasOf
from attnlab.model.positions.position import Position
from attnlab.model.tokens import Tokens


class Alibi(Position):
    """ALiBi: far tokens are penalised in proportion to their distance, each head at its own rate.

    Formula: score(i, j) − m_h·|i − j|, with m_h = 2^(−8h/H) for h = 1 … H.

    Cost: no parameters; any length.

    When it helps: text longer than what the model was trained on.

    Paper: Press et al. 2021, "Train Short, Test Long".
    """

    gives_bias = True

    def __init__(self, heads: int):
        super().__init__()
        self.heads = heads

    def bias(self, layer: int) -> BiasOf:
        return self._bias

    def _bias(self, queries: Tokens, keys: Tokens) -> Tensor:
        head = torch.arange(1, self.heads + 1, device=queries.position.device)
        rate = torch.exp2(-8.0 * head / self.heads).to(torch.get_default_dtype())
        distance = (keys.position[:, None, None, :] - queries.position[:, None, :, None]).abs()
        return -rate[:, None, None] * distance
