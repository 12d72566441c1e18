"""Where a model can be looked into and changed: a short list of named places, the same for every model.

    embedding                     (B,T,D)   what enters the first layer
    layers.N.input                (B,T,D)   the residual stream before layer N
    layers.N.attention.queries    (B,H,T,K)
    layers.N.attention.keys       (B,H',T,K)  of new tokens; a cache keeps them as they are changed
    layers.N.attention.values     (B,H',T,K)
    layers.N.attention.weights    (B,H,T,S) before dropout; of linear attention those that it implies
    layers.N.heads                (B,H,T,K) what each head has read: its weighted values
    layers.N.heads.M              (B,T,K)   of head M alone
    layers.N.attention.output     (B,T,D)   what the layer's attention adds to the stream
    layers.N.feedforward.output   (B,T,D)
    layers.N.output               (B,T,D)   the residual stream after layer N
    final                         (B,T,D)   what the output head sees

Cross-attention has the places of attention under `layers.N.cross_attention` and `layers.N.cross_heads`. An
encoder-decoder puts `encoder.` or `decoder.` before each name, two encoders `image.` or `text.`. `*` stands
for any one part of a name.

A recurrent trunk has embedding, input and output of each layer (what it hands up, not its state), final, and
where it attends to a source the places of cross-attention under its last layer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Literal

from torch import nn

from attnlab.config.values import ConfigError
from attnlab.model.blocks import Attention, Block, CrossAttention, PositionWise, Residual
from attnlab.model.stack import Stack
from attnlab.model.trunks.recurrent import Recurrent, RecurrentStack
from attnlab.model.trunks.transformer import transformer_of
from attnlab.model.trunks.trunk import Trunk
from attnlab.model.trunks.two_encoders import TwoEncoders

INSIDE = ("queries", "keys", "values", "weights")


@dataclass(frozen=True)
class Place:
    """A module, and what of it is meant: its input, its output, or a part inside an attention layer."""

    module: nn.Module
    part: Literal["input", "output", "queries", "keys", "values", "weights", "heads"]
    head: int | None = None


def places_of(trunk: Trunk) -> dict[str, Place]:
    """Every place of a trunk by its name."""
    stacks: Mapping[str, Iterable[tuple[str, Place]]]
    if isinstance(trunk, Recurrent):
        stacks = {side: _of_recurrent(stack, trunk) for side, stack in trunk.stacks().items()}
    else:
        whole = trunk if isinstance(trunk, TwoEncoders) else transformer_of(trunk)
        stacks = {side: _of_stack(stack) for side, stack in whole.stacks().items()}
    return {
        (f"{side}.{name}" if len(stacks) > 1 else name): place
        for side, places in stacks.items()
        for name, place in places
    }


def require_attention(trunk: Trunk) -> None:
    """Stop where there is no attention to look into."""
    if not trunk.attentions():
        raise ConfigError(
            f"This model's trunk is a {type(trunk).__name__} and has no attention to look into; a recurrent "
            "encoder-decoder has one with model.trunk gru(attention=additive)."
        )


def _of_recurrent(stack: RecurrentStack, trunk: Recurrent) -> Iterator[tuple[str, Place]]:
    """Attention is after the last layer, and counted to it."""
    last, output = len(stack.layers) - 1, trunk.output if stack is trunk.main else None
    yield "embedding", Place(stack.embedding, "output")
    for number, layer in enumerate(stack.layers):
        yield f"layers.{number}.input", Place(layer, "input")
        yield f"layers.{number}.output", Place(layer, "output")
        if output is not None and number == last:
            for name, place in _of_part(output.attention):
                yield f"layers.{number}.{name}", place
    yield "final", Place(trunk.final if stack is trunk.main else stack, "output")


def _of_stack(stack: Stack) -> Iterator[tuple[str, Place]]:
    yield "embedding", Place(stack.embedding, "output")
    for number, block in enumerate(stack.blocks):
        assert isinstance(block, Block)
        yield f"layers.{number}.input", Place(block, "input")
        for residual in block.residuals:
            assert isinstance(residual, Residual)
            for name, place in _of_part(residual.inner):
                yield f"layers.{number}.{name}", place
        yield f"layers.{number}.output", Place(block, "output")
    yield "final", Place(stack.final, "output")


def _of_part(part: nn.Module) -> Iterator[tuple[str, Place]]:
    if isinstance(part, PositionWise):
        yield "feedforward.output", Place(part, "output")
    if not isinstance(part, Attention):
        return
    crossing = "cross_" if isinstance(part, CrossAttention) else ""
    for inside in INSIDE:
        yield f"{crossing}attention.{inside}", Place(part, inside)  # type: ignore[arg-type]  # one of the parts
    yield f"{crossing}heads", Place(part, "heads")
    for head in range(part.projections.heads):
        yield f"{crossing}heads.{head}", Place(part, "heads", head)
    yield f"{crossing}attention.output", Place(part, "output")


def matching(places: dict[str, Place], pattern: str) -> list[str]:
    """The names that a pattern means; one that means none is answered with the places there are."""
    wanted = pattern.split(".")
    matching = [
        name
        for name in places
        if len(parts := name.split(".")) == len(wanted)
        and all(fnmatchcase(part, want) for part, want in zip(parts, wanted, strict=True))
    ]
    if not matching:
        raise ConfigError(f'This model has no place "{pattern}". {_near(places, pattern)}{_listed(places)}')
    return matching


def _near(places: dict[str, Place], pattern: str) -> str:
    named = [_general(name) for name in places]
    close = get_close_matches(pattern, places, n=1) or get_close_matches(_general(pattern), named, n=1)
    return f"Did you mean {close[0]}? " if close else ""


def _listed(places: dict[str, Place]) -> str:
    layers = max(int(n) for name in places for n in re.findall(r"layers\.(\d+)", name))
    heads = [int(n) for name in places for n in re.findall(r"heads\.(\d+)", name)]
    names = ", ".join(dict.fromkeys(_general(name) for name in places))
    numbers = f"N from 0 to {layers}" + (f" and M from 0 to {max(heads)}" if heads else "")
    return f"Its places are {names}, with {numbers}; * stands for any."


def _general(name: str) -> str:
    return re.sub(r"heads\.(\d+|\*)", "heads.M", re.sub(r"layers\.(\d+|\*)", "layers.N", name))
