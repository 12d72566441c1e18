"""Trained tokens before every row that are no text: the slot that prompt and prefix adapters fill."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from attnlab.config.memory import refuse_beyond_memory
from attnlab.model.tokens import Tokens


class Virtual(nn.Module):
    """`count` tokens before the text of a stack, at its positions 0 … count − 1."""

    joins = False
    """Whether tokens of the text reach each other through them that do not otherwise."""

    def __init__(self, count: int):
        super().__init__()
        if count < 1:
            raise ValueError(f"tokens is {count}; there must be at least 1 before the text.")
        self.count = count
        self.reach = math.inf  # how far back a query of this stack sees, by places in the row

    def refuse_many(self, size: int) -> None:
        """Stop before tokens of so many numbers each are made that do not fit into memory."""
        refuse_beyond_memory(self.count * size, f"An adapter of {self.count:,} tokens", "lower its tokens")

    def placed(self, text: Tokens) -> tuple[Tokens, Tokens]:
        """Queries and keys, for a text that was moved on by `count`."""
        raise NotImplementedError

    def embedded(self, x: Tensor, types: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """The words' vectors (B,T,·) and types with what stands before them."""
        return x, types

    def sources(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """A layer's keys and values (B,H',T,K) with what stands before them."""
        return k, v

    def _row(self, text: Tokens) -> Tokens:
        """The virtual tokens and then the text: real, and in the source where a mask asks for one."""
        if text.document is not None:
            raise ValueError(
                "Virtual tokens stand before one text, and packed documents are several in a row; "
                "batch them as rows of their own (padded or bucketed)."
            )
        if text.group is not None:
            raise ValueError(
                "Virtual tokens are of no modality, so given group ids do not say who sees them; "
                "use group(by=position), or an adapter inside the weights (lora, bitfit)."
            )
        if self.reach < math.inf and text.real is not None and not bool(text.real[:, 0].all()):
            raise ValueError(
                f"This model sees {self.reach} tokens back, and padding between virtual tokens and the text "
                "would push them out of reach; pad on the right, or give texts of one length."
            )
        index = torch.arange(self.count, device=text.index.device)[None]
        source = None if text.source is None else torch.ones_like(index, dtype=torch.bool)
        before = Tokens(index, index, source=source, span=range(self.count), bound=self.count)
        return before.join(text)
