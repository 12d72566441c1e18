"""A stack: an embedding and its blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from attnlab.model.attention.rule import Rule
from attnlab.model.blocks import Attention, Block, Residual, Scope, SelfAttention
from attnlab.model.cache import Cache
from attnlab.model.draws import Dropout
from attnlab.model.masks import Mask
from attnlab.model.pairs import BiasOf, Pairs
from attnlab.model.positions.position import Position
from attnlab.model.projections import Projections
from attnlab.model.reach import combined_reach, declared
from attnlab.model.tokens import Tokens
from attnlab.model.trunks.trunk import Way
from attnlab.model.virtual import Virtual


class Embedding(nn.Module):
    """Token ids to vectors: words, token types, positions, and a norm where a family has one."""

    def __init__(
        self,
        tokens: nn.Embedding,
        positions: Position,
        *,
        types: nn.Embedding | None = None,
        vectors: nn.Linear | None = None,
        norm: nn.Module | None = None,
        scale: float = 1.0,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.tokens, self.positions, self.types, self.vectors = tokens, positions, types, vectors
        self.norm = nn.Identity() if norm is None else norm
        self.scale, self.dropout = scale, Dropout(dropout)

    def forward(
        self,
        ids: Tensor,
        tokens: Tokens,
        types: Tensor | None = None,
        virtual: Virtual | None = None,
        vectors: Tensor | None = None,
    ) -> Tensor:
        """ids (B,T) -> (B,T,D), with virtual tokens before them where there are any; types default to 0.

        `vectors` (B,T,W), such as patches of an image, are added to those of the ids; a bias of their map
        to patches alone, where `tokens` say which these are.
        """
        x = self.tokens(ids)
        if vectors is not None:
            if self.vectors is None:
                raise ValueError("This model reads no vectors; build it with vectors, or give none.")
            read = self.vectors(vectors.to(x))
            if tokens.patch is not None:  # the map's bias is of patches alone: words are written without it
                nothing = self.vectors(x.new_zeros(1, 1, vectors.shape[-1]))
                read = read - nothing * (tokens.patch[:, -ids.shape[1] :, None] == 0)
            x = x + read / self.scale  # as large as words are after it
        if virtual is not None:
            x, types = virtual.embedded(x, types)
        if self.types is not None:
            x = x + self.types(ids.new_zeros(x.shape[:2]) if types is None else types)
        elif types is not None:
            raise ValueError("This model has no token types; build it with token_types, or give none.")
        x = x * self.scale
        return self.dropout(self.norm(self.positions(x, tokens)))


class Stack(nn.Module):
    """An embedding and its blocks."""

    def __init__(self, embedding: Embedding, blocks: Sequence[Block], final: nn.Module, mask: Mask):
        super().__init__()
        self.embedding, self.blocks, self.final, self.mask = embedding, nn.ModuleList(blocks), final, mask
        self.virtual: Virtual | None = None  # what an adapter puts before every row

    @property
    def positions(self) -> Position:
        return self.embedding.positions

    @property
    def width(self) -> int:
        return self.embedding.tokens.embedding_dim + self.positions.narrows

    def parts(self) -> Iterator[Residual]:
        """Every residual of every block."""
        for block in self.blocks:
            assert isinstance(block, Block)
            for residual in block.residuals:
                assert isinstance(residual, Residual)
                yield residual

    def rules(self) -> list[Rule]:
        """The self-attention rule of each layer."""
        return [part.inner.rule for part in self.parts() if isinstance(part.inner, SelfAttention)]

    def attentions(self) -> list[Attention]:
        """Every attention, cross-attention included."""
        return [part.inner for part in self.parts() if isinstance(part.inner, Attention)]

    def cache(self) -> Cache:
        """An empty memory for decoding."""
        rules = self.rules()
        keep = max(min(rule.horizon, self.mask.horizon) for rule in rules)
        virtual = 0 if self.virtual is None else self.virtual.count
        return Cache([rule.memory(keep) for rule in rules], keep, virtual)

    def accept(self, virtual: Virtual) -> None:
        """Let virtual tokens stand before every row."""
        if self.virtual is not None and self.virtual.joins:
            raise ValueError(
                "The tokens of model.fusion's bottleneck stand before every row, and so would those of this "
                "adapter; use one inside the weights (lora, bitfit), or another fusion."
            )
        virtual.reach = min(self.mask.horizon, *(rule.layout.horizon for rule in self.rules()))
        self.virtual = virtual

    def way(self, tokens: Tokens) -> Way:
        """From one row's ids to this stack's output."""
        if self.virtual is not None and self.virtual.joins:
            count = self.virtual.count
            layers = declared(self.rules(), self.mask, self.row(tokens))
            near, reach = torch.stack(layers).any(0), combined_reach(layers)
            return Way(near[count:, count:], reach[count:, count:])
        layers = declared(self.rules(), self.mask, tokens)
        return Way(torch.stack(layers).any(0), combined_reach(layers))

    def row(self, text: Tokens) -> Tokens:
        """The coordinates of this stack's output for a whole text."""
        return text if self.virtual is None else self.virtual.placed(text.shifted(self.virtual.count))[0]

    def forward(
        self,
        ids: Tensor,
        tokens: Tokens,
        *,
        types: Tensor | None = None,
        vectors: Tensor | None = None,
        cache: Cache | None = None,
        encoded: Tensor | None = None,
        source_tokens: Tokens | None = None,
    ) -> Tensor:
        """ids (B,T) -> (B,T,D); `encoded` (B,S,D) is what cross-attention looks at.

        Virtual tokens stand before the text and move it on; the output has those that go through the blocks.
        """
        begins = cache is None or cache.tokens is None
        virtual = self.virtual if begins else None
        tokens = tokens if self.virtual is None else tokens.shifted(self.virtual.count)
        tokens, new = (tokens, tokens) if virtual is None else virtual.placed(tokens)
        keys = new if cache is None else cache.extend(new)
        x = self.embedding(ids, tokens, types, virtual, vectors)
        rotation = self.positions.rotation(tokens)
        pairs = self._pairs(Pairs(tokens, keys, self.mask))
        beams = 1 if cache is None else cache.beams
        cross = None if source_tokens is None else Pairs(tokens.as_one_row(beams), source_tokens)
        for layer, block in enumerate(self.blocks):
            memory = None if cache is None else cache.layers[layer]

            def sources(projections: Projections, layer: int = layer) -> tuple[Tensor, Tensor]:
                return cached_sources(projections, encoded, cache, layer)

            before = None if virtual is None else partial(virtual.sources, layer)
            x = block(x, Scope(pairs[layer], rotation, memory, cross, sources, before, beams))
        return self.final(x)

    def _pairs(self, plain: Pairs) -> list[Pairs]:
        """Each layer's pairs: mask and bias are computed once, however many layers share them."""
        biases = [self.positions.bias(layer) for layer in range(len(self.blocks))]
        shared: dict[BiasOf | None, Pairs] = {None: plain}
        for bias in biases:
            if bias is not None and bias not in shared:
                shared[bias] = plain.with_bias(bias)
        return [shared[bias] for bias in biases]


def cached_sources(
    projections: Projections, encoded: Tensor | None, cache: Cache | None, layer: int
) -> tuple[Tensor, Tensor]:
    """A cross-attention's keys and values, which a cache computes once."""
    cached = None if cache is None else cache.sources[layer]
    if cached is not None:
        return cached
    if encoded is None:
        raise ValueError("This decoder attends to a source: give `source`, or what `encode` made of it.")
    made = projections.sources(encoded)
    if cache is not None:
        cache.sources[layer] = made
    return made
