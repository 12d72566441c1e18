"""Cached decoding against each text alone, without a cache."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from attnlab.checks.check import Case, Check, Moment
from attnlab.checks.dependency import EQUAL, LENGTH, prefix_gap
from attnlab.generation.beam import beam_searches
from attnlab.generation.decoder import Decoder
from attnlab.generation.generate import generate
from attnlab.model.isolation import sample_of
from attnlab.model.model import Model
from attnlab.model.tokens import Tokens
from attnlab.runs.findings import Finding, Outcome, When

PROMPTS, SOURCES, STEPS = (1, 3, 6), (4, 2, 5), 14  # so many steps outgrow a cache's first buffer
FEW, LONG = 4, 256
COPIED = 20_000_000
"""Parameters up to which a model is copied in float64 before it writes."""
ROUNDED = 1e-3
"""Of the largest score, what float32 may make of larger ones."""
BEAMS = 6  # of fewer, an untrained model's all come from one row


class Decoding(Check):
    """Decoding: does generated text follow the model's own scores?

    Formula: the scores of the next token, from the cache, against those of the same text alone, read
    anew without a cache, in a float64 copy, to 1e-9 of the largest: for one text, a second text
    after it, prompts of unequal length in one batch, rows that were reordered and repeated (as beams
    are), and a prompt as long as the model reads. A source is there where the model reads one. The
    tokens of greedy search must be the most likely ones, and the total of every beam the sum of its
    tokens' log-probabilities, both by scores without a cache.

    When it helps: a cache that mixes up rows, forgets positions or remembers the last text writes
    worse text than the model could, while its loss says nothing of it.

    Cannot see: what happens after more than 14 new tokens, in batches of more than a dozen rows, or in
    float32 and fewer bits; sampling rules.
    """

    when: ClassVar[tuple[When, ...]] = ("before", "after")
    limit: ClassVar[float] = 1.0
    samples_layers: ClassVar[bool] = True

    def run(self, case: Case) -> Finding:
        return self.of_model(case, case.model, case.dataset.tokenizer.size, case.config.longest_text)

    def of_model(self, at: Moment, model: Model, vocabulary: int, room: int) -> Finding:
        """A model of ours that reads `room` tokens."""
        if not model.writes:
            return self.finding(at, Outcome.NOT_APPLICABLE, "not_written")
        if room < FEW:
            return self.finding(at, Outcome.NOT_APPLICABLE, "no_room", room=room)
        trial = Trial(sample_of(model).double().eval(), vocabulary, room)
        largest, uses = 0.0, 0
        for name, gap in trial.gaps():
            largest, uses = max(largest, gap), uses + 1
            if not gap <= EQUAL:
                return self.differs(at, trial, name, gap)
        return self.finding(at, Outcome.PASS, "uses_agree", largest, uses=uses)

    def differs(self, at: Moment, trial: Trial, name: str, gap: float) -> Finding:
        if prefix_gap(trial.model, trial.vocabulary, min(LENGTH, trial.room)) > EQUAL:
            return self.finding(at, Outcome.NOT_APPLICABLE, "later_tokens")
        return self.finding(at, Outcome.FAIL, "use_differs", gap, use=name, error=trial.error)

    def judge(self, at: Moment, gap: float, tokens: int, equal: float) -> Finding:
        """How far scores of tokens that are given one by one, with a cache, are from those of the whole."""
        if not gap <= equal:
            return self.finding(at, Outcome.FAIL, "differ", gap, tokens=tokens)
        return self.finding(at, Outcome.PASS, "agree", gap, tokens=tokens)


def miswrites(model: Model, vocabulary: int, room: int) -> bool:
    """The check in short, for a model that is opened to write: a batch of unequal prompts, reordered once.

    In float64, but for models that are too large to be copied for it.
    """
    if not model.writes or room < FEW:
        return False
    small = sum(parameter.numel() for parameter in model.parameters()) < COPIED
    trial = Trial(sample_of(model).double().eval() if small else model.eval(), vocabulary, room)
    allowed = EQUAL if small else ROUNDED
    try:
        gap = trial.brief()
    except (IndexError, RuntimeError, ValueError):
        gap = math.inf
    return gap > allowed and prefix_gap(trial.model, vocabulary, min(LENGTH, room)) <= allowed


@dataclass(frozen=True)
class TrialText:
    """What one row of a batch holds."""

    prompt: tuple[int, ...]
    source: tuple[int, ...]
    new: tuple[int, ...] = ()


class Trial:
    """A model that is asked in every way in which text is written."""

    def __init__(self, model: Model, vocabulary: int, room: int):
        self.model, self.vocabulary, self.room = model, vocabulary, room
        self.generator = torch.Generator().manual_seed(3)
        self.error = ""
        self.known: dict[TrialText, Tensor] = {}
        longest = max(room - STEPS, room // 2)
        self.texts = [
            TrialText(self.tokens(min(prompt, longest)), self.tokens(min(source, room)))
            for prompt, source in zip(PROMPTS, SOURCES, strict=True)
        ]
        self.steps = min(STEPS, room - max(len(text.prompt) for text in self.texts))

    def tokens(self, count: int) -> tuple[int, ...]:
        return tuple(torch.randint(self.vocabulary, (count,), generator=self.generator).tolist())

    @torch.no_grad()
    def gaps(self) -> Iterator[tuple[str, float]]:
        """Each use and the largest difference in it, the simple ones first: the first that fails is named."""
        uses: dict[str, Callable[[], Iterator[float]]] = {
            "one text": lambda: self.one(self.texts[-1]),
            "a second text": lambda: self.one(self.texts[-2]),
            "prompts of unequal length": self.unequal,
            "reordered rows": self.reordered,
            "a long prompt": self.long,
            "greedy search": self.greedy,
            "beam search": self.beams,
        }
        for name, use in uses.items():
            try:
                yield name, max(use())
            except (IndexError, RuntimeError, ValueError) as error:
                self.error = str(error).strip().splitlines()[0]
                yield name, math.inf

    @torch.no_grad()
    def brief(self) -> float:
        """The largest difference in a few steps of the uses that go wrong most often."""
        batch = CachedBatch(self, self.texts)
        before = batch.gap()
        batch.step(self.tokens(len(batch.texts)))
        batch.select([2, 0, 0, 1])
        batch.step(self.tokens(len(batch.texts)))
        return max(before, batch.gap())

    def one(self, text: TrialText) -> Iterator[float]:
        batch = CachedBatch(self, [replace(text, prompt=text.prompt[:1])])
        for token in text.prompt[1:]:
            batch.step([token])
            yield batch.gap()

    def unequal(self) -> Iterator[float]:
        batch = CachedBatch(self, self.texts)
        yield batch.gap()
        batch.step(self.tokens(len(self.texts)))
        yield batch.gap()

    def reordered(self) -> Iterator[float]:
        batch = CachedBatch(self, self.texts)
        batch.step(self.tokens(len(batch.texts)))
        batch.select([2, 0, 0, 1])
        for left in reversed(range(self.steps - 1)):
            batch.step(self.tokens(len(batch.texts)))
            if left == 1:
                yield batch.gap()
                batch.select([1, 3])
        yield batch.gap()

    def long(self) -> Iterator[float]:
        whole = min(self.room, LONG) - FEW + 1
        batch = CachedBatch(self, [replace(self.texts[0], prompt=self.tokens(whole)), self.texts[1]])
        for _ in range(FEW - 1):
            batch.step(self.tokens(2))
        yield batch.gap()

    def greedy(self) -> Iterator[float]:
        """How far each token that was chosen is from the most likely one. One text ends early, if it can."""
        first = int(self.alone(self.texts[0]).argmax())
        for stop in ((), (first,)):
            samples = generate(
                self.model,
                [text.prompt for text in self.texts],
                length=min(FEW, self.steps),
                stop=stop,
                sources=self.sources(self.texts),
            )
            for text, written in zip(self.texts, samples, strict=True):
                for scores, token in zip(self.along(text, written.new), written.new, strict=True):
                    yield distance(scores[token], scores.max(), scores)
        yield 0.0  # also where every text ended at once

    def beams(self) -> Iterator[float]:
        texts = self.texts[1:]
        prompts = [text.prompt for text in texts]
        length = min(FEW, self.steps)
        searches = beam_searches(self.model, prompts, width=BEAMS, length=length, sources=self.sources(texts))
        for text, hypotheses in zip(texts, searches, strict=True):
            for one in hypotheses:
                likely = self.along(text, one.new).log_softmax(-1)
                total = likely.gather(1, torch.tensor(one.new)[:, None]).sum()
                yield distance(torch.tensor(one.total, dtype=total.dtype), total, total)

    def sources(self, texts: Sequence[TrialText]) -> list[tuple[int, ...]] | None:
        return [text.source for text in texts] if self.model.trunk.reads_source else None

    def alone(self, text: TrialText) -> Tensor:
        """The scores (V) of the token after a text, read anew in a batch of its own."""
        if text not in self.known:
            self.known[text] = self.read(text, last=1)[0]
        return self.known[text]

    def along(self, text: TrialText, new: Sequence[int]) -> Tensor:
        """The scores (n,V) of each of n new tokens, from one reading: where they depended on later tokens,
        they would not be those of writing, and `differs` finds it."""
        return self.read(replace(text, new=tuple(new[:-1])), last=len(new))

    def read(self, text: TrialText, *, last: int) -> Tensor:
        """The scores (n,V) after each of the last n tokens of a text, in a batch of its own."""
        ids = torch.tensor([[*text.prompt, *text.new]])
        prompt = (torch.arange(ids.shape[1]) < len(text.prompt))[None]
        source = prompt if self.model.trunk.asks_for_source else None
        tokens = Tokens.of(ids.shape[1], source=source)
        inputs: dict[str, Any] = {}
        if self.model.trunk.reads_source:
            inputs = {"source": torch.tensor([text.source])}
        after = slice(None), slice(ids.shape[1] - last, None)
        scores: Tensor = self.model(ids, tokens, places=after, **inputs)[0]
        return scores


class CachedBatch:
    """Texts that are written side by side, with a cache."""

    def __init__(self, trial: Trial, texts: Sequence[TrialText]):
        self.trial, self.texts = trial, list(texts)
        prompts = [text.prompt for text in texts]
        self.writing = Decoder(trial.model, prompts, sources=trial.sources(texts))

    def step(self, tokens: Sequence[int]) -> None:
        self.writing.step(torch.tensor(tokens))
        pairs = zip(self.texts, tokens, strict=True)
        self.texts = [replace(text, new=(*text.new, token)) for text, token in pairs]

    def select(self, rows: Sequence[int]) -> None:
        self.writing.select(torch.tensor(rows))
        self.texts = [self.texts[row] for row in rows]

    def gap(self) -> float:
        """How far the scores are from those of each text alone, of the largest."""
        alone = [self.trial.alone(text) for text in self.texts]
        return max(distance(own, other, other) for own, other in zip(self.writing.next, alone, strict=True))


def distance(own: Tensor, other: Tensor, scale: Tensor) -> float:
    """The largest difference, of the largest number; what is no number is infinitely far."""
    apart = torch.where(own == other, 0.0, (own - other).abs())  # −inf is −inf: a token that is never said
    largest = scale[scale.isfinite()].abs().max() if bool(scale.isfinite().any()) else scale.new_ones(())
    return float(apart.max().nan_to_num(torch.inf) / largest.clamp(min=1e-30))
