"""Text, token by token."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from attnlab.generation.decoder import Beyond, Decoder, PlacedPicture, check_length, window_start
from attnlab.generation.rules import Chance, DecodingRule, Greedy
from attnlab.model.model import Model

StopWhen = Callable[[int, list[int]], bool]
"""(row, its new tokens so far) -> whether to stop there, as for a stop string."""


@dataclass
class Written:
    """What was written after one prompt."""

    prompt: list[int]
    new: list[int] = field(default_factory=list)
    stopped: bool = False  # by a stop token or a stop string, not by the length


def generate(
    model: Model,
    prompts: Sequence[Sequence[int]],
    *,
    rule: DecodingRule | None = None,
    length: int = 100,
    stop: Collection[int] = (),
    stop_when: StopWhen = lambda row, new: False,
    sources: Sequence[Sequence[int]] | None = None,
    pictures: Sequence[PlacedPicture] | None = None,
    seed: int = 0,
    context: int | None = None,
    beyond: Beyond = "refuse",
) -> list[Written]:
    """Up to `length` new tokens after each prompt, all at once; the text is that of one by one."""
    texts = [Written(list(prompt)) for prompt in prompts]
    for _ in stream(
        model,
        texts,
        rule=rule or Greedy(),
        length=length,
        stop=stop,
        stop_when=stop_when,
        sources=sources,
        pictures=pictures,
        seed=seed,
        context=context,
        beyond=beyond,
    ):
        pass
    return texts


@torch.inference_mode()
def stream(
    model: Model,
    texts: list[Written],
    *,
    rule: DecodingRule,
    length: int,
    stop: Collection[int] = (),
    stop_when: StopWhen = lambda row, new: False,
    sources: Sequence[Sequence[int]] | None = None,
    pictures: Sequence[PlacedPicture] | None = None,
    seed: int = 0,
    context: int | None = None,
    beyond: Beyond = "refuse",
) -> Iterator[tuple[int, int]]:
    """Writes into `texts`, and gives each (row, token) as it is chosen; the stop token is not text."""
    prompts = [text.prompt for text in texts]
    check_length(prompts, length, context, beyond)
    model.eval()
    batch = UnfinishedTexts(model, texts, sources, context, pictures)
    chance = Chance(prompts, seed, sources)
    for step in range(length):
        chosen = rule.choose(rule.adjusted(batch.scores, batch.said), chance.draws(step, batch.rows))
        kept = list[int]()
        for place, (row, token) in enumerate(zip(batch.rows, chosen.tolist(), strict=True)):
            text = texts[row]
            text.stopped = token in stop
            if not text.stopped:
                text.new.append(token)
                yield row, token
                text.stopped = stop_when(row, text.new)
            if not text.stopped:
                kept.append(place)
        if not kept or step == length - 1:
            return
        batch.go_on(chosen, kept)


class UnfinishedTexts:
    """The texts that still go on, as rows of one batch; those that stopped leave it."""

    def __init__(
        self,
        model: Model,
        texts: Sequence[Written],
        sources: Sequence[Sequence[int]] | None,
        context: int | None,
        pictures: Sequence[PlacedPicture] | None = None,
    ):
        self.model, self.texts, self.sources, self.context = model, texts, sources, context
        self.pictures = pictures
        self.rows, self.starts = list(range(len(texts))), [0] * len(texts)
        self._move()
        self._read()
        self.said = torch.zeros_like(self.scores, dtype=torch.bool)  # (rows, V), for repetition
        for row, text in enumerate(texts):
            self.said[row, torch.tensor(text.prompt, device=self.said.device)] = True

    @property
    def scores(self) -> Tensor:
        """Of the next token, (rows, V)."""
        return self.writing.next

    def _move(self) -> bool:
        """Forget the beginning of texts that no longer fit the context; whether there are any."""
        before = list(self.starts)
        for row in self.rows:
            length = len(self.texts[row].prompt) + len(self.texts[row].new)
            self.starts[row] = window_start(self.starts[row], length, self.context)
        return self.starts != before

    def _read(self) -> None:
        """Read every text, from where its window starts."""
        rows = [(self.texts[row].prompt + self.texts[row].new)[self.starts[row] :] for row in self.rows]
        sources = None if self.sources is None else [self.sources[row] for row in self.rows]
        pictures = None if self.pictures is None else [self.pictures[row] for row in self.rows]
        self.writing = Decoder(self.model, rows, sources=sources, pictures=pictures)

    def go_on(self, chosen: Tensor, kept: Sequence[int]) -> None:
        """Write the chosen token (rows) in the rows at the places `kept`."""
        self.said.scatter_(1, chosen[:, None], True)
        if len(kept) < len(self.rows):
            places = torch.tensor(kept, device=chosen.device)
            self.rows = [self.rows[place] for place in kept]
            self.said, chosen = self.said[places], chosen[places]
            self.writing.select(places)
        if self._move():
            self._read()
        else:
            self.writing.step(chosen)
