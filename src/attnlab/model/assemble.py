"""From a model's settings to the model: every part built and put in its place."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import nn

from attnlab.config import schema
from attnlab.config.values import ConfigError
from attnlab.model.attention import ATTENTION
from attnlab.model.blocks import RESIDUALS, Alone, Attention, Block, CrossAttention, SelfAttention
from attnlab.model.combinations import Parts, refusal
from attnlab.model.draws import Undrawn
from attnlab.model.feedforward import FEEDFORWARDS
from attnlab.model.heads import HEADS
from attnlab.model.initial import initialise, table_std
from attnlab.model.masks import MASKS, Bidirectional, Mask, backward_looking
from attnlab.model.model import Model
from attnlab.model.norms import NORMS
from attnlab.model.positions import POSITIONS
from attnlab.model.positions.position import Position
from attnlab.model.projections import PROJECTIONS
from attnlab.model.stack import Embedding, Stack
from attnlab.model.transformer import Transformer


def build_model(
    config: schema.ModelSettings, *, seed: int = 0, device: str = "cpu", labels: int = 2
) -> Model:
    """The model of a config, initialised from the seed, with a head for so many labels, if it is for labels.

    On the device "meta" nothing is allocated.
    """
    try:
        with torch.device(device), Undrawn() if device == "meta" else nullcontext():
            model = _assemble(config, labels)
    except ConfigError:
        raise
    except ValueError as error:  # a part refused its options or sizes
        raise ConfigError(str(error)) from error
    except (RuntimeError, OverflowError) as error:
        if device != "meta":
            raise
        reason = next(iter(str(error).splitlines()), "")
        raise ConfigError(f"The model has sizes that no tensor can have: {reason}.") from error
    if device != "meta":
        initialise(model, seed)
    return model


def _assemble(config: schema.ModelSettings, labels: int) -> Model:
    mask = MASKS.build(config.mask)
    encodes, decodes = config.family != "decoder", config.family != "encoder"
    encoder_mask = mask if not decodes else Bidirectional()
    encoder = _stack(config, encoder_mask) if encodes else None
    shared = encoder.embedding.tokens if encoder is not None else None
    decoder = _stack(config, mask, tokens=shared, cross=encodes) if decodes else None
    trunk = Transformer(encoder=encoder, decoder=decoder)
    head = HEADS.build(
        config.output,
        width=config.width,
        tokens=trunk.main.embedding.tokens,
        norm=partial(_norm, config),
        dropout=config.dropout,
        labels=labels,
    )
    return Model(trunk, head)


def _norm(config: schema.ModelSettings, width: int) -> nn.Module:
    return NORMS.build(config.norm, width=width, bias=config.biased("norm"))


def _stack(
    config: schema.ModelSettings, mask: Mask, *, tokens: nn.Embedding | None = None, cross: bool = False
) -> Stack:
    width = config.width
    positions = _positions(config, mask)
    blocks = [_block(config, cross) for _ in range(config.layers)]
    _refuse(config, mask, positions, blocks[0], cross)
    embedding = Embedding(
        tokens if tokens is not None else nn.Embedding(config.tokens, width - positions.narrows),
        positions,
        types=nn.Embedding(config.token_types, width - positions.narrows) if config.token_types else None,
        norm=_norm(config, width) if config.embedding_norm else None,
        scale=_embedding_scale(config, width - positions.narrows),
        dropout=config.dropout,
    )
    final = RESIDUALS[config.residual.kind].final(_norm(config, width))
    return Stack(embedding, blocks, final, mask)


def _embedding_scale(config: schema.ModelSettings, width: int) -> float:
    """Of a table of this width: as large as what blocks add to it; what they drown is learned late."""
    if config.embedding_scale == "unit":
        return 1 / table_std(width)
    return config.width**0.5 if config.embedding_scale == "root" else config.embedding_scale


def _positions(config: schema.ModelSettings, mask: Mask) -> Position:
    return POSITIONS.build(
        config.positions,
        width=config.width,
        heads=config.heads,
        head_width=config.each_head_width,
        layers=config.layers,
        length=config.length,
        scale=partial(_embedding_scale, config),
        looks_back=backward_looking(mask),
    )


def _block(config: schema.ModelSettings, cross: bool) -> Block:
    parts: list[nn.Module] = [_attention(config, config.attention, SelfAttention)]
    if cross:
        parts.append(_attention(config, config.cross_attention, CrossAttention))
    feedforward = FEEDFORWARDS.build(
        config.feedforward, width=config.width, bias=config.biased("feedforward")
    )
    parts.append(Alone(feedforward))
    residuals = (
        RESIDUALS.build(config.residual, norm=_norm(config, config.width), inner=part, dropout=config.dropout)
        for part in parts
    )
    return Block(*residuals)


def _attention(
    config: schema.ModelSettings, choice: Any, kind: type[SelfAttention] | type[CrossAttention]
) -> SelfAttention | CrossAttention:
    width, heads, head_width = config.width, config.heads, config.each_head_width
    rule = ATTENTION.build(
        choice,
        heads=heads,
        head_width=head_width,
        length=config.length,
        masking=config.masking,
        dropout=config.attention_dropout,
    )
    if rule.masking != config.masking:
        raise ConfigError(
            f'attention "{choice.kind}" does not take masking "{config.masking}"; its constructor must hand '
            "`masking` on to Rule."
        )
    projections = PROJECTIONS.build(
        config.projections,
        width=width,
        heads=heads,
        head_width=head_width,
        bias=config.biased("query_key_value"),
    )
    output = nn.Linear(heads * head_width, width, bias=config.biased("attention_output"))
    return kind(projections, rule, output)


def _refuse(config: schema.ModelSettings, mask: Mask, positions: Position, block: Block, cross: bool) -> None:
    """Stop at a combination that cannot work, with its reason."""
    rules = [part.rule for part in block.modules() if isinstance(part, Attention)]
    parts = Parts(
        attention=rules[0],
        cross_attention=rules[1] if cross else None,
        mask=mask,
        positions=positions,
        decodes=config.family == "decoder" or cross,
        dropout=config.attention_dropout,
    )
    reason = refusal(parts)
    if reason is not None:
        raise ConfigError(reason)
