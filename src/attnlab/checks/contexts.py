"""What a model can tell apart at best: by its masks and positions, whatever its weights."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.checks.paths import declared
from attnlab.checks.real import copy_of
from attnlab.model.attention.argmax import Argmax
from attnlab.model.attention.rule import Rule
from attnlab.model.blocks import Attention, CrossAttention
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
    "a b" and "a b a b" are the same context. An argmax sees one key, and hardly learns which.
    """
    seen = Seen(copy_of(model), prepared)
    rows: dict[int, Colours] = {}
    for row, _ in places:
        if row not in rows:
            rows[row] = seen.colours(row)
    return [rows[row][place] for row, place in places]


class Seen:
    """The colours of a batch's tokens, row by row."""

    def __init__(self, model: Model, prepared: Prepared):
        self.model, self.prepared = model, prepared
        self.picks = picks_of(model, prepared)

    def colours(self, row: int) -> Colours:
        trunk, prepared, which = self.model.trunk, self.prepared, torch.tensor([row])
        tokens, types = prepared.tokens.select(which), prepared.types
        read: Colours = []
        if prepared.source is not None and trunk.encoder is not None:
            assert prepared.source_tokens is not None
            source = prepared.source_tokens.select(which)
            read = self.refined(
                trunk.encoder, embedded(trunk.encoder, prepared.source[row], source), source, row
            )
            hidden = Pairs(tokens.part(0, 1), source).allowed
            padding = None if hidden is None else ~hidden.flatten()
            read = [None if padding is not None and padding[at] else one for at, one in enumerate(read)]
        first = embedded(trunk.main, prepared.ids[row], tokens, None if types is None else types[row])
        return self.refined(trunk.main, first, tokens, row, read)

    def refined(
        self, stack: Stack, colours: Colours, tokens: Tokens, row: int, read: Sequence[Hashable] = ()
    ) -> Colours:
        """The colours after every layer; `read` are those of the source, None for its padding."""
        allowed = iter(declared(stack, tokens))
        for layer in stack.attentions():
            if isinstance(layer, CrossAttention):
                seen: Iterator[Colours] = ([one for one in read if one is not None] for _ in colours)
                keys: Sequence[Hashable] = read
            else:
                seen = attended(colours, next(allowed), tokens, distance_of(stack.positions))
                keys = colours
            picks = self.picks.get(layer.rule)
            colours = [
                hash((own, shares(others) if picks is None else picked(keys, picks[row, :, at])))
                for at, (own, others) in enumerate(zip(colours, seen, strict=True))
            ]
        return colours


def attended(
    colours: Colours, allowed: Tensor, tokens: Tokens, distance: Callable[[int], int]
) -> Iterator[Colours]:
    """For each token, the colours of those that it may attend to, with what is told of their distance."""
    position = tokens.position[0].tolist()
    for at in range(len(colours)):
        keys = allowed[at].nonzero()[:, 0].tolist()
        yield [(colours[key], distance(position[key] - position[at])) for key in keys]


def picked(keys: Sequence[Hashable], picks: Tensor) -> Hashable:
    """The colour that each head looks at."""
    return tuple(keys[key] for key in picks.tolist())


def embedded(stack: Stack, ids: Tensor, tokens: Tokens, types: Tensor | None = None) -> Colours:
    """What the embedding knows: the token, its type, and its position where the scheme embeds it."""
    columns = [ids.tolist()]
    if types is not None:
        columns.append(types.tolist())
    if type(stack.positions).forward is not Position.forward:
        columns.append(tokens.position[0].tolist())
    return list(zip(*columns, strict=True))


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


@torch.no_grad()
def picks_of(model: Model, prepared: Prepared) -> dict[nn.Module, Tensor]:
    """For each rule that looks at one key only: which one, (B,H,T)."""
    found: dict[nn.Module, Tensor] = {}

    def note(rule: nn.Module, inputs: tuple[Tensor, Tensor, Tensor, Pairs]) -> None:
        assert isinstance(rule, Rule)
        q, k, _, pairs = inputs
        found[rule] = rule.weights(q, k, pairs).argmax(-1)

    layers = [layer for layer in model.modules() if isinstance(layer, Attention)]
    rules = {layer.rule for layer in layers if any(isinstance(part, Argmax) for part in layer.rule.modules())}
    for rule in rules:
        rule.register_forward_pre_hook(note)
    if rules:
        inputs: dict[str, Any] = {}
        if prepared.source is not None:
            inputs = {"source": prepared.source, "source_tokens": prepared.source_tokens}
        model.eval().trunk(prepared.ids, prepared.tokens, types=prepared.types, **inputs)
    return found
