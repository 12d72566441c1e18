"""What a check asks of a model, whoever made it: one subject for runs of ours and for any torch module."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

from attnlab.checks.check import Case, Check
from attnlab.checks.paths import Made, Path, paths_of, place_by_place
from attnlab.checks.real import real
from attnlab.config.values import ConfigError
from attnlab.generation.decoder import Decoder, padded
from attnlab.model.heads.head import Head
from attnlab.model.isolation import sample_of, sampled_layers
from attnlab.model.model import Model, hidden_states
from attnlab.model.tokens import Tokens
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.runs.typed import Value
from attnlab.tasks.task import Prepared

LENGTH, WHOLE = 12, 1024
"""Tokens of a row of which every pair is looked at, and of a long row, of which some are."""
LONGEST = 512
"""Positions whose pairs are all looked at within minutes."""
EQUAL = 1e-9
"""Of the largest score, in float64: how far two ways to the same score may differ."""

Side = Literal["right", "left"]


class UnaskableError(ConfigError):
    """A model that cannot be asked: it is neither sound nor unsound."""

    kind = "cannot_be_asked"

    @property
    def values(self) -> Mapping[str, Value]:
        """What its finding holds."""
        return {"error": next(iter(str(self).splitlines()), "") or type(self).__name__}


@dataclass(frozen=True)
class Continuation:
    """A text that is being written: its prompt, its source, and the tokens written so far."""

    prompt: tuple[int, ...]
    source: tuple[int, ...]
    new: tuple[int, ...] = ()


class Writing(Protocol):
    """Texts that are written with a cache. `next` (B,V) are the scores of the next tokens."""

    next: Tensor

    def step(self, chosen: Tensor) -> object: ...

    def select(self, rows: Tensor) -> None: ...


class Subject(ABC):
    """A copy of a model, in float64 on the CPU, and the ways in which checks ask it.

    Ids are below `vocabulary`, texts have at most `room` tokens. Every pair of `length` positions is looked
    at, and some of `whole`. Two ways to the same score may differ by `equal` of the largest.
    """

    when: When
    model: nn.Module
    vocabulary: int
    room: int
    length: int
    whole: int
    equal: float
    masking = "-inf"
    claim: Mapping[str, Value] = {}
    """The mask that it was asked for, where that is a claim and not known of every layer."""
    prompts: tuple[int, ...] = (1, 3, 6)
    """How long the texts are that are given token by token, to be continued."""
    compares_gradients = False
    """Whether padding is asked about gradients too."""
    layers: tuple[int, int] | None = None
    """How many layers are asked, of how many, where not all are."""
    learned = False
    """Whether its weights were learned before."""

    # what an output depends on

    @abstractmethod
    def refuse_unusable(self) -> None:
        """Raise UnaskableError where no dependence can be measured."""

    @property
    def answers_by_place(self) -> bool:
        """Whether it has an answer for each place, and not only one for a whole text."""
        return True

    @property
    @abstractmethod
    def sees_later(self) -> bool:
        """Whether an output may depend on later tokens."""

    @property
    def prompt_share(self) -> float:
        """The share of a row that is read at once, as a source: it is never cut."""
        return 0.0

    @abstractmethod
    def paths(self) -> Iterator[Path]:
        """Every way through the model that can be asked."""

    @abstractmethod
    def plain_paths(self, length: int, *, training: bool = False) -> Iterator[Path]:
        """Rows of so many random tokens, without padding, in one mode."""

    @abstractmethod
    def scores_by_place(self, ids: Tensor, *, prompt: int, source: Tensor) -> Tensor:
        """The outputs (N,T,V) of rows whose first `prompt` tokens are read at once; `source` is for models
        that read one beside the text."""

    # ids

    @abstractmethod
    def outputs_of(self, ids: Tensor) -> Tensor:
        """What the model makes of each id (N) as a row of one token, (N,D) in float64."""

    def tables_of_ids(self) -> list[tuple[int, Callable[[Tensor], Tensor]]]:
        """How many ids each table has and the vectors (N,D) that it reads ids as; none where that is not
        known."""
        return []

    @property
    def text_ids(self) -> int:
        """How many ids a text may have; its source may have fewer, or more."""
        return self.vocabulary

    # padding and company

    @property
    @abstractmethod
    def padding_sides(self) -> tuple[Side, ...]:
        """Where padding may stand."""

    @abstractmethod
    def scores_of_rows(self, rows: Sequence[Tensor], side: Side) -> tuple[list[Tensor], Tensor]:
        """What each row scores in one batch, without its padding; and a sum of it all, for gradients."""

    # writing

    @property
    @abstractmethod
    def why_not_written(self) -> str:
        """The kind of a finding that says why it does not write with a cache; empty where it does."""

    @abstractmethod
    def writing(self, texts: Sequence[Continuation]) -> Writing:
        """These texts, read into a cache to be continued."""

    @abstractmethod
    def read(self, text: Continuation, *, last: int) -> Tensor:
        """The scores (n,V) after each of the last n tokens of a text, alone and without a cache."""

    def random_rows(self, lengths: Sequence[int], seed: int = 2) -> list[Tensor]:
        """Rows of random tokens."""
        generator = torch.Generator().manual_seed(seed)
        return [self.random_ids(length, generator) for length in lengths]

    def random_ids(self, count: int, generator: torch.Generator) -> Tensor:
        return torch.randint(self.vocabulary, (count,), generator=generator)


class ModelCheck(Check):
    """A check that asks a model alone, and so any model: ours, or a module of another project."""

    def run(self, case: Case) -> Finding:
        return self.ask(OwnSubject.of_case(case))

    def ask(self, subject: Subject) -> Finding:
        """What it finds; a model that cannot be asked is neither sound nor unsound."""
        try:
            finding = self.answer(subject)
        except UnaskableError as error:
            return self.unasked(subject.when, error)
        asked = finding.outcome is not Outcome.NOT_APPLICABLE
        return replace(finding, layers=subject.layers) if asked else finding

    def unasked(self, when: When, error: UnaskableError) -> Finding:
        return self.finding(when, Outcome.NOT_APPLICABLE, error.kind, None, **error.values)

    @abstractmethod
    def answer(self, subject: Subject) -> Finding:
        """What the subject's answers come to."""


class OwnSubject(Subject):
    """A model of ours: its layers declare what they see, it marks padding, documents and sources itself.

    `batch` gives a real batch as its task makes it, where there is a task.
    """

    equal = EQUAL
    compares_gradients = True
    padding_sides = ("right", "left")

    def __init__(
        self,
        model: Model,
        *,
        vocabulary: int | None = None,
        room: int | None = None,
        when: When = "before",
        length: int = LENGTH,
        whole: int = WHOLE,
        masking: str = "-inf",
        batch: Callable[[], Prepared | None] = lambda: None,
        copied: bool = True,
        learned: bool = False,
        sizes: Sequence[int] = (),
    ):
        """Without `copied` the model is asked as it is, in its own precision. `sizes` are the ids of texts
        and of sources, where these have vocabularies of their own."""
        self.model: Model = sample_of(model).double() if copied else model
        self.given = model
        self.layers = sampled_layers(model)
        self.vocabulary = model.common_vocabulary if vocabulary is None else vocabulary
        self.sizes = tuple(sizes) or (self.vocabulary,)
        self.room = int(min(model.trunk.longest, LONGEST)) if room is None else room
        self.length, self.whole = min(length, self.room), min(whole, self.room)
        self.when, self.masking, self.batch, self.learned = when, masking, batch, learned

    @classmethod
    def of_case(cls, case: Case) -> OwnSubject:
        """The model of a run, with the batches that it meets."""
        return cls(
            case.model,
            vocabulary=case.dataset.tokenizer.common_size,
            sizes=case.dataset.tokenizer.sizes,
            room=case.config.longest_text,
            when=case.when,
            masking=case.config.model.masking,
            batch=lambda: real(case),
            learned=case.pretrained,
        )

    def refuse_unusable(self) -> None:
        """None is: what cannot be run is a fault of its own, which is found."""

    @property
    def sees_later(self) -> bool:
        return self.model.trunk.sees == "all"

    @property
    def prompt_share(self) -> float:
        return 0.5 if self.model.trunk.asks_for_source else 0.0

    def paths(self) -> Iterator[Path]:
        return paths_of(self.model, self.batch(), self.vocabulary, length=self.length, whole=self.whole)

    def plain_paths(self, length: int, *, training: bool = False) -> Iterator[Path]:
        made, name = Made(self.model, self.vocabulary, length), "training" if training else "evaluation"
        return made.paths(name, training=training, asked=self.model.trunk)

    @torch.no_grad()
    def answers(self, ids: Tensor, *, source: Tensor) -> Tensor:
        """What the head makes of rows: scores of each place (N,T,V), or of each text (N,C)."""
        inputs: dict[str, Any] = {"source": source} if self.model.trunk.reads_source else {}
        scores: Tensor = self.model.eval()(ids, Tokens.of(ids.shape[1]), **inputs)
        return scores

    @torch.no_grad()
    def outputs_of(self, ids: Tensor) -> Tensor:
        """Its hidden states, of which the head makes scores."""
        trunk = self.model.trunk
        marked = torch.zeros(1, 1, dtype=torch.bool) if trunk.asks_for_source else None
        source = ids[:1, None] % trunk.tables()[-1].num_embeddings
        inputs: dict[str, Any] = {"source": source.expand(len(ids), 1)} if trunk.reads_source else {}
        tokens = Tokens.of(1, source=marked)
        states: Tensor = self.model.eval()(ids[:, None], tokens, objective=hidden_states, **inputs)
        return states.flatten(1)

    def tables_of_ids(self) -> list[tuple[int, Callable[[Tensor], Tensor]]]:
        tables = self.model.trunk.tables()
        if len(self.sizes) > 1:
            return [
                (size, partial(vectors_of, [table])) for size, table in zip(self.sizes, tables, strict=True)
            ]
        return [(self.vocabulary, partial(vectors_of, tables))] if tables else []

    @property
    def text_ids(self) -> int:
        return self.sizes[0]

    def scores_by_place(self, ids: Tensor, *, prompt: int, source: Tensor) -> Tensor:
        trunk, length = self.model.trunk, ids.shape[1]
        marked = (torch.arange(length) < prompt)[None] if trunk.asks_for_source else None
        inputs: dict[str, Any] = {"source": source} if trunk.reads_source else {}
        return place_by_place(self.model)(ids, Tokens.of(length, source=marked), **inputs)

    def scores_of_rows(self, rows: Sequence[Tensor], side: Side) -> tuple[list[Tensor], Tensor]:
        model = self.model.eval()
        ids, real = padded([row.tolist() for row in rows], side=side)
        kept = torch.ones_like(ids, dtype=torch.bool) if real is None else real
        first = kept & (kept.long().cumsum(1) <= 3)  # a source, for masks that ask for one
        source = first if model.trunk.asks_for_source else None
        inputs: dict[str, Any] = {}
        if model.trunk.reads_source:
            inputs = {"source": ids, "source_tokens": Tokens.of(ids.shape[1], real=real)}
        tokens = Tokens.of(ids.shape[1], real=real, source=source)
        scores, whole = model(ids, tokens, objective=by_place_and_row, **inputs)
        of_real = whole[kept] if whole.ndim == 3 else whole  # a head may score place by place as well
        each = [
            torch.cat([row[where].flatten(), judged[where].flatten() if judged.ndim > 1 else judged]).detach()
            for row, where, judged in zip(scores, kept, whole, strict=True)
        ]
        return each, weighted(scores[kept]) + weighted(of_real)

    @property
    def why_not_written(self) -> str:
        return "" if self.model.writes else "not_written"

    def writing(self, texts: Sequence[Continuation]) -> Writing:
        return Decoder(self.model, [text.prompt for text in texts], sources=self.sources(texts))

    def sources(self, texts: Sequence[Continuation]) -> list[tuple[int, ...]] | None:
        return [text.source for text in texts] if self.model.trunk.reads_source else None

    def read(self, text: Continuation, *, last: int) -> Tensor:
        ids = torch.tensor([[*text.prompt, *text.new]])
        prompt = (torch.arange(ids.shape[1]) < len(text.prompt))[None]
        source = prompt if self.model.trunk.asks_for_source else None
        inputs: dict[str, Any] = {}
        if self.model.trunk.reads_source:
            inputs = {"source": torch.tensor([text.source])}
        after = slice(None), slice(ids.shape[1] - last, None)
        scores: Tensor = self.model(ids, Tokens.of(ids.shape[1], source=source), places=after, **inputs)[0]
        return scores


@torch.no_grad()
def vectors_of(tables: Sequence[nn.Embedding], ids: Tensor) -> Tensor:
    """What tables hold for ids, side by side."""
    return torch.cat([table(ids) for table in tables], -1)


def by_place_and_row(head: Head, hidden: Tensor, tokens: Tokens, *, training: bool) -> tuple[Tensor, Tensor]:
    """A score for each place, and what the head makes of the row as a whole where the places are the
    trunk's."""
    scores = head(hidden, tokens)
    return (scores, hidden.new_empty(len(hidden), 0)) if head.scores_words else (hidden, scores)


def weighted(scores: Tensor) -> Tensor:
    """Some sum of all scores (…,V), to take gradients of."""
    weights = torch.randn(scores.shape[-1], generator=torch.Generator().manual_seed(0))
    return (scores @ weights.to(scores)).nan_to_num().sum()
