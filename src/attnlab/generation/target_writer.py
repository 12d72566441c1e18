"""Targets of sources: the beams of a model that reads a source apart, or before its own text in one row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import torch

from attnlab.data.batching import budget_bounds
from attnlab.data.encode.texts import ends
from attnlab.data.images.patches import vectors_of
from attnlab.data.rows import Rows
from attnlab.data.sharing import UNSHARED, Sharing, in_order_of_pieces, own_pieces
from attnlab.data.tokenizers.tokenizer import Tokenizer
from attnlab.generation.beam import Hypothesis, beam_searches
from attnlab.generation.decoder import PlacedPicture
from attnlab.generation.generate import Written, generate
from attnlab.model.model import Model

Target = TypeVar("Target")
Read = TypeVar("Read", bound=Sized)
TOKENS, ROWS = 4096, 64
"""Of the sources that are read at once, with their padding; and how many of them."""


@dataclass(frozen=True)
class TargetSource:
    """What a target is written for: the ids that are read, special tokens among them, and a picture whose
    patches stand there."""

    ids: list[int]
    picture: PlacedPicture | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def of_rows(cls, rows: Rows, row: int) -> TargetSource:
        """What is read before the target: a row of its own, or the part of one that is marked."""
        ids: list[int] = rows.ragged("ids", row).astype(np.int64).tolist()
        ids = ids[: rows.scalar("source", row)] if rows.has("source") else ids
        if not rows.has("pixels"):
            return cls(ids)
        first = int(np.flatnonzero(rows.ragged("patch", row))[0])
        return cls(ids, PlacedPicture(first, torch.from_numpy(vectors_of(rows.ragged("pixels", row)))))


def pictures_of(sources: Sequence[TargetSource]) -> list[PlacedPicture] | None:
    """The picture of each source; None where sources have none."""
    pictures = [source.picture for source in sources if source.picture is not None]
    return pictures or None


@dataclass(frozen=True, kw_only=True)
class TargetWriter:
    """Writes a target after each source: greedily, or by a `beam`. `context` is how many tokens the model
    reads, those that it writes among them."""

    model: Model
    tokenizer: Tokenizer
    context: int
    beam: int = 1
    penalty: float = 1.0

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def stop(self) -> set[int]:
        """The tokens that end a target."""
        if self.model.trunk.reads_source:
            return {ends(self.tokenizer)[1]}
        last = self.tokenizer.form.end or (self.tokenizer.specials.stop,)
        return {token for token in last if token is not None}

    def prompts(self, sources: Sequence[TargetSource]) -> tuple[list[list[int]], list[list[int]] | None]:
        """What a target is written after, and what stands apart and is read with it."""
        ids = [source.ids for source in sources]
        if self.model.trunk.reads_source:
            return [[ends(self.tokenizer)[0]] for _ in sources], ids
        return ids, None

    def write(self, model: Model, sources: Sequence[TargetSource]) -> list[Written]:
        """Targets of sources that are read side by side."""
        prompts, read = self.prompts(sources)
        if self.beam == 1:
            length = self.context - max(map(len, prompts))
            return generate(
                model, prompts, sources=read, pictures=pictures_of(sources), length=length, stop=self.stop
            )
        best = [texts[0] for texts in self.search(model, sources)]
        return [Written(prompt, text.new, text.stopped) for prompt, text in zip(prompts, best, strict=True)]

    def search(self, model: Model, sources: Sequence[TargetSource]) -> list[list[Hypothesis]]:
        """The texts that a beam ends with for each source, best first."""
        prompts, read = self.prompts(sources)
        return beam_searches(
            model,
            prompts,
            width=self.beam,
            length=self.context - max(map(len, prompts)),
            penalty=self.penalty,
            stop=self.stop,
            sources=read,
            pictures=pictures_of(sources),
        )


def alike(lengths: Sequence[int]) -> list[list[int]]:
    """Rows of similar lengths together, as many as a budget of tokens allows; the longest first, so that too
    little memory shows at once."""
    sizes = np.array(lengths, np.int64)
    order = sizes.argsort(kind="stable")
    bounds = budget_bounds([sizes[order]], max(TOKENS, int(sizes.max(initial=1))), ROWS)
    return [order[begin:end].tolist() for begin, end in reversed(list(pairwise(bounds.tolist())))]


def each_of(
    sources: Sequence[Read],
    write: Callable[[Sequence[Read]], Sequence[Target]],
    *,
    device: torch.device,
    sharing: Sharing = UNSHARED,
) -> list[Target]:
    """What `write` makes of each source, in their order, of similar lengths together.

    A step of a beam is too small for two threads, which then wait for each other: on a CPU each thread that
    torch may use has batches of its own instead.
    """
    every = alike([len(source) for source in sources])
    batches = [every[number] for number in own_pieces(sharing, len(every))]

    def of(rows: Sequence[int]) -> dict[int, Target]:
        return dict(zip(rows, write([sources[row] for row in rows]), strict=True))

    threads = torch.get_num_threads() if device.type == "cpu" else 1
    with side_by_side(min(threads, len(batches))) as map_each:
        parts = in_order_of_pieces(sharing.gather(list(map_each(of, batches))))
    written = {row: target for part in parts for row, target in part.items()}
    return [written[row] for row in range(len(sources))]


@contextmanager
def side_by_side(threads: int) -> Iterator[Callable[..., Iterable[Any]]]:
    """A `map` whose calls run in so many threads, with one of torch's each."""
    if threads <= 1:
        yield map
        return
    before = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(threads, initializer=partial(torch.set_num_threads, 1)) as pool:
            yield pool.map
    finally:
        torch.set_num_threads(before)
