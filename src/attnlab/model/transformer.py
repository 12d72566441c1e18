"""The one trunk: an encoder, a decoder, or both. Families differ in their parts, not in this code."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from attnlab.config.values import ConfigError
from attnlab.model import stack_counts
from attnlab.model.attention.rule import Rule
from attnlab.model.blocks import Attention, Block, Residual, Scope, SelfAttention
from attnlab.model.cache import Cache, coordinates
from attnlab.model.colours import Colours, embedded, refined
from attnlab.model.dropout import Dropout
from attnlab.model.masks import Mask, asks_for_source, backward_looking, incremental
from attnlab.model.pairs import BiasOf, Pairs
from attnlab.model.positions.position import Position
from attnlab.model.projections import Projections
from attnlab.model.reach import declared, joined, square
from attnlab.model.terms import Term
from attnlab.model.tokens import Tokens
from attnlab.model.trunk import Sees, Trunk, Way
from attnlab.model.virtual import Virtual


class Embedding(nn.Module):
    """Token ids to vectors: words, token types, positions, and a norm where a family has one."""

    def __init__(
        self,
        tokens: nn.Embedding,
        positions: Position,
        *,
        types: nn.Embedding | None = None,
        norm: nn.Module | None = None,
        scale: float = 1.0,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.tokens, self.positions, self.types = tokens, positions, types
        self.norm = nn.Identity() if norm is None else norm
        self.scale, self.dropout = scale, Dropout(dropout)

    def forward(
        self, ids: Tensor, tokens: Tokens, types: Tensor | None = None, virtual: Virtual | None = None
    ) -> Tensor:
        """ids (B,T) -> (B,T,D), with virtual tokens before them where there are any; types default to 0."""
        x = self.tokens(ids)
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
        virtual.reach = min(self.mask.horizon, *(rule.layout.horizon for rule in self.rules()))
        self.virtual = virtual

    def way(self, tokens: Tokens) -> Way:
        """From one row's ids to this stack's output."""
        layers = declared(self.rules(), self.mask, tokens)
        return Way(torch.stack(layers).any(0), joined(layers))

    def row(self, text: Tokens) -> Tokens:
        """The coordinates of this stack's output for a whole text."""
        return text if self.virtual is None else self.virtual.placed(text.shifted(self.virtual.count))[0]

    def forward(
        self,
        ids: Tensor,
        tokens: Tokens,
        *,
        types: Tensor | None = None,
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
        x = self.embedding(ids, tokens, types, virtual)
        rotation = self.positions.rotation(tokens)
        pairs = self._pairs(Pairs(tokens, keys, self.mask))
        cross = None if source_tokens is None else Pairs(tokens, source_tokens)
        for layer, block in enumerate(self.blocks):
            memory = None if cache is None else cache.layers[layer]

            def sources(projections: Projections, layer: int = layer) -> tuple[Tensor, Tensor]:
                return _sources(projections, encoded, cache, layer)

            before = None if virtual is None else partial(virtual.sources, layer)
            x = block(x, Scope(pairs[layer], rotation, memory, cross, sources, before))
        return self.final(x)

    def _pairs(self, plain: Pairs) -> list[Pairs]:
        """Each layer's pairs: mask and bias are computed once, however many layers share them."""
        biases = [self.positions.bias(layer) for layer in range(len(self.blocks))]
        shared: dict[BiasOf | None, Pairs] = {None: plain}
        for bias in biases:
            if bias is not None and bias not in shared:
                shared[bias] = plain.with_bias(bias)
        return [shared[bias] for bias in biases]


def _sources(
    projections: Projections, encoded: Tensor | None, cache: Cache | None, layer: int
) -> tuple[Tensor, Tensor]:
    """A cross-attention's keys and values, which a cache computes once."""
    held = None if cache is None else cache.sources[layer]
    if held is not None:
        return held
    if encoded is None:
        raise ValueError("This decoder attends to a source: give `source`, or what `encode` made of it.")
    made = projections.sources(encoded)
    if cache is not None:
        cache.sources[layer] = made
    return made


class Transformer(nn.Module):
    """A trunk (see Trunk): an encoder, a decoder, or an encoder whose output the decoder attends to."""

    def __init__(self, *, encoder: Stack | None = None, decoder: Stack | None = None):
        super().__init__()
        if encoder is None and decoder is None:
            raise ValueError("A transformer needs an encoder, a decoder, or both.")
        self.encoder, self.decoder = encoder, decoder

    @property
    def main(self) -> Stack:
        """The stack whose output a head sees."""
        stack = self.encoder if self.decoder is None else self.decoder
        assert stack is not None
        return stack

    def stacks(self) -> dict[str, Stack]:
        named = {"encoder": self.encoder, "decoder": self.decoder}
        return {name: stack for name, stack in named.items() if stack is not None}

    @property
    def width(self) -> int:
        return self.main.width

    @property
    def layers(self) -> int:
        """Of each stack."""
        return len(self.main.blocks)

    @property
    def embedding_scale(self) -> float:
        """What the words' vectors are multiplied with."""
        return self.main.embedding.scale

    @property
    def longest(self) -> float:
        return min(getattr(stack.positions, "length", math.inf) for stack in self.stacks().values())

    @property
    def sees(self) -> Sees:
        if not incremental(self.main.mask):
            return "all"
        return "before" if backward_looking(self.main.mask) and not self.reads_source else "source and before"

    @property
    def reads_source(self) -> bool:
        return self.encoder is not None and self.decoder is not None

    @property
    def asks_for_source(self) -> bool:
        return asks_for_source(self.main.mask)

    @property
    def writes(self) -> bool:
        return self.decoder is not None and self.sees != "all"

    def entrances(self) -> list[nn.Module]:
        return [stack.embedding for stack in reversed(self.stacks().values())]

    def tables(self) -> list[nn.Embedding]:
        return [stack.embedding.tokens for stack in reversed(self.stacks().values())]

    def attentions(self) -> dict[str, Attention]:
        return {
            f"{name}, layer {number}": attention
            for name, stack in self.stacks().items()
            for number, attention in enumerate(stack.attentions())
        }

    def ways(self, tokens: Tokens, source_tokens: Tokens | None = None) -> list[Way]:
        own = self.main.way(tokens)
        if source_tokens is None or self.encoder is None or self.decoder is None:
            return [own]
        inside, crossed = self.encoder.way(source_tokens), square(Pairs(tokens, source_tokens))
        reach = (own.reach.float() @ crossed.float() @ inside.reach.float()) > 0
        return [own, Way(crossed, reach)]

    def contexts(
        self,
        ids: Tensor,
        tokens: Tokens,
        types: Tensor | None = None,
        source: Tensor | None = None,
        source_tokens: Tokens | None = None,
    ) -> list[Hashable]:
        read: Colours = []
        if source is not None and source_tokens is not None and self.encoder is not None:
            first = embedded(self.encoder.positions, source, source_tokens)
            inside = refined(self.encoder, first, source_tokens)
            seen = square(Pairs(tokens.part(0, 1), source_tokens))[0]
            read = [inside[place] for place in seen.nonzero()[:, 0].tolist()]
        first = embedded(self.main.positions, ids, tokens, types)
        return refined(self.main, first, tokens, read)

    def parameter_terms(self) -> list[Term]:
        return stack_counts.parameter_terms(self.stacks())

    def flop_terms(self, length: int, source_length: int) -> list[Term]:
        return stack_counts.flop_terms(self.stacks(), length, source_length)

    def activation_terms(self, length: int, source_length: int) -> list[Term]:
        return stack_counts.activation_terms(self.stacks(), length, source_length)

    def cache(self) -> Cache:
        """An empty memory for decoding."""
        if self.decoder is None:
            raise ValueError("An encoder sees its whole text at once: there is nothing to cache.")
        return self.decoder.cache()

    def encode(self, source: Tensor, tokens: Tokens, types: Tensor | None = None) -> Tensor:
        """The encoder's output (B,S,D), that of virtual tokens before the source included."""
        if self.encoder is None:
            raise ValueError("A decoder alone has no encoder: give its text as `ids`.")
        return self.encoder(source, tokens, types=types)

    def forward(
        self,
        ids: Tensor,
        tokens: Tokens | None = None,
        *,
        types: Tensor | None = None,
        source: Tensor | None = None,
        source_tokens: Tokens | None = None,
        source_types: Tensor | None = None,
        encoded: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """ids (B,T) -> (B,T,D). Without `tokens`, the ids are a row from its start, or go on with the cache.

        With both stacks, `source` (B,S) is encoded, unless `encoded` is given or the cache holds it.
        """
        if tokens is None:
            tokens = coordinates(ids, cache)
        if self.encoder is None or self.decoder is None:
            if source is not None or encoded is not None:
                raise ValueError("Only an encoder-decoder takes a source; this model has one stack.")
            return _text(self.main(ids, tokens, types=types, cache=cache), ids)
        if cache is not None and cache.source_tokens is not None:
            hidden = self.decoder(ids, tokens, types=types, cache=cache, source_tokens=cache.source_tokens)
            return _text(hidden, ids)
        given = source if encoded is None else encoded
        if given is None:
            raise ValueError("An encoder-decoder needs a source: give `source`, or `encoded`.")
        if source_tokens is None:
            source_tokens = Tokens.of(given.shape[1], device=ids.device)
        if encoded is None:
            encoded = self.encode(given, source_tokens, source_types)
        source_tokens = self.encoder.row(source_tokens)
        if cache is not None:
            cache.source_tokens = source_tokens
        hidden = self.decoder(
            ids, tokens, types=types, cache=cache, encoded=encoded, source_tokens=source_tokens
        )
        return _text(hidden, ids)


def transformer_of(trunk: Trunk) -> Transformer:
    """A trunk whose layers others look into or add to, as adapters and other projects' files do."""
    if not isinstance(trunk, Transformer):
        raise ConfigError(f"This is for transformers, and the model's trunk is a {type(trunk).__name__}.")
    return trunk


def _text(hidden: Tensor, ids: Tensor) -> Tensor:
    """The output at the text, less that of virtual tokens before it."""
    return hidden if hidden.shape[1] == ids.shape[1] else hidden[:, -ids.shape[1] :]
