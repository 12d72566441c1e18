"""The contract of a task: what the model reads, what it is to say, and how wrong it was."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from attnlab.config.values import ConfigError
from attnlab.data.batch import Batch
from attnlab.data.example import Example
from attnlab.data.labels import UNREAD, LabelReader, Labels
from attnlab.metrics.metric import CLUSTER
from attnlab.model.heads import HEADS
from attnlab.model.heads.head import Head
from attnlab.model.heads.language import language_head
from attnlab.model.losses import IGNORE, LossSum
from attnlab.model.model import Model, Objective
from attnlab.model.tokens import Tokens
from attnlab.model.trunks.trunk import Sees
from attnlab.targets import TARGETS
from attnlab.targets.target import Target
from attnlab.tasks import TASKS
from attnlab.tasks.vocabulary import Ids, Vocabulary


@dataclass(frozen=True)
class TextSpan:
    """A labelled part of a text, from character to character."""

    start: int
    end: int
    label: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What a model makes of one example: a class, several classes, or a number; `confidence` is the
    probability that it gives to that, `scores` those of all classes. `spans` are the parts of the text that
    it labels, which are then the answer. Where the text cannot be read there is no answer (None), and
    `unread` says why."""

    answer: str | tuple[str, ...] | float | None
    confidence: float | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    spans: tuple[TextSpan, ...] | None = None
    unread: str = ""
    of: ClassVar[Literal["labels", "words", "answer"]] = "labels"
    """What is predicted: labels of a text, the label of each of its words, or an answer from it."""

    @property
    def columns(self) -> dict[str, Any]:
        """What is written of it in a row of a table."""
        return {"prediction": self.answer, "confidence": self.confidence}


@dataclass(frozen=True, kw_only=True)
class Spans:
    """M masked tokens, each with its span [start, end] in its row; all (M)."""

    row: Tensor
    start: Tensor
    end: Tensor
    place: Tensor


@dataclass(frozen=True, kw_only=True)
class PassagePlaces:
    """Where each token of a passage begins and ends in its text, in characters; both (B,T), −1 for tokens
    that are not of it."""

    start: Tensor
    end: Tensor


INPUTS = "ids", "tokens", "types", "vectors", "source", "source_tokens", "second", "second_tokens", "features"
"""What of a prepared batch the model reads."""


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """What one forward needs: ids (B,T) that the model reads, targets (B,T) with IGNORE for none; of a task
    about examples, one target for each: (B) classes or numbers, (B,C) flags, (B,2) first and last token;
    where words are labelled, (B,T) the tag of each at its first token.

    `source` (B,S) is what an encoder reads beside them. `sizes` (B,T) are the bytes of text that each
    target stands for; None where bits per byte would mean nothing, since much of the text is given.
    """

    ids: Tensor
    targets: Tensor
    tokens: Tokens
    types: Tensor | None = None
    vectors: Tensor | None = None
    """(B,T,W) what is read beside the ids."""
    source: Tensor | None = None
    source_tokens: Tokens | None = None
    spans: Spans | None = None
    passage: PassagePlaces | None = None
    sizes: Tensor | None = None
    of_examples: bool = False
    """Whether what is said is about a row as a whole, and not about each of its tokens."""
    second: Tensor | None = None
    """(B,U) a second text of each row that the same model reads apart, and its coordinates."""
    second_tokens: Tokens | None = None
    words: Tensor | None = None
    """(B,T) the word of its row that each token belongs to, −1 for none, where words are labelled."""
    features: Tensor | None = None
    """(B,D) what a frozen trunk made of each text before: it does not read them again."""

    @property
    def inputs(self) -> dict[str, Any]:
        """What the model is called with."""
        named = {name: getattr(self, name) for name in INPUTS}
        return {name: value for name, value in named.items() if value is not None}

    @property
    def bytes(self) -> int:
        """The bytes of text that the targets stand for, 0 where they are not counted."""
        return 0 if self.sizes is None else int(self.sizes[self.targets != IGNORE].sum())

    @property
    def count(self) -> int:
        """How many targets there are."""
        return int(self.row_targets.sum())

    @property
    def row_targets(self) -> Tensor:
        """(B) how many targets each row has: one of an example, but for a task that labels its words."""
        if self.of_examples and self.words is None:
            return torch.ones(len(self.ids), dtype=torch.long, device=self.ids.device)
        return (self.targets != IGNORE).sum(1)

    def to(self, device: torch.device | str) -> Prepared:
        if torch.device(device) == self.ids.device:
            return self

        def moved(value: Any) -> Any:
            if isinstance(value, Tensor):
                return value.to(device)
            if isinstance(value, Tokens):
                return value.map(lambda field: field.to(device), value.span)
            if isinstance(value, (Spans, PassagePlaces)):
                return type(value)(**{name: field.to(device) for name, field in vars(value).items()})
            return value

        return replace(self, **{name: moved(value) for name, value in vars(self).items()})


NO_LABELS = Labels()
ExampleColumns = dict[str, Tensor]
"""What a model said of each example, or what was right: named tensors (B) or (B,k)."""
SplitColumns = dict[str, NDArray[Any]]
"""The same of all that was scored together, (n) or (n,k): what metrics are made of."""


class Task(ABC):
    """What a model is for.

    `prepare` is a pure function of the batch and a seed, so that a step can be done again. What is made of
    the hidden states is an objective, which the model calls inside its forward: `loss_of` sums over targets,
    so that parts of a batch add up to the whole; `judge_of` also says what the model makes of each example,
    where the task is about examples and not about their words. A task of one's own gives `head_loss`, and
    `head_outputs` where it is about examples.
    """

    heads: ClassVar[tuple[str, ...]] = ("language_model", "span_boundary", "sentence_pair")
    """The kinds of model.output that give what it needs."""
    head: ClassVar[str] = "language_model"
    """The model.output that is chosen where none is set."""
    metrics: ClassVar[tuple[str, ...]] = ("loss", "perplexity", "bits_per_byte")
    """What it is judged by; the first decides which checkpoint is the best, and a study's verdict."""
    target: Target = TARGETS["none"]
    """What it predicts."""
    compares_text: ClassVar[bool] = False
    """Whether `compare` asks for the text of the examples."""

    sees: ClassVar[Sees] = "before"
    """What the output at a place may depend on."""
    predicted_column: ClassVar[Literal["ids", "target"]] = "ids"
    """Which of an encoded row's columns holds the tokens that are predicted."""
    predicts_all: ClassVar[bool] = False
    """Whether every token of that column but the first is a target."""
    marks_source: ClassVar[bool] = False
    """Whether it says which tokens are in the source, as the mask `prefix` asks."""
    two_stacks: ClassVar[bool] = False
    """Whether it is for an encoder-decoder."""
    packs: ClassVar[bool] = True
    """Whether several texts may share a line of the batch."""
    encodings: ClassVar[tuple[str, ...]] = ("document", "single", "pair")
    """The values of data.encoding under which it finds what it needs; the first is the default."""

    def __init__(self, vocabulary: Vocabulary, labels: Labels = NO_LABELS):
        self.vocabulary, self.labels = vocabulary, labels
        self._trunk_flops: dict[tuple[int, int], int] = {}

    @abstractmethod
    def prepare(self, batch: Batch, seed: int) -> Prepared:
        """What the model reads and is to say."""

    @property
    def predicts_words(self) -> bool:
        """Whether targets are tokens of the text, or of another one, and not labels."""
        return self.target.of_words

    def label_of(self, example: Example) -> Any:
        """The label of an example: a name, several names, or a number."""
        raise NotImplementedError

    @property
    def reader(self) -> LabelReader:
        """How labels are read, for the data."""
        if self.predicts_words:
            return UNREAD
        read = type(self).label_of
        identity = f"{read.__module__}.{read.__qualname__}"
        if self.target.name != type(self).target.name:  # by its options, with other rows
            identity += f" {self.target.name}"
        return LabelReader(self.target, self.label_of, identity)

    def truth(self, prepared: Prepared) -> ExampleColumns:
        """What was right for each example, in the columns that metrics go by; nothing for words."""
        return {}

    def unlabelled(self, batch: Batch) -> Prepared:
        """What the model reads of rows whose labels are not known."""
        raise NotImplementedError

    def predict(self, model: nn.Module, prepared: Prepared) -> ExampleColumns:
        """What the model says of each example; nothing where the task predicts words."""

        def said(head: Head, hidden: Tensor, tokens: Tokens, *, training: bool) -> ExampleColumns:
            return self.head_outputs(head, hidden, prepared)

        columns: ExampleColumns = model(**prepared.inputs, objective=said)
        return columns

    def head_outputs(self, head: Head, hidden: Tensor, prepared: Prepared) -> ExampleColumns:
        """What a head makes of the hidden states, as `predict` says it."""
        return {}

    def by_example(
        self, columns: SplitColumns, example: NDArray[np.int64]
    ) -> tuple[SplitColumns, NDArray[np.int64]]:
        """Columns of examples out of those of encoded rows, once all rows are there that are scored together.

        `example` (n) numbers the example of each row; what comes back numbers that of each entry. As they are
        where a row is an example; otherwise windows of one text are put together here, and a text is ranked
        among all others.
        """
        return columns, example

    def compare(self, columns: SplitColumns, texts: Sequence[Example]) -> SplitColumns:
        """The columns of examples with what follows from their own text, such as which answers are right, and
        which of them a person put into one group."""
        if CLUSTER in columns or all(text.group is None for text in texts):
            return columns
        groups = [f"row {n}" if text.group is None else f"group {text.group}" for n, text in enumerate(texts)]
        return columns | {CLUSTER: np.unique(groups, return_inverse=True)[1]}

    def fit_decision(self, examples: Mapping[str, NDArray[Any]]) -> dict[str, float]:
        """What predictions go by that is chosen on dev, from the columns of its examples; it is kept with
        the checkpoint. Nothing for most."""
        return {}

    def with_decision(self, settings: Mapping[str, float]) -> Self:
        """The task that goes by what was fitted on dev."""
        return self

    def predictions(self, columns: Mapping[str, Any], texts: Sequence[Example]) -> list[Prediction]:
        """The columns of examples as one prediction for each, in a person's words."""
        return []

    def blind_loss(self, prepared: Prepared) -> float:
        """What a model loses that knows nothing: nats per target, of these targets."""
        return math.log(self.vocabulary.size)

    @property
    def command(self) -> str:
        """The command of `attnlab` that asks a trained model for what it predicts."""
        return 'generate RUN "…"' if self.predicts_words else 'predict RUN "…"'

    @property
    def continues(self) -> bool:
        """Whether each token of a text is predicted from those before it, so that any text has a
        probability and any beginning can be gone on with."""
        return self.predicts_words and self.sees == "before"

    @property
    def fills(self) -> bool:
        """Whether tokens hidden within a text are predicted from all of the text."""
        return self.predicts_words and self.sees == "all"

    @property
    def writes_target(self) -> bool:
        """Whether a text of its own is written after each source, to be compared with the right one."""
        return self.predicts_words and self.predicted_column == "target"

    def read(self, text: Ids, seed: int) -> Ids:
        """What an encoder reads of a row's ids (T), where the task is for one with a decoder."""
        return text

    @property
    def span_lengths(self) -> tuple[float, ...]:
        """The probability of each length in words from 1 on, where stretches of text are hidden by a length
        that is drawn."""
        return ()

    @property
    def shown_targets(self) -> float:
        """The share of targets that the model may read at their own place; 0 where it predicts the next."""
        return 0.0

    @property
    def shown_source(self) -> float:
        """The share of the targets that the source may hold as they are; 1 where the data decides it."""
        return 1.0

    def last_seen(self, length: int, marked: Tensor | None = None) -> Tensor:
        """(T) the last place of a text that the output at each may depend on; `marked` (T) is its source."""
        places = torch.arange(length)
        return torch.full_like(places, length - 1) if self.sees == "all" else places

    def loss(self, model: nn.Module, prepared: Prepared) -> LossSum:
        """How wrong the model was, as a sum over the targets."""
        loss: LossSum = model(**prepared.inputs, objective=self.loss_of(prepared))
        return loss

    def loss_of(self, prepared: Prepared) -> Objective:
        """The objective of a training step."""

        def loss(head: Head, hidden: Tensor, tokens: Tokens, *, training: bool) -> LossSum:
            return self.head_loss(head, hidden, prepared, training=training)

        return loss

    def judge_of(self, prepared: Prepared) -> Objective:
        """The objective of an evaluation: what was said of each example and what was right, and the loss."""

        def judge(
            head: Head, hidden: Tensor, tokens: Tokens, *, training: bool
        ) -> tuple[ExampleColumns, LossSum]:
            loss = self.head_loss(head, hidden, prepared, training=training)
            if not prepared.of_examples:
                return {}, loss
            return self.truth(prepared) | self.head_outputs(head, hidden, prepared), loss

        return judge

    def scores(self, head: Head, hidden: Tensor, prepared: Prepared) -> Tensor:
        """What the head gives, in float32 at the least."""
        scores: Tensor = head(hidden, prepared.tokens)
        return scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores

    def head_loss(self, head: Head, hidden: Tensor, prepared: Prepared, *, training: bool) -> LossSum:
        """How wrong a head is about the hidden states; in `training` with what that adds to the loss."""
        return language_head(head).loss(hidden, prepared.targets)

    def check(self, model: Model) -> None:
        """Refuse a model that cannot be trained this way, before any work; a ConfigError says why."""
        name = TASKS.name_of(type(self))
        if not isinstance(model.head, tuple(HEADS[head] for head in self.heads)):
            raise ConfigError(
                f'task "{name}" predicts {"words" if self.predicts_words else "labels"}; set model.output to '
                f"{' or '.join(self.heads)}."
            )
        if model.trunk.reads_source != self.two_stacks:
            fix = "encoder_decoder" if self.two_stacks else "decoder or encoder"
            raise ConfigError(f'task "{name}" is not for this model; set model.family to {fix}.')
        if model.trunk.asks_for_source and not self.marks_source:
            raise ConfigError(
                f'model.mask asks which tokens are in the source, and task "{name}" marks none; '
                'use task "prefix" or "unilm", or another mask.'
            )

    def flops(self, model: Model, prepared: Prepared) -> int:
        """Operations of one step on this: a forward, and a backward of twice its cost."""
        rows, length = prepared.ids.shape
        lengths = length, prepared.source.shape[1] if prepared.source is not None else length
        if lengths not in self._trunk_flops:
            self._trunk_flops[lengths] = sum(term.count for term in model.trunk.flop_terms(*lengths))
        return 3 * (rows * self._trunk_flops[lengths] + model.head.flops(prepared.count))


def tokens_of(batch: Batch, *, backward_looking: bool = False, source: Tensor | None = None) -> Tokens:
    """The coordinates of a batch.

    Padding is left out where no token that counts can see it: fast paths then need no mask for it.
    """
    return Tokens.of(
        batch.ids.shape[1],
        real=None if _unseen_padding(batch, backward_looking) else batch.real,
        document=batch.document,
        position=batch.position,
        source=batch.source if source is None else source,
        patch=patches_of(batch),
    )


def patches_of(batch: Batch) -> Tensor | None:
    """(1|B,T) the patches of pictures; one row where all rows have theirs in the same places."""
    patch: Tensor | None = batch.patch
    if patch is None or not bool((patch == patch[:1]).all()):
        return patch
    return patch[:1]


def _unseen_padding(batch: Batch, backward_looking: bool) -> bool:
    real = batch.real
    if bool(real.all()):
        return True
    if batch.document is not None:  # padding is a document of its own
        return True
    return backward_looking and bool((real[:, 1:] <= real[:, :-1]).all())


def next_tokens(batch: Batch, among: Tensor | None = None) -> Tensor:
    """(B,T) the token after each, where it is of the same text and `among` (B,T) the wanted; else IGNORE."""
    targets = torch.full_like(batch.ids, IGNORE)
    there = batch.real[:, 1:] & batch.real[:, :-1]
    if batch.document is not None:
        there = there & (batch.document[:, 1:] == batch.document[:, :-1])
    if among is not None:
        there = there & among[:, 1:]
    targets[:, :-1] = torch.where(there, batch.ids[:, 1:], IGNORE)
    return targets


def next_sizes(batch: Batch) -> Tensor:
    """(B,T) the bytes of the token after each."""
    return torch.nn.functional.pad(batch.sizes[:, 1:], (0, 1))
