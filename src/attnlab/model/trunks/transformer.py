"""The trunk of every family: an encoder, a decoder, or both. They differ in their parts, not in this code."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from functools import partial

from torch import Tensor, nn

from attnlab.config.schema import ModelSettings
from attnlab.config.values import Choice, ConfigError
from attnlab.model import stack_counts
from attnlab.model.attention import ATTENTION
from attnlab.model.attention.rule import Rule
from attnlab.model.blocks import RESIDUALS, Attention, Block, CrossAttention, PositionWise, SelfAttention
from attnlab.model.cache import Cache, coordinates
from attnlab.model.combinations import Parts, refusal
from attnlab.model.feedforward import FEEDFORWARDS
from attnlab.model.fusion import FUSIONS, BottleneckTokens, Fusion
from attnlab.model.initial import table_std
from attnlab.model.masks import MASKS, Bidirectional, Mask, asks_for_source, backward_looking, incremental
from attnlab.model.norms import NORMS
from attnlab.model.pairs import Pairs
from attnlab.model.positions import POSITIONS
from attnlab.model.positions.position import Position
from attnlab.model.products import LinearMap
from attnlab.model.projections import PROJECTIONS
from attnlab.model.reach import square
from attnlab.model.refinement import Colours, embedded, refined
from attnlab.model.stack import Embedding, Stack
from attnlab.model.terms import Term
from attnlab.model.tokens import Tokens
from attnlab.model.trunks.trunk import Sees, Trunk, Way, encoded_source


class Transformer(nn.Module):
    """Transformer: blocks of attention and feed-forward, as an encoder, a decoder, or both.

    Formula: x ← x + attention(x), x ← x + feedforward(x), layer by layer; a decoder behind an encoder also
    attends to its output. Every other setting of [model] is one of its parts.

    Paper: Vaswani et al. 2017, "Attention Is All You Need".
    """

    def __init__(self, encoder: Stack | None = None, decoder: Stack | None = None):
        super().__init__()
        if encoder is None and decoder is None:
            raise ValueError("A transformer needs an encoder, a decoder, or both.")
        self.encoder, self.decoder = encoder, decoder

    @classmethod
    def from_settings(cls, settings: ModelSettings) -> Transformer:
        """Its stacks by the settings of a model; both read with one table of tokens, unless sources have a
        vocabulary of their own."""
        mask = MASKS.build(settings.mask)
        encodes, decodes = settings.family != "decoder", settings.family != "encoder"
        encoder_mask = mask if not decodes else Bidirectional()
        encoder = stack_of(settings, encoder_mask, rows=settings.source_tokens) if encodes else None
        apart = settings.source_vocabulary != "shared"
        shared = None if encoder is None or apart else encoder.embedding.tokens
        decoder = stack_of(settings, mask, tokens=shared, cross=encodes) if decodes else None
        return cls(encoder=encoder, decoder=decoder)

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
    def last_norm(self) -> nn.Module:
        """The norm whose output is the trunk's; one without parameters where there is none."""
        ends_in_norm = isinstance(self.main.final, nn.Identity)
        return list(self.main.parts())[-1].norm if ends_in_norm else self.main.final

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

    def encode(
        self, source: Tensor, tokens: Tokens, types: Tensor | None = None, vectors: Tensor | None = None
    ) -> Tensor:
        """The encoder's output (B,S,D), that of virtual tokens before the source included."""
        if self.encoder is None:
            raise ValueError("A decoder alone has no encoder: give its text as `ids`.")
        return self.encoder(source, tokens, types=types, vectors=vectors)

    def forward(
        self,
        ids: Tensor,
        tokens: Tokens | None = None,
        *,
        types: Tensor | None = None,
        vectors: Tensor | None = None,
        source: Tensor | None = None,
        source_tokens: Tokens | None = None,
        source_types: Tensor | None = None,
        encoded: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """ids (B,T) -> (B,T,D). Without `tokens`, the ids are a row from its start, or go on with the cache.

        With both stacks, `source` (B,S) is encoded, unless `encoded` is given or the cache holds it;
        `vectors` (B,S,W) are then read beside the source.
        """
        if tokens is None:
            tokens = coordinates(ids, cache)
        if self.encoder is None or self.decoder is None:
            if source is not None or encoded is not None:
                raise ValueError("Only an encoder-decoder takes a source; this model has one stack.")
            return _text(self.main(ids, tokens, types=types, vectors=vectors, cache=cache), ids)
        if cache is not None and cache.source_tokens is not None:
            hidden = self.decoder(ids, tokens, types=types, cache=cache, source_tokens=cache.source_tokens)
            return _text(hidden, ids)
        encoded, source_tokens = encoded_source(self, source, source_tokens, source_types, encoded, vectors)
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


# ---------------------------------------------------------------- from settings
def stack_of(
    settings: ModelSettings,
    mask: Mask,
    *,
    rows: int | None = None,
    tokens: nn.Embedding | None = None,
    cross: bool = False,
) -> Stack:
    """A stack that reads with a table of `rows`, or with the `tokens` of another stack."""
    width, rows = settings.width, settings.tokens if rows is None else rows
    pictures = _patches(settings)
    fusion = FUSIONS.build(settings.fusion, depth=settings.layers, patches=pictures)
    _refuse_fusion(settings, fusion, mask)
    positions = _positions(settings, mask, fusion.tokens, grid=0 if cross else _side(settings))
    blocks = [
        _block(settings, attention, cross, partial(fusion.rule, layer))
        for layer, attention in enumerate(settings.attention_by_layer)
    ]
    for layer, block in enumerate(blocks):
        reason = _refusal(settings, mask, positions, block, cross)
        if reason is not None:
            mixed = isinstance(settings.attention, tuple)
            raise ConfigError(f"model.attention[{layer}]: {reason}" if mixed else reason)
    embedding = Embedding(
        tokens if tokens is not None else nn.Embedding(rows, width - positions.narrows),
        positions,
        types=nn.Embedding(settings.token_types, width - positions.narrows) if settings.token_types else None,
        vectors=LinearMap(settings.vector_width, width - positions.narrows)
        if settings.vector_width and not cross
        else None,
        norm=_norm(settings, width) if settings.embedding_norm else None,
        scale=_embedding_scale(settings, width - positions.narrows),
        dropout=settings.dropout,
    )
    final = RESIDUALS[settings.residual.kind].final(_norm(settings, width))
    stack = Stack(embedding, blocks, final, mask)
    if fusion.tokens:
        narrow = width - positions.narrows
        stack.accept(BottleneckTokens(fusion.tokens, narrow, table_std(narrow)))
    return stack


def _patches(settings: ModelSettings) -> int:
    return 0 if settings.picture is None else settings.picture.patches


def _side(settings: ModelSettings) -> int:
    return 0 if settings.picture is None else settings.picture.side


def _refuse_fusion(settings: ModelSettings, fusion: Fusion, mask: Mask) -> None:
    if fusion.tokens and incremental(mask):
        raise ConfigError(
            f"fusion {settings.fusion} has tokens before the row that attend to all of it, and model.mask "
            f"{settings.mask} shows no token what comes after it; use fusion early, late or never, or an "
            "encoder."
        )


def _norm(settings: ModelSettings, width: int) -> nn.Module:
    return NORMS.build(settings.norm, width=width, bias=settings.biased("norm"))


def _embedding_scale(settings: ModelSettings, width: int) -> float:
    """Of a table of this width: as large as what blocks add to it; what they drown is learned late."""
    if settings.embedding_scale == "unit":
        return 1 / table_std(width)
    return settings.width**0.5 if settings.embedding_scale == "root" else settings.embedding_scale


def _positions(settings: ModelSettings, mask: Mask, before: int, *, grid: int) -> Position:
    """The positions of a text of the model's length with so many tokens before it."""
    return POSITIONS.build(
        settings.positions,
        width=settings.width,
        heads=settings.heads,
        head_width=settings.each_head_width,
        layers=settings.layers,
        length=settings.length + before,
        scale=partial(_embedding_scale, settings),
        looks_back=backward_looking(mask),
        grid=grid,
    )


def _block(settings: ModelSettings, attention: Choice, cross: bool, fused: Callable[[Rule], Rule]) -> Block:
    own = _attention(settings, attention, SelfAttention)
    own.rule = fused(own.rule)
    parts: list[nn.Module] = [own]
    if cross:
        parts.append(_attention(settings, settings.cross_attention, CrossAttention))
    feedforward = FEEDFORWARDS.build(
        settings.feedforward, width=settings.width, bias=settings.biased("feedforward")
    )
    parts.append(PositionWise(feedforward))
    residuals = (
        RESIDUALS.build(
            settings.residual, norm=_norm(settings, settings.width), inner=part, dropout=settings.dropout
        )
        for part in parts
    )
    return Block(*residuals)


def _attention(
    settings: ModelSettings, choice: Choice, kind: type[SelfAttention] | type[CrossAttention]
) -> SelfAttention | CrossAttention:
    width, heads, head_width = settings.width, settings.heads, settings.each_head_width
    rule = ATTENTION.build(
        choice,
        heads=heads,
        head_width=head_width,
        length=settings.length,
        patches=_patches(settings),
        masking=settings.masking,
        dropout=settings.attention_dropout,
    )
    if rule.masking != settings.masking:
        raise ConfigError(
            f'attention "{choice.kind}" does not take masking "{settings.masking}"; its constructor must '
            "hand `masking` on to Rule."
        )
    projections = PROJECTIONS.build(
        settings.projections,
        width=width,
        heads=heads,
        head_width=head_width,
        bias=settings.biased("query_key_value"),
    )
    output = LinearMap(heads * head_width, width, bias=settings.biased("attention_output"))
    return kind(projections, rule, output)


def _refusal(
    settings: ModelSettings, mask: Mask, positions: Position, block: Block, cross: bool
) -> str | None:
    """Why the parts of a block cannot work together, or None where they can."""
    rules = [part.rule for part in block.modules() if isinstance(part, Attention)]
    parts = Parts(
        attention=rules[0],
        cross_attention=rules[1] if cross else None,
        mask=mask,
        positions=positions,
        decodes=settings.family == "decoder" or cross,
        dropout=settings.attention_dropout,
    )
    return refusal(parts)
