"""What decoding remembers: the coordinates of past tokens, and one memory a layer."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from attnlab.model.tokens import Tokens


class LayerMemory:
    """What one layer keeps of the past."""

    def select(self, rows: Tensor) -> None:
        """Keep these rows of the batch, in this order: a beam's survivors."""
        raise NotImplementedError


class KeyValues(LayerMemory):
    """Keys and values of the last tokens, in a buffer that doubles when it is full."""

    def __init__(self, keep: float = math.inf):
        self.keep = keep
        self.start = self.stop = 0
        self.buffer: Tensor | None = None  # (2, B, H, room, K)

    def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Remember new keys and values; gives all that the new queries may need."""
        if torch.is_grad_enabled() and k.requires_grad:
            raise ValueError("A cache cannot be differentiated, being written in place: use torch.no_grad().")
        new = k.shape[2]
        buffer = self._room(k, new)
        buffer[0, :, :, self.stop : self.stop + new] = k
        buffer[1, :, :, self.stop : self.stop + new] = v
        held = slice(self.start, self.stop + new)
        self.stop += new
        self.start = max(self.start, self.stop - int(min(self.keep, self.stop)))
        return buffer[0, :, :, held], buffer[1, :, :, held]

    def _room(self, like: Tensor, new: int) -> Tensor:
        if self.buffer is not None and self.stop + new <= self.buffer.shape[3]:
            return self.buffer
        held = self.stop - self.start
        B, H, _, K = like.shape
        buffer = like.new_empty(2, B, H, max(2 * (held + new), 16), K)
        if self.buffer is not None:
            buffer[:, :, :, :held] = self.buffer[:, :, :, self.start : self.stop]
        self.buffer, self.start, self.stop = buffer, 0, held
        return buffer

    def select(self, rows: Tensor) -> None:
        if self.buffer is not None:
            self.buffer = self.buffer[:, rows]


class Cache:
    """A stack's memory: the tokens that are held, each layer's part of them, and the encoder's keys.

    `virtual` tokens of an adapter are held before the text; where the text goes on is said without them.
    """

    def __init__(self, layers: Sequence[LayerMemory], keep: float = math.inf, virtual: int = 0):
        self.layers, self.keep, self.virtual = list(layers), keep, virtual
        self.tokens: Tokens | None = None
        self.source_tokens: Tokens | None = None
        self.sources: list[tuple[Tensor, Tensor] | None] = [None] * len(self.layers)

    def extend(self, tokens: Tokens) -> Tokens:
        """Remember where new tokens stand; gives the coordinates of all that can still be seen."""
        if tokens.document is not None:
            raise ValueError("A cache cannot hold packed documents: decode them as rows of their own.")
        if tokens.real is not None and not bool(tokens.real[:, -1].all()):
            raise ValueError("A cache needs the last token of every row to be real: pad prompts on the left.")
        keys = tokens if self.tokens is None else self.tokens.join(tokens)
        self.tokens = keys if self.keep >= keys.length else keys.last(int(self.keep))
        return keys

    def following(self, count: int) -> Tokens:
        """The coordinates of the next `count` tokens."""
        if self.tokens is None:
            raise ValueError("The cache is empty; give the first tokens' coordinates with Tokens.of.")
        return self.tokens.following(count).shifted(-self.virtual)

    def select(self, rows: Tensor) -> None:
        """Keep these rows of the batch, in this order."""
        for layer in self.layers:
            layer.select(rows)
        self.tokens = None if self.tokens is None else self.tokens.select(rows)
        self.source_tokens = None if self.source_tokens is None else self.source_tokens.select(rows)
        self.sources = [s and (s[0][rows], s[1][rows]) for s in self.sources]
