"""Cached decoding against each text alone, without a cache."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from attnlab.checks.probing import prefix_gap
from attnlab.checks.sampling import sampling_excess
from attnlab.checks.subject import Continuation, ModelCheck, OwnSubject, Subject, UnaskableError
from attnlab.generation.beam import beam_searches
from attnlab.generation.generate import generate
from attnlab.model.isolation import undisturbed
from attnlab.model.model import Model
from attnlab.runs.findings import Finding, Outcome, When

SOURCES, STEPS = (4, 2, 5), 14  # so many steps outgrow a cache's first buffer
FEW, LONG = 4, 256
COPIED = 20_000_000
"""Parameters up to which a model is copied in float64 before it writes."""
ROUNDED = 1e-3
"""Of the largest score, what float32 may make of larger ones."""
IN_OWN_PRECISION = {"a whole text in its own precision": ROUNDED, "sampling": 1.0}
"""Uses of the model as it is, with what is allowed: of the largest score, and of what chance allows."""
BEAMS = 6  # of fewer, an untrained model's all come from one row


class Decoding(ModelCheck):
    """Decoding: does generated text follow the model's own scores?

    Formula: the scores of the next token, from the cache, against those of the same text alone, read
    anew without a cache, in a float64 copy, to 1e-9 of the largest: for one text, a second text
    after it, prompts of unequal length in one batch, rows that were reordered and repeated (as beams
    are), and a prompt as long as the model reads. A source is there where the model reads one. The
    tokens of greedy search must be the most likely ones, and the total of every beam the sum of its
    tokens' log-probabilities, both by scores without a cache; greedy search also with the model as it is, in
    its own precision, up to the length that it reads (256), to 1e-3. Of 500 sampled tokens the counts agree
    with the distribution that the rule declares (temperature, top_k, top_p, min_p, written out a second time)
    by a χ² that chance exceeds once in ten million times (before training alone: no step changes a rule).

    When it helps: a cache that mixes up rows, forgets positions or remembers the last text writes
    worse text than the model could, while its loss says nothing of it.

    Cannot see: what happens after more than 256 tokens, in batches of more than a dozen rows, or on other
    devices; rules of one's own, and repetition penalties.
    """

    when: ClassVar[tuple[When, ...]] = ("before", "after")
    limit: ClassVar[float] = 1.0
    same_for_seeds: ClassVar[bool] = True

    def answer(self, subject: Subject) -> Finding:
        if subject.why_not_written:
            return self.finding(subject.when, Outcome.NOT_APPLICABLE, subject.why_not_written)
        if subject.room < FEW:
            return self.finding(subject.when, Outcome.NOT_APPLICABLE, "no_room", room=subject.room)
        subject.model.eval()
        trial = Trial(subject)
        largest, uses = 0.0, 0
        for name, gap in trial.gaps():
            if name not in IN_OWN_PRECISION:
                largest = max(largest, gap)
            uses += 1
            if not gap <= IN_OWN_PRECISION.get(name, subject.equal):
                return self.differs(trial, name, gap)
        return self.finding(subject.when, Outcome.PASS, "uses_agree", largest, uses=uses)

    def differs(self, trial: Trial, name: str, gap: float) -> Finding:
        when = trial.subject.when
        if prefix_gap(trial.subject) > trial.subject.equal:
            return self.finding(when, Outcome.NOT_APPLICABLE, "later_tokens")
        return self.finding(when, Outcome.FAIL, "use_differs", gap, use=name, error=trial.error)


def miswrites(model: Model, vocabulary: int, room: int) -> bool:
    """The check in short, for a model that is opened to write: a batch of unequal prompts, reordered once.

    In float64, but for models that are too large to be copied for it.
    """
    if not model.writes or room < FEW:
        return False
    small = sum(parameter.numel() for parameter in model.parameters()) < COPIED
    subject = OwnSubject(model, vocabulary=vocabulary, room=room, copied=small)
    subject.model.eval()
    allowed = subject.equal if small else ROUNDED
    try:
        gap = Trial(subject).brief()
    except (IndexError, RuntimeError, ValueError):
        gap = math.inf
    return gap > allowed and prefix_gap(subject) <= allowed


class Trial:
    """A model that is asked in every way in which text is written."""

    def __init__(self, subject: Subject):
        self.subject, self.room = subject, subject.room
        self.generator = torch.Generator().manual_seed(3)
        self.error = ""
        self.known: dict[Continuation, Tensor] = {}
        longest = max(self.room - STEPS, self.room // 2)
        self.texts = [
            Continuation(self.tokens(min(prompt, longest)), self.tokens(min(source, self.room)))
            for prompt, source in zip(subject.prompts, SOURCES, strict=False)
        ]
        self.steps = min(STEPS, self.room - max(len(text.prompt) for text in self.texts))

    def tokens(self, count: int) -> tuple[int, ...]:
        return tuple(self.subject.random_ids(count, self.generator).tolist())

    @torch.no_grad()
    def gaps(self) -> Iterator[tuple[str, float]]:
        """Each use and the largest difference in it, the simple ones first: the first that fails is named."""
        uses: dict[str, Callable[[], Iterator[float]]] = {
            "one text": lambda: self.one(self.texts[-1]),
            "a second text": lambda: self.one(self.texts[-2]),
        }
        if isinstance(self.subject, OwnSubject):  # batches and searches are those of our own generation
            uses |= {
                "prompts of unequal length": self.unequal,
                "reordered rows": self.reordered,
                "a long prompt": self.long,
                "greedy search": partial(self.greedy, self.subject),
                "beam search": partial(self.beams, self.subject),
                "a whole text in its own precision": partial(self.whole, self.subject),
            }
        if isinstance(self.subject, OwnSubject) and self.subject.when != "after":  # which no step changes
            uses["sampling"] = partial(self.sampled, self.subject)
        for name, use in uses.items():
            try:
                yield name, max(use())
            except UnaskableError:
                raise
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

    def one(self, text: Continuation) -> Iterator[float]:
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

    def greedy(self, subject: OwnSubject) -> Iterator[float]:
        """How far each token that was chosen is from the most likely one. One text ends early, if it can."""
        first = int(self.alone(self.texts[0]).argmax())
        for stop in ((), (first,)):
            samples = generate(
                subject.model,
                [text.prompt for text in self.texts],
                length=min(FEW, self.steps),
                stop=stop,
                sources=subject.sources(self.texts),
            )
            for text, written in zip(self.texts, samples, strict=True):
                for scores, token in zip(self.along(text, written.new), written.new, strict=True):
                    yield distance(scores[token], scores.max(), scores)
        yield 0.0  # also where every text ended at once

    def whole(self, subject: OwnSubject) -> Iterator[float]:
        """Greedy search as a person runs it: the model in its own precision, up to the length it reads."""
        text = self.texts[0]
        with undisturbed(subject.given) as model:
            own = OwnSubject(model, vocabulary=subject.vocabulary, room=self.room, copied=False)
            length = min(self.room, LONG) - len(text.prompt)
            (written,) = generate(model, [text.prompt], length=length, sources=subject.sources([text]))
            scores = own.read(replace(text, new=tuple(written.new[:-1])), last=len(written.new))
        for each, token in zip(scores.double(), written.new, strict=True):
            yield distance(each[token], each.max(), each)

    def sampled(self, subject: OwnSubject) -> Iterator[float]:
        """How far sampled tokens are from the distribution that their rule declares."""
        text = self.texts[0]
        yield sampling_excess(subject.model, text.prompt, self.alone(text), subject.sources([text]))

    def beams(self, subject: OwnSubject) -> Iterator[float]:
        texts = self.texts[1:]
        prompts = [text.prompt for text in texts]
        length = min(FEW, self.steps)
        sources = subject.sources(texts)
        searches = beam_searches(subject.model, prompts, width=BEAMS, length=length, sources=sources)
        for text, hypotheses in zip(texts, searches, strict=True):
            for hypothesis in hypotheses:
                likely = self.along(text, hypothesis.new).log_softmax(-1)
                total = likely.gather(1, torch.tensor(hypothesis.new)[:, None]).sum()
                yield distance(torch.tensor(hypothesis.total, dtype=total.dtype), total, total)

    def alone(self, text: Continuation) -> Tensor:
        """The scores (V) of the token after a text, read anew in a batch of its own."""
        if text not in self.known:
            self.known[text] = self.subject.read(text, last=1)[0]
        return self.known[text]

    def along(self, text: Continuation, new: Sequence[int]) -> Tensor:
        """The scores (n,V) of each of n new tokens, from one reading: where they depended on later tokens,
        they would not be those of writing, and `differs` finds it."""
        return self.subject.read(replace(text, new=tuple(new[:-1])), last=len(new))


class CachedBatch:
    """Texts that are written side by side, with a cache."""

    def __init__(self, trial: Trial, texts: Sequence[Continuation]):
        self.trial, self.texts = trial, list(texts)
        self.writing = trial.subject.writing(texts)

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
