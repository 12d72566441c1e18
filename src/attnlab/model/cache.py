"""What decoding remembers: the coordinates of past tokens, and one memory a layer."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from attnlab.model.tokens import Tokens


class LayerMemory:
    """What one layer keeps of the past.

    `history` holds every key, value and coordinate too, where someone looks at the weights of a rule
    that needs none of them (see `remember`).
    """

    history: tuple[KeyValues, Tokens] | None = None

    def remember(self, k: Tensor, v: Tensor, tokens: Tokens) -> tuple[Tensor, Tensor, Tokens]:
        """Add to the history; gives all of it."""
        memory, past = (KeyValues(), None) if self.history is None else self.history
        tokens = tokens if past is None else past.join(tokens)
        self.history = memory, tokens
        return *memory.extend(k.detach(), v.detach()), tokens

    def select(self, rows: Tensor) -> None:
        """Keep these rows of the batch, in this order: a beam's survivors."""
        raise NotImplementedError


class KeyValues(LayerMemory):
    """Keys and values of the last tokens, in a buffer that doubles when it is full."""

    def __init__(self, keep: float = math.inf):
        self.keep = keep
        self.start = self.stop = 0
        self.keys: Tensor | None = None  # (B, H, room, K)
        self.values: Tensor | None = None

    def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Remember new keys and values; gives all that the new queries may need."""
        if torch.is_grad_enabled() and k.requires_grad:
            raise ValueError("A cache cannot be differentiated, being written in place: use torch.no_grad().")
        new = k.shape[2]
        keys, values = self._room(self.keys, k), self._room(self.values, v)
        if keys is not self.keys:
            self.keys, self.values, self.start, self.stop = keys, values, 0, self.stop - self.start
        keys.narrow(2, self.stop, new).copy_(k)
        values.narrow(2, self.stop, new).copy_(v)
        start = self.start
        self.stop += new
        self.start = max(start, self.stop - int(min(self.keep, self.stop)))
        return keys[:, :, start : self.stop], values[:, :, start : self.stop]

    def _room(self, buffer: Tensor | None, new: Tensor) -> Tensor:
        """The buffer, or a larger one with what is held at its start."""
        B, H, count, K = new.shape
        if buffer is not None and self.stop + count <= buffer.shape[2]:
            return buffer
        length = self.stop - self.start
        larger = new.new_empty(B, H, max(2 * (length + count), 16), K)
        if buffer is not None:
            larger[:, :, :length] = buffer[:, :, self.start : self.stop]
        return larger

    def _taken(self, buffer: Tensor, rows: Tensor) -> Tensor:
        """These rows of what is held, in a buffer with as much room."""
        held = buffer[:, :, self.start : self.stop]
        taken = buffer.new_empty(len(rows), *buffer.shape[1:])
        torch.index_select(held, 0, rows, out=taken[:, :, : held.shape[2]])
        return taken

    def select(self, rows: Tensor) -> None:
        if self.keys is None or self.values is None:
            return
        moved = moved_rows(rows, len(self.keys))
        if moved is None:
            self.keys, self.values = self._taken(self.keys, rows), self._taken(self.values, rows)
            self.start, self.stop = 0, self.stop - self.start
            return
        if len(moved):
            kept = rows[moved]
            for buffer in (self.keys, self.values):
                held = buffer[:, :, self.start : self.stop]  # not the room behind it
                held.index_copy_(0, moved, held.index_select(0, kept))


def moved_rows(rows: Tensor, count: int) -> Tensor | None:
    """Which of a batch's rows become others, where most stay where they are, as those of beams do; None
    where all are to be taken anew."""
    if len(rows) != count:
        return None
    moved = (rows != torch.arange(count, device=rows.device)).nonzero()[:, 0]
    return moved if 2 * len(moved) <= count else None


class Cache:
    """A stack's memory: the tokens that are held, each layer's part of them, and the encoder's keys.

    `virtual` tokens of an adapter are held before the text; where the text goes on is said without them.
    """

    def __init__(self, layers: Sequence[LayerMemory], keep: float = math.inf, virtual: int = 0):
        self.layers, self.keep, self.virtual = list(layers), keep, virtual
        self.tokens: Tokens | None = None
        self.source_tokens: Tokens | None = None
        self.sources: list[tuple[Tensor, Tensor] | None] = [None] * len(self.layers)
        self.source_of: Tensor | None = None  # (rows) which source each row reads, once rows were selected
        self.source_rows: Tensor | None = None  # which source each row of `sources` is of

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
            if layer.history is not None:
                memory, tokens = layer.history
                memory.select(rows)
                layer.history = memory, tokens.select(rows)
        self.tokens = None if self.tokens is None else self.tokens.select(rows)
        if self.source_tokens is not None:
            self._select_sources(self.source_tokens, rows)

    @property
    def beams(self) -> int:
        """How many rows, one after the other, read each source."""
        if self.source_of is None or self.source_rows is None:
            return 1
        return len(self.source_of) // len(self.source_rows)

    def _select_sources(self, tokens: Tokens, rows: Tensor) -> None:
        """The sources of these rows, each once where as many rows, one after the other, read it."""
        first = next((source for source in self.sources if source is not None), None)
        if first is None:  # a decoder that was given one vector of its source, and looks at it no more
            self.source_tokens = tokens.select(rows)
            return
        numbers = torch.arange(len(first[0]), device=rows.device)
        before = numbers if self.source_rows is None else self.source_rows
        self.source_of = (numbers if self.source_of is None else self.source_of)[rows]
        once, counts = self.source_of.unique_consecutive(return_counts=True)
        even = len(once.unique()) == len(once) and bool((counts == counts[0]).all())
        self.source_rows = once if even else self.source_of
        if self.source_rows.equal(before):
            return
        places = (self.source_rows[:, None] == before).int().argmax(1)
        self.source_tokens = tokens.select(places)
        self.sources = [
            s and (s[0].index_select(0, places), s[1].index_select(0, places)) for s in self.sources
        ]


def coordinates(ids: Tensor, cache: Cache | None = None) -> Tokens:
    """Where ids (B,T) stand that nothing else is known of: at the start, or after what the cache holds."""
    if cache is not None and cache.tokens is not None:
        return cache.following(ids.shape[1])
    return Tokens.of(ids.shape[1], device=ids.device)
