from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from attnlab.config.values import ConfigError
from attnlab.data.batch import Batch
from attnlab.data.errors import DataError
from attnlab.data.example import Example, words_in
from attnlab.data.labels import Labels, tags_of
from attnlab.metrics.tags import entities, entity_counts, invalid, labels_of_tags
from attnlab.model.heads.head import Head
from attnlab.model.heads.labels import TokenClassification
from attnlab.model.losses import IGNORE, LossSum
from attnlab.model.model import Model
from attnlab.targets import TARGETS
from attnlab.targets.tags import TagTarget
from attnlab.tasks.labelled import summed
from attnlab.tasks.task import (
    ExampleColumns,
    Prediction,
    Prepared,
    SplitColumns,
    Task,
    TextSpan,
    tokens_of,
)
from attnlab.tasks.vocabulary import Vocabulary

NO_WORD = -1


@dataclass(frozen=True)
class TaggedWord:
    """A word with its tag, and the probability of that; None where the word is not read."""

    text: str
    tag: str
    probability: float | None


@dataclass(frozen=True, kw_only=True)
class TagPrediction(Prediction):
    """The entities of a text, and its words one by one."""

    of: ClassVar[Literal["labels", "words", "answer"]] = "words"
    words: tuple[TaggedWord, ...]


class Tagging(Task):
    """Tagging: each word of a text has a tag, such as B-PERSON, I-PERSON or O.

    Formula: −log softmax(scores)[tag], the mean over words: every word counts the same. The scores of a word
    are those of its first token (`pieces=first`), or the mean over its tokens (`pieces=mean`), which is the
    score of their mean vector. Tags with B-, I-, E- and S- before a hyphen make entities; others label
    single words.

    Cost: one score for each class at each token; a long text is read in overlapping windows, each a row.

    When it helps: names, dates, terms, parts of speech. Judge it by entity F1, compared with the rows of its
    classes; accuracy over words is high for a model that says O to all.

    Paper: Tjong Kim Sang and De Meulder 2003 (CoNLL-2003); Devlin et al. 2018, "BERT" (first piece).
    """

    target = TARGETS["tags"]
    sees = "all"
    packs = False
    heads: ClassVar[tuple[str, ...]] = ("token_classification",)
    head: ClassVar[str] = "token_classification"
    encodings: ClassVar[tuple[str, ...]] = ("words",)
    metrics = ("entity_f1", "entity_precision", "entity_recall", "tag_accuracy", "invalid_tags", "loss")

    def __init__(self, vocabulary: Vocabulary, labels: Labels, *, pieces: Literal["first", "mean"] = "first"):
        super().__init__(vocabulary, labels)
        self.target = TagTarget(first_piece=pieces == "first")
        self.first_piece = pieces == "first"
        self.entity_labels = labels_of_tags(labels.names)

    def label_of(self, example: Example) -> tuple[str, ...]:
        return tags_of(example)

    def blind_loss(self, prepared: Prepared) -> float:
        return math.log(self.labels.outputs)

    def flops(self, model: Model, prepared: Prepared) -> int:
        places = prepared.ids.numel() - prepared.count  # every token is scored, not the words alone
        return super().flops(model, prepared) + 3 * model.head.flops(places)

    def prepare(self, batch: Batch, seed: int) -> Prepared:
        if batch.tags is None:
            raise DataError("These rows have no tags, and the task is to predict them.")
        return replace(self.unlabelled(batch), targets=batch.tags)

    def unlabelled(self, batch: Batch) -> Prepared:
        return Prepared(
            ids=batch.ids,
            targets=torch.full_like(batch.ids, IGNORE),
            tokens=tokens_of(batch),
            words=batch.words,
            vectors=batch.vectors,
            of_examples=True,
        )

    def check(self, model: Model) -> None:
        super().check(model)
        assert isinstance(model.head, TokenClassification)
        if model.head.classes != self.labels.outputs:
            raise ConfigError(
                f"model.output has {model.head.classes} outputs, and there are {self.labels.outputs} tags; "
                'leave classes out, which is then what the data has ("labels").'
            )

    def scores(self, head: Head, hidden: Tensor, prepared: Prepared) -> Tensor:
        """(B,T,C) the scores of each token, or at the first token of each word the mean over its tokens."""
        scores = super().scores(head, hidden, prepared)
        return scores if self.first_piece else mean_of_pieces(scores, prepared)

    def head_loss(self, head: Head, hidden: Tensor, prepared: Prepared, *, training: bool) -> LossSum:
        scores = self.scores(head, hidden, prepared).transpose(1, 2)
        each = F.cross_entropy(scores, prepared.targets, reduction="none", ignore_index=IGNORE)
        return summed(each.sum(1), count=prepared.count)

    # ------------------------------------------------------------ rows
    def truth(self, prepared: Prepared) -> ExampleColumns:
        """(B,W) the words that each row labels, and their true tags."""
        return of_words(prepared, {"word_truth": prepared.targets})

    def head_outputs(self, head: Head, hidden: Tensor, prepared: Prepared) -> ExampleColumns:
        """(B,W) the words that each row labels, their tags, and how sure the model is of these."""
        scores = self.scores(head, hidden, prepared)
        tags, confidence = scores.argmax(-1), scores.softmax(-1).amax(-1)
        return of_words(prepared, {"word_tags": tags, "word_confidence": confidence})

    # ------------------------------------------------------------ texts
    def by_example(
        self, columns: SplitColumns, example: NDArray[np.int64]
    ) -> tuple[SplitColumns, NDArray[np.int64]]:
        """The words of each text out of those of its windows: what of them is right, as counts, since texts
        have different numbers of words; where that is not known, (n,W) their tags, −1 for a word without."""
        numbers, text = np.unique(example, return_inverse=True)
        row, entry = np.nonzero(columns["word"] != NO_WORD)
        row, entry = (places[np.lexsort([columns["word"][row, entry], text[row]])] for places in (row, entry))
        word, predicted = columns["word"][row, entry], columns["word_tags"][row, entry]
        if "word_truth" not in columns:
            by_word = {name: columns[name][row, entry] for name in ("word_tags", "word_confidence")}
            shape = len(numbers), int(word.max(initial=0)) + 1
            return {
                name: _placed(shape, text[row], word, column) for name, column in by_word.items()
            }, numbers
        ends = np.searchsorted(text[row], np.arange(1, len(numbers)))
        right = columns["word_truth"][row, entry]
        pairs = zip(np.split(right, ends), np.split(predicted, ends), strict=True)
        counts = [self.counts(*pair) for pair in pairs]
        by_text: SplitColumns = {name: np.stack([count[name] for count in counts]) for name in counts[0]}
        by_text |= {name: np.bincount(text, columns[name]) for name in ("nats", "targets") if name in columns}
        shape = len(numbers), int(word.max(initial=0)) + 1
        smallest = np.min_scalar_type(-len(self.labels.names))
        for name, tags in (
            ("word_truth", right),
            ("word_tags", predicted),
        ):  # a second count begins with these
            by_text[name] = _placed(shape, text[row], word, tags.astype(smallest))
        return by_text, numbers

    def counts(self, right: NDArray[np.int64], guesses: NDArray[np.int64]) -> SplitColumns:
        """Of a text: entities by label and words by tag (right, true, predicted), and invalid tags."""
        names = self.labels.names
        true, predicted = [names[n] for n in right], [names[n] for n in guesses]
        parts = right[right == guesses], right, guesses
        tags = [np.bincount(part, minlength=len(names)) for part in parts]
        return {
            "entities": entity_counts(true, predicted, self.entity_labels),
            "tag_counts": np.concatenate(tags).astype(np.float64),
            "invalid": np.array(float(invalid(predicted))),
        }

    def predictions(self, columns: Mapping[str, Any], texts: Sequence[Example]) -> list[Prediction]:
        rows = zip(columns["word_tags"].tolist(), columns["word_confidence"].tolist(), texts, strict=True)
        return [self.prediction(tags, sure, text) for tags, sure, text in rows]

    def prediction(self, tags: Sequence[int], sure: Sequence[float], example: Example) -> Prediction:
        """The entities that a text's tags make, and the lowest confidence of any of its words."""
        text, words = example.text, example.words or words_in(example.text)
        used_tags = tags[: len(words)]
        names = ["O" if tag == NO_WORD else self.labels.names[tag] for tag in used_tags]
        spans = tuple(
            TextSpan(begin, end, label, text[begin:end])
            for label, first, after in entities(names)
            for begin, end in [(words[first].start, words[after - 1].end)]
        )
        known = [chance for chance in sure[: len(words)] if chance != NO_WORD]
        answers = tuple(f"{span.text} ({span.label})" for span in spans)
        tagged = tuple(
            TaggedWord(text[word.start : word.end], name, None if chance == NO_WORD else chance)
            for word, name, chance in zip(words, names, sure, strict=False)
        )
        return TagPrediction(answer=answers, confidence=min(known, default=None), spans=spans, words=tagged)


def first_pieces(words: Tensor) -> Tensor:
    """(B,T) whether a token is the first of its word."""
    before = F.pad(words[:, :-1], (1, 0), value=-1)
    return (words >= 0) & (words != before)


def of_words(prepared: Prepared, columns: Mapping[str, Tensor]) -> ExampleColumns:
    """(B,W) out of columns (B,T) what they hold at the first token of each word, and the word; −1 after the
    last word of a row."""
    assert prepared.words is not None
    first = first_pieces(prepared.words)
    row, place = first.nonzero(as_tuple=True)
    entry = (first.cumsum(1) - 1)[row, place]
    shape = len(first), max(1, int(first.sum(1).max()))
    by_word: ExampleColumns = {}
    for name, column in {"word": prepared.words, **columns}.items():
        by_word[name] = column.new_full(shape, NO_WORD)
        by_word[name][row, entry] = column[row, place]
    return by_word


def _placed(
    shape: tuple[int, int], text: NDArray[np.int64], word: NDArray[np.int64], values: NDArray[Any]
) -> NDArray[Any]:
    """(n,W) values at their text and word, −1 elsewhere."""
    filled = np.full(shape, NO_WORD, values.dtype)
    filled[text, word] = values
    return filled


def mean_of_pieces(scores: Tensor, prepared: Prepared) -> Tensor:
    """(B,T,C) at every token the mean of the scores over the tokens of its word."""
    assert prepared.words is not None
    word = prepared.words.clamp(min=-1) + 1  # tokens of no word share a place that nobody asks for
    where = word[..., None].expand_as(scores)
    shape = (len(scores), int(word.max()) + 1, scores.shape[-1])
    sums = scores.new_zeros(shape).scatter_add(1, where, scores)
    counts = scores.new_zeros(shape[:2]).scatter_add(1, word, torch.ones_like(word, dtype=scores.dtype))
    return (sums / counts.clamp(min=1)[..., None]).gather(1, where)
