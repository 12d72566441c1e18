"""The ways through a model: which inputs reach which outputs by its declared mask, and how to run it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.model.masks import Mask
from attnlab.model.model import Model, hidden_states
from attnlab.model.pairs import Pairs
from attnlab.model.reach import square
from attnlab.model.tokens import Tokens
from attnlab.tasks.task import Prepared

AT_MOST = 2816
"""Tokens of all rows in which an input of a long row is changed."""


Asked = Callable[..., Tensor]
"""A model, or its trunk: ids, tokens and what goes along with them -> scores (N,T,V)."""


@dataclass(frozen=True, kw_only=True)
class Path:
    """One way through a model: ids (N,S) in, scores (N,T,V) out.

    `near` (T,S) are the pairs that one layer may join, `reach` (T,S) those that all layers may join
    together; `judged` (T) are the outputs that count: padding's own do not.
    """

    name: str
    ids: Tensor
    forward: Callable[[Tensor], Tensor]
    near: Tensor
    reach: Tensor
    judged: Tensor
    entrance: nn.Module  # where ids become vectors: gradients are taken at its output
    training: bool = False
    keys: tuple[int, ...] = ()  # the inputs that are changed; none given: all, and gradients too

    @property
    def exhaustive(self) -> bool:
        return not self.keys

    @property
    def sees_all(self) -> bool:
        """Whether every output that counts may depend on every input: then nothing can leak."""
        return bool(self.reach[self.judged].all())


def closure(allowed: Tensor) -> Tensor:
    """What any number of such layers reaches: two of them reach what the square joins, and so on."""
    reach = allowed | torch.eye(len(allowed), dtype=torch.bool)
    for _ in range(max(len(allowed) - 1, 1).bit_length()):
        reach = (reach.float() @ reach.float()) > 0
    return reach


def allows(mask: Mask, length: int, source: int = 0) -> Tensor:
    """The pairs (T,T) of a mask by itself; `source` leading tokens are the source of a prefix."""
    marked = (torch.arange(length) < source)[None] if source else None
    tokens = Tokens.of(length, source=marked)
    return square(Pairs(tokens, tokens, mask))


def paths_of(
    model: Model, prepared: Prepared | None, vocabulary: int, *, length: int, whole: int
) -> Iterator[Path]:
    """Every way through this model: in training and evaluation, padded, packed, and on real data.

    Every pair of `length` tokens, and some inputs of a row of `whole`: blocks and groups have borders there.
    """
    made, single = Made(model, vocabulary, length), Made(model, vocabulary, 1)
    for name, training in modes(model, next(made.paths("either"))).items():
        yield from made.paths(name, training=training)
        yield from single.paths("a row of one token", training=training)
    # by now heads have shown that they look at one position each: from here on, what they would see is
    # enough, at a fraction of a vocabulary's cost; the check of invariance asks them about padding
    half, hidden = torch.arange(length)[None] >= length // 3, partial(model, objective=hidden_states)
    yield from made.paths("padded on the left", real=half, asked=hidden)
    yield from made.paths("padded on the right", real=half.flip(1), asked=hidden)
    if not model.stands_before:
        yield from made.paths("packed documents", document=half.long(), asked=hidden)
    long = Made(model, vocabulary, whole)
    for path in long.paths("a whole row", asked=hidden):
        yield replace(path, keys=spread_over(whole))
    if prepared is not None:
        yield from of_batch(model, prepared, length)


@torch.no_grad()
def modes(model: Model, path: Path) -> dict[str, bool]:
    """Training and evaluation, and whether each is training. They are one where both give the same scores,
    which a leak in one of them alone would change."""
    with torch.random.fork_rng():
        model.train()
        trained = path.forward(path.ids)
        model.eval()
        evaluated = path.forward(path.ids)
    if torch.equal(trained, evaluated):
        return {"training and evaluation": False}
    return {"training": True, "evaluation": False}


def spread_over(length: int) -> tuple[int, ...]:
    """The last input and some others, at no regular distance: no block or group is passed by.

    Fewer of longer rows, which cost more.
    """
    steps = (round(length * (0.618 * n % 1)) for n in range(1, max(min(11, AT_MOST // length), 3)))
    return tuple(sorted({length - 1, *(min(step, length - 1) for step in steps)}))


def place_by_place(model: Model) -> Asked:
    """What gives one output for each place. A head that judges a row as a whole joins all of its places by
    design: then it is the trunk."""
    return model if model.head.scores_words else partial(model, objective=hidden_states)


class Made:
    """Paths over random tokens, in a layout of our choice."""

    def __init__(self, model: Model, vocabulary: int, length: int):
        self.model = model
        generator = torch.Generator().manual_seed(0)
        self.ids = torch.randint(vocabulary, (1, length), generator=generator)
        self.source = torch.randint(vocabulary, (1, length), generator=generator)
        self.length = length

    def paths(
        self, name: str, *, training: bool = False, asked: Asked | None = None, **marks: Any
    ) -> Iterator[Path]:
        model, plain = self.model, Tokens.of(self.length, **marks)
        tokens, inputs = plain, dict[str, Any]()
        if model.trunk.reads_source:
            inputs = {"source": self.source, "source_tokens": plain}
        if model.trunk.asks_for_source:
            first = torch.arange(self.length)[None] < self.length // 2
            tokens = Tokens.of(self.length, source=first, **marks)
        prepared = Prepared(ids=self.ids, targets=self.ids, tokens=tokens, **inputs)
        yield from through(model, prepared, name, training=training, asked=asked)


def of_batch(model: Model, prepared: Prepared, length: int) -> Iterator[Path]:
    """A piece of a real batch, just as the task made it, around the border of a document or picture."""
    tokens = prepared.tokens
    if not model.trunk.ways(tokens, prepared.source_tokens):
        return
    start = 0
    if tokens.document is not None:
        borders = (tokens.document[0, 1:] != tokens.document[0, :-1]).nonzero()
        start = max(int(borders[0]) + 1 - length // 2, 0) if len(borders) else 0
    elif tokens.group is not None:
        borders = (tokens.group[0, 1:] != tokens.group[0, :-1]).nonzero()  # between patches and what follows
        start = max(int(borders[-1]) + 1 - length // 2, 0) if len(borders) else 0
    stop = min(start + length, prepared.ids.shape[1])
    if prepared.source is not None:  # one row as it is: cutting would part source and target
        start, stop = 0, prepared.ids.shape[1]
    row = torch.tensor([0])
    ids = prepared.ids[:1, start:stop]
    piece = Prepared(
        ids=ids,
        targets=ids,  # what is to be predicted plays no part
        tokens=tokens.select(row).part(start, stop),
        types=None if prepared.types is None else prepared.types[:1, start:stop],
        vectors=None
        if prepared.vectors is None
        else prepared.vectors[:1]
        if prepared.source is not None
        else prepared.vectors[:1, start:stop],
        source=None if prepared.source is None else prepared.source[:1],
        source_tokens=None if prepared.source_tokens is None else prepared.source_tokens.select(row),
    )
    for path in through(
        model, piece, "a real batch", training=True, asked=partial(model, objective=hidden_states)
    ):
        inputs = path.ids.shape[1]
        yield path if inputs <= length else replace(path, keys=spread_over(inputs))


def through(
    model: Model, prepared: Prepared, name: str, *, training: bool, asked: Asked | None = None
) -> Iterator[Path]:
    """The path of a row's own ids, and that of the source beside it."""
    asked = asked or place_by_place(model)
    tokens, source = prepared.tokens, prepared.source
    judged = torch.ones(tokens.length, dtype=torch.bool) if tokens.real is None else tokens.real[0]

    def of_ids(ids: Tensor) -> Tensor:
        return scores(asked, prepared, ids=ids, source=source)

    def of_source(source: Tensor) -> Tensor:
        return scores(asked, prepared, ids=prepared.ids, source=source)

    inputs: list[tuple[str, Tensor, Callable[[Tensor], Tensor]]] = [(name, prepared.ids, of_ids)]
    if source is not None:
        inputs.append((f"{name}, source", source, of_source))
    ways = model.trunk.ways(tokens, prepared.source_tokens)
    for (called, ids, forward), entrance, way in zip(inputs, model.trunk.entrances(), ways, strict=True):
        yield Path(
            name=called,
            ids=ids,
            forward=forward,
            near=way.near,
            reach=way.reach,
            judged=judged,
            entrance=entrance,
            training=training,
        )


def scores(asked: Asked, prepared: Prepared, *, ids: Tensor, source: Tensor | None) -> Tensor:
    """The scores (N,T,V) for these ids or sources, in the coordinates of the one prepared row."""
    rows = len(ids) if source is None else max(len(ids), len(source))
    inputs: dict[str, Any] = {"types": None if prepared.types is None else prepared.types.expand(rows, -1)}
    read = prepared.source
    if prepared.vectors is not None and source is not None and read is not None:  # beside the source
        own = prepared.vectors.expand(len(source), -1, -1)
        changed = torch.where(source.ne(read)[..., None], -own, own)
        inputs["vectors"] = changed.expand(rows, -1, -1)
    elif prepared.vectors is not None:  # of another token another one, of the same length
        same = prepared.vectors.expand(rows, -1, -1)
        inputs["vectors"] = torch.where((ids != prepared.ids)[..., None], -same, same)
    if source is not None:
        inputs |= {"source": source.expand(rows, -1), "source_tokens": prepared.source_tokens}
    outputs: Tensor = asked(ids.expand(rows, -1), prepared.tokens, **inputs)
    return outputs
