"""What a model can tell apart at best: by its masks and positions, whatever its weights."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence

import torch
from torch import Tensor

from attnlab.checks.paths import declared
from attnlab.model.attention.argmax import Argmax
from attnlab.model.blocks import Attention, CrossAttention
from attnlab.model.model import Model
from attnlab.model.pairs import Pairs
from attnlab.model.positions.alibi import Alibi
from attnlab.model.positions.position import Position
from attnlab.model.tokens import Tokens
from attnlab.model.transformer import Stack
from attnlab.tasks.task import Prepared

Colours = list[Hashable]
"""One a token: tokens of one colour have the same vector, whatever the weights."""


def contexts(model: Model, prepared: Prepared, places: Sequence[Sequence[int]]) -> list[Hashable]:
    """The colour of each (row, place): equal for two places that no weights can tell apart.

    As in colour refinement of graphs, a layer gives a token a new colour for each combination of its own
    and of those that it attends to. Attention averages, so shares count and not numbers: without positions
    "a b" and "a b a b" are the same context.
    """
    rows: dict[int, Colours] = {}
    for row, _ in places:
        if row not in rows:
            rows[row] = colours_of_row(model, prepared, row)
    return [rows[row][place] for row, place in places]


def colours_of_row(model: Model, prepared: Prepared, row: int) -> Colours:
    trunk, types, which = model.trunk, prepared.types, torch.tensor([row])
    tokens = prepared.tokens.select(which)
    read: Colours = []
    if prepared.source is not None and trunk.encoder is not None:
        assert prepared.source_tokens is not None
        source = prepared.source_tokens.select(which)
        inside = refined(trunk.encoder, embedded(trunk.encoder, prepared.source[row], source), source)
        seen = Pairs(tokens.part(0, 1), source).allowed
        kept = range(source.length) if seen is None else seen.flatten().nonzero()[:, 0].tolist()
        read = [inside[place] for place in kept]
    first = embedded(trunk.main, prepared.ids[row], tokens, None if types is None else types[row])
    return refined(trunk.main, first, tokens, read)


def embedded(stack: Stack, ids: Tensor, tokens: Tokens, types: Tensor | None = None) -> Colours:
    """What the embedding knows: the token, its type, and its position where the scheme embeds it."""
    columns = [ids.tolist()]
    if types is not None:
        columns.append(types.tolist())
    if type(stack.positions).forward is not Position.forward:
        columns.append(tokens.position[0].tolist())
    return list(zip(*columns, strict=True))


def refined(stack: Stack, colours: Colours, tokens: Tokens, read: Colours | None = None) -> Colours:
    """The colours after every layer; `read` are those of the source."""
    allowed = iter(declared(stack, tokens))
    for layer in stack.attentions():
        if isinstance(layer, CrossAttention):
            seen: Iterator[Colours] = (read or [] for _ in colours)
        else:
            seen = attended(colours, next(allowed), tokens, distance_of(stack.positions))
        if averages(layer):
            joined = zip(colours, seen, strict=True)
            colours = [hash((own, shares(others))) for own, others in joined]
    return colours


def averages(layer: Attention) -> bool:
    """Whether a layer's output depends on all that it attends to. An argmax jumps from key to key as weights
    change and hardly learns to which: nothing is expected of it."""
    return not any(isinstance(part, Argmax) for part in layer.rule.modules())


def attended(
    colours: Colours, allowed: Tensor, tokens: Tokens, distance: Callable[[int], int]
) -> Iterator[Colours]:
    """For each token, the colours of those that it may attend to, with what is told of their distance."""
    position = tokens.position[0].tolist()
    for at in range(len(colours)):
        keys = allowed[at].nonzero()[:, 0].tolist()
        yield [(colours[key], distance(position[key] - position[at])) for key in keys]


def shares(seen: Sequence[Hashable]) -> Hashable:
    """How often each occurs, relative to the others."""
    counts = Counter(seen)
    common = math.gcd(*counts.values()) if counts else 1
    return frozenset((one, n // common) for one, n in counts.items())


def distance_of(scheme: Position) -> Callable[[int], int]:
    """What a scheme tells of how far a key stands from a query: all, nothing, or not on which side."""
    if isinstance(scheme, Alibi):
        return abs
    compares = scheme.gives_bias or type(scheme).rotation is not Position.rotation
    return (lambda apart: apart) if compares else (lambda apart: 0)
