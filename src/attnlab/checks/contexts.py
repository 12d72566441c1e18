"""What a model can tell apart at best: by its masks and positions, whatever its weights."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence

import torch
from torch import Tensor

from attnlab.checks.paths import declared
from attnlab.model.attention.argmax import Argmax
from attnlab.model.attention.rule import Rule
from attnlab.model.model import Model
from attnlab.model.pairs import Pairs
from attnlab.model.positions.alibi import Alibi
from attnlab.model.positions.position import Position
from attnlab.model.tokens import Tokens
from attnlab.model.transformer import Stack
from attnlab.objectives.objective import Prepared

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
    trunk, which = model.trunk, torch.tensor([row])
    tokens = prepared.tokens.select(which)
    read: Hashable = ()
    if prepared.source is not None and trunk.encoder is not None:
        assert prepared.source_tokens is not None
        source = prepared.source_tokens.select(which)
        inside = refined(trunk.encoder, first_colours(trunk.encoder, prepared.source[row], source), source)
        seen = Pairs(tokens.part(0, 1), source).allowed
        kept = range(source.length) if seen is None else seen.flatten().nonzero()[:, 0].tolist()
        read = shares([inside[place] for place in kept])
    types = None if prepared.types is None else prepared.types[row]
    first = first_colours(trunk.main, prepared.ids[row], tokens, types)
    return refined(trunk.main, first, tokens, read)


def first_colours(stack: Stack, ids: Tensor, tokens: Tokens, types: Tensor | None = None) -> Colours:
    """What the embedding knows: the token, its type, and its position where the scheme embeds it."""
    columns = [ids.tolist()]
    if types is not None:
        columns.append(types.tolist())
    if embeds_positions(stack.positions):
        columns.append(tokens.position[0].tolist())
    return list(zip(*columns, strict=True))


def refined(stack: Stack, colours: Colours, tokens: Tokens, read: Hashable = ()) -> Colours:
    """The colours after every layer; `read` is what cross-attention sees, the same for every token."""
    position, distance = tokens.position[0].tolist(), distance_of(stack.positions)
    for rule, allowed in zip(stack.rules(), declared(stack, tokens), strict=True):
        found: Colours = []
        for at, own in enumerate(colours):
            keys = allowed[at].nonzero()[:, 0].tolist()
            seen = [(colours[key], distance(position[key] - position[at])) for key in keys]
            found.append((own, frozenset(seen) if picks_one(rule) else shares(seen), read))
        colours = numbered(found)
    return colours


def numbered(colours: Colours) -> Colours:
    """The same colours by their hashes: a colour of many layers would hold all those before it."""
    return [hash(colour) for colour in colours]


def shares(seen: Sequence[Hashable]) -> Hashable:
    """How often each occurs, relative to the others."""
    counts = Counter(seen)
    common = math.gcd(*counts.values()) if counts else 1
    return frozenset((one, n // common) for one, n in counts.items())


def embeds_positions(scheme: Position) -> bool:
    return type(scheme).forward is not Position.forward


def distance_of(scheme: Position) -> Callable[[int], int]:
    """What a scheme tells of how far a key stands from a query: all, nothing, or not on which side."""
    if isinstance(scheme, Alibi):
        return abs
    compares = scheme.gives_bias or type(scheme).rotation is not Position.rotation
    return (lambda apart: apart) if compares else (lambda apart: 0)


def picks_one(rule: Rule) -> bool:
    """Whether a rule looks at one key, so that how often it occurs does not show."""
    return any(isinstance(part, Argmax) for part in rule.modules())
