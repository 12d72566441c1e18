"""Beam search: the most likely whole text, not the most likely next token."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from attnlab.generation.decoder import Beyond, Decoder, PlacedPicture, check_length, window_start
from attnlab.model.model import Model

Own = TypeVar("Own")
BLOCK, FEWEST_BLOCKS = 64, 4
"""Tokens whose maximum stands for them, and how many such blocks there must be for each token wanted."""


class Hypothesis(NamedTuple):
    """A text and its log-probability, the stop token's included."""

    new: list[int]
    total: float
    stopped: bool

    def score(self, penalty: float) -> float:
        """total / length^penalty: 0 compares sums, 1 means, more favours longer texts."""
        return self.total / max(len(self.new) + self.stopped, 1) ** penalty


def beam_search(
    model: Model,
    prompt: Sequence[int],
    *,
    width: int = 4,
    length: int = 100,
    penalty: float = 1.0,
    stop: Collection[int] = (),
    source: Sequence[int] | None = None,
) -> list[Hypothesis]:
    """The best texts after one prompt, best first."""
    return beam_searches(
        model,
        [prompt],
        width=width,
        length=length,
        penalty=penalty,
        stop=stop,
        sources=None if source is None else [source],
    )[0]


@torch.inference_mode()
def beam_searches(
    model: Model,
    prompts: Sequence[Sequence[int]],
    *,
    width: int = 4,
    length: int = 100,
    penalty: float = 1.0,
    stop: Collection[int] = (),
    sources: Sequence[Sequence[int]] | None = None,
    pictures: Sequence[PlacedPicture] | None = None,
    context: int | None = None,
    beyond: Beyond = "refuse",
) -> list[list[Hypothesis]]:
    """The best texts after each prompt, best first. All beams of all prompts are rows of one batch."""
    if width < 1:
        raise ValueError(f"A beam of width {width} holds nothing; use at least 1.")
    check_length(prompts, length, context, beyond)
    model.eval()
    searches = [Search(list(prompt), width, length, penalty, stop) for prompt in prompts]
    for search in searches:
        search.move(context)
    decoder = _read(model, searches, sources, pictures)
    for step in range(length):
        rows = _grow(searches, _likeliest(decoder.next, width * (1 + len(stop))))
        if not rows or step == length - 1:
            break
        moved = [search.move(context) for search in searches]
        if any(moved):
            decoder = _read(model, searches, sources, pictures)
        else:
            last = [text.new[-1] for search in searches for text in search.alive]
            decoder.select(torch.tensor(rows, device=decoder.device))
            decoder.step(torch.tensor(last, device=decoder.device))
    return [search.best() for search in searches]


def _read(
    model: Model,
    searches: Sequence[Search],
    sources: Sequence[Sequence[int]] | None,
    pictures: Sequence[PlacedPicture] | None,
) -> Decoder:
    """Every living text, from where its window starts, beside its own source."""
    texts = [search.held(text) for search in searches for text in search.alive]
    return Decoder(model, texts, sources=_of_each(searches, sources), pictures=_of_each(searches, pictures))


def _of_each(searches: Sequence[Search], of_search: Sequence[Own] | None) -> list[Own] | None:
    """What each living text has of its search."""
    if of_search is None:
        return None
    return [own for search, own in zip(searches, of_search, strict=True) for _ in search.alive]


@dataclass(frozen=True)
class Likeliest:
    """The most likely next tokens of each row, (R, k), and their log-probabilities."""

    logs: list[list[float]]
    tokens: list[list[int]]

    def of(self, rows: slice) -> Likeliest:
        return Likeliest(self.logs[rows], self.tokens[rows])


def _likeliest(scores: Tensor, count: int) -> Likeliest:
    """What a beam can be continued with: no other token of a row comes before these, whatever the beam."""
    logs, tokens = largest(scores.log_softmax(-1), min(count, scores.shape[1]))
    return Likeliest(logs.tolist(), tokens.tolist())


def largest(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The largest of each row (R, V) with their places, in order, as `topk` gives them.

    Each of them is in one of the `count` blocks whose maxima are largest, and blocks have these at the price
    of reading once: `topk` looks at a fraction of a vocabulary.
    """
    blocks = values.shape[1] // BLOCK
    if blocks < FEWEST_BLOCKS * count:
        best, places = values.topk(count)
        return best, places
    whole = values[:, : blocks * BLOCK].unflatten(1, (blocks, BLOCK))
    chosen = whole.amax(-1).topk(count, sorted=False).indices
    among = torch.arange(BLOCK, device=values.device)
    places = (chosen[:, :, None] * BLOCK + among).flatten(1)
    rest = torch.arange(blocks * BLOCK, values.shape[1], device=values.device)
    places = torch.cat([places, rest.expand(len(values), -1)], 1) if len(rest) else places
    best, order = values.gather(1, places).topk(count)
    return best, places.gather(1, order)


def _grow(searches: Sequence[Search], likeliest: Likeliest) -> list[int]:
    """One token more in every search that goes on; gives the rows that its texts come from."""
    rows = list[int]()
    first = 0
    for search in searches:
        count = len(search.alive)
        if count:
            rows += [first + row for row in search.grow(likeliest.of(slice(first, first + count)))]
        first += count
    return rows


class Search:
    """The search after one prompt: texts that go on, one a row of the batch, and texts that ended."""

    def __init__(self, prompt: list[int], width: int, length: int, penalty: float, stop: Collection[int]):
        self.prompt, self.width, self.length, self.penalty, self.stop = prompt, width, length, penalty, stop
        self.alive, self.finished = [Hypothesis([], 0.0, False)], list[Hypothesis]()
        self.start = 0

    def move(self, context: int | None) -> bool:
        """Forget the beginning of texts that no longer fit the context; whether they did not."""
        before = self.start
        length = len(self.prompt) + max((len(text.new) for text in self.alive), default=0)
        self.start = window_start(before, length, context)
        return self.start != before

    def held(self, text: Hypothesis) -> list[int]:
        return [*self.prompt, *text.new][self.start :]

    def best(self) -> list[Hypothesis]:
        return self._sorted(self.finished + self.alive)

    def _sorted(self, texts: list[Hypothesis]) -> list[Hypothesis]:
        return sorted(texts, key=lambda text: -text.score(self.penalty))[: self.width]

    def grow(self, likeliest: Likeliest) -> list[int]:
        """One token more in each text, a row each; gives the rows that the new texts come from."""
        continued = [
            (self.alive[row].total + log, row, token)
            for row, (logs, tokens) in enumerate(zip(likeliest.logs, likeliest.tokens, strict=True))
            for log, token in zip(logs, tokens, strict=True)
        ]
        continued.sort(key=itemgetter(0), reverse=True)
        grown, ended = list[tuple[int, Hypothesis]](), len(self.finished)
        for total, row, token in continued[: self.width * (1 + len(self.stop))]:
            new = self.alive[row].new
            if token in self.stop:
                self.finished.append(Hypothesis(new, total, True))
            elif len(grown) < self.width:
                grown.append((row, Hypothesis([*new, token], total, False)))
        rows, self.alive = _in_place(grown)
        if len(self.finished) > ended:
            self.finished = self._sorted(self.finished)
        if self._settled():
            self.alive, rows = [], []
        return rows

    def _settled(self) -> bool:
        """Whether no living text can still become one of the best: log-probabilities only fall."""
        if not self.alive or len(self.finished) < self.width:
            return False
        longest = self.length if self.penalty > 0 else 1
        ceiling = max(text.total for text in self.alive) / longest**self.penalty
        return ceiling <= self.finished[-1].score(self.penalty)


def _in_place(grown: Sequence[tuple[int, Hypothesis]]) -> tuple[list[int], list[Hypothesis]]:
    """Texts with the rows that they come from, each in that row where it is free: those need no copy."""
    placed: list[tuple[int, Hypothesis] | None] = [None] * len(grown)
    others = []
    for pair in grown:
        row = pair[0]
        if row < len(placed) and placed[row] is None:
            placed[row] = pair
        else:
            others.append(pair)
    waiting = iter(others)
    ordered = [next(waiting) if pair is None else pair for pair in placed]
    return [row for row, _ in ordered], [text for _, text in ordered]
