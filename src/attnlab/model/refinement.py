"""What a stack can tell apart at best: by its masks and positions, whatever its weights.

As in colour refinement of graphs, a layer gives a token a new colour for each combination of its own and of
those that it attends to. Attention averages, so shares count and not numbers: without positions "a b" and
"a b a b" are the same context.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence

from torch import Tensor

from attnlab.model.attention.argmax import Argmax
from attnlab.model.blocks import Attention, CrossAttention
from attnlab.model.positions.biases import Alibi
from attnlab.model.positions.position import Position
from attnlab.model.reach import declared
from attnlab.model.stack import Stack
from attnlab.model.tokens import Tokens

Colours = list[Hashable]
"""One a token: tokens of one colour have the same vector, whatever the weights."""


def embedded(positions: Position, ids: Tensor, tokens: Tokens, types: Tensor | None = None) -> Colours:
    """What the embedding knows: the token, its type, and its position where the scheme embeds it."""
    columns = [ids.tolist()]
    if types is not None:
        columns.append(types.tolist())
    if type(positions).forward is not Position.forward:
        columns.append(tokens.position[0].tolist())
    return list(zip(*columns, strict=True))


def refined(stack: Stack, colours: Colours, tokens: Tokens, read: Colours | None = None) -> Colours:
    """The colours after every layer; `read` are those of the source."""
    allowed = iter(declared(stack.rules(), stack.mask, tokens))
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
