from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.config.values import ConfigError
from attnlab.data.batch import Batch
from attnlab.data.errors import DataError
from attnlab.data.example import Example
from attnlab.data.labels import Labels, tags_of
from attnlab.data.tagged_text import words_in
from attnlab.metrics.tags import entities, entity_counts, invalid, labels_of_tags
from attnlab.model.heads.token_classification import TokenClassification
from attnlab.model.losses import IGNORE, LossSum
from attnlab.model.model import Model
from attnlab.tasks.labelled import summed
from attnlab.tasks.task import ExampleColumns, Prediction, Prepared, Task, TextSpan, tokens_of
from attnlab.tasks.vocabulary import Vocabulary

NO_WORD = -1


class Tagging(Task):
    """Tagging: each word of a text has a tag, such as B-PERSON, I-PERSON or O.

    Formula: Σ_words −log softmax(scores)[tag] of a text, divided by the mean number of words of a training
    text, so that every word counts the same and the scale is that of a word. The scores of a word are those
    of its first token (`pieces=first`), or the mean over its tokens (`pieces=mean`), which is the score of
    their mean vector. Tags with B-, I-, E- and S- before a hyphen make entities; others label single words.

    Cost: one score for each class at each token.

    When it helps: names, dates, terms, parts of speech. Judge it by entity F1, compared with the rows of its
    classes; accuracy over words is high for a model that says O to all.

    Paper: Tjong Kim Sang and De Meulder 2003 (CoNLL-2003); Devlin et al. 2018, "BERT" (first piece).
    """

    label_kind = "tags"
    sees = "all"
    packs = False
    heads: ClassVar[tuple[str, ...]] = ("token_classification",)
    head: ClassVar[str] = "token_classification"
    encodings: ClassVar[tuple[str, ...]] = ("words",)
    metrics = ("entity_f1", "entity_precision", "entity_recall", "tag_accuracy", "invalid_tags", "loss")

    def __init__(self, vocabulary: Vocabulary, labels: Labels, *, pieces: Literal["first", "mean"] = "first"):
        super().__init__(vocabulary, labels)
        self.pieces = pieces
        self.entity_labels = labels_of_tags(labels.names)
        self.mean_words = max(1.0, sum(labels.counts) / max(1, labels.examples))

    @property
    def first_piece(self) -> bool:
        return self.pieces == "first"

    def label_of(self, example: Example) -> tuple[str, ...]:
        return tags_of(example)

    def blind_loss(self, prepared: Prepared) -> float:
        words = int((prepared.targets != IGNORE).sum())
        return words / max(1, len(prepared.ids)) / self.mean_words * math.log(self.labels.outputs)

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

    def scores(self, model: Model, hidden: Tensor, prepared: Prepared) -> Tensor:
        """(B,T,C) the scores of each token, or at the first token of each word the mean over its tokens; in
        float32 at the least."""
        found: Tensor = model.head(hidden, prepared.tokens)
        found = found.float() if found.dtype in (torch.float16, torch.bfloat16) else found
        return found if self.first_piece else mean_of_pieces(found, prepared)

    def head_loss(self, model: Model, hidden: Tensor, prepared: Prepared) -> LossSum:
        scores = self.scores(model, hidden, prepared).transpose(1, 2)
        each = F.cross_entropy(scores, prepared.targets, reduction="none", ignore_index=IGNORE)
        return summed(each.sum(1) / self.mean_words)

    def head_outputs(self, model: Model, hidden: Tensor, prepared: Prepared) -> ExampleColumns:
        """What of each row is right, as counts: rows have different numbers of words."""
        said = self.scores(model, hidden, prepared).argmax(-1)
        rows = [
            self.counts(right[right != IGNORE].tolist(), found[right != IGNORE].tolist())
            for right, found in zip(prepared.targets.cpu(), said.cpu(), strict=True)
        ]
        return {name: torch.from_numpy(np.stack([row[name] for row in rows])) for name in rows[0]}

    def counts(self, right: Sequence[int], said: Sequence[int]) -> dict[str, np.ndarray]:
        """Of a sentence: entities by label and words by tag (right, true, predicted), and invalid tags."""
        names = self.labels.names
        true, told = [names[n] for n in right], [names[n] for n in said]
        tags = np.zeros((3, len(names)))
        np.add.at(tags[0], [n for n, m in zip(right, said, strict=True) if n == m], 1)
        np.add.at(tags[1], list(right), 1)
        np.add.at(tags[2], list(said), 1)
        return {
            "entities": entity_counts(true, told, self.entity_labels),
            "tag_counts": tags.reshape(-1),
            "invalid": np.array(float(invalid(told))),
        }

    def predict(self, model: Model, prepared: Prepared) -> ExampleColumns:
        """(B,W) the tag of each word, and how sure the model is of it; −1 where there is no such word, or it
        is cut off."""
        assert prepared.words is not None
        chances = self.scores(model, self.hidden(model, prepared), prepared).softmax(-1)
        sure, tag = chances.max(-1)
        first = first_pieces(prepared.words)
        rows, places = first.nonzero(as_tuple=True)
        shape = len(first), int(prepared.words.max()) + 1 if len(rows) else 1
        said = {
            "word_tags": tag.new_full(shape, NO_WORD),
            "word_confidence": sure.new_full(shape, NO_WORD),
        }
        said["word_tags"][rows, prepared.words[rows, places]] = tag[rows, places]
        said["word_confidence"][rows, prepared.words[rows, places]] = sure[rows, places]
        return said

    def predictions(self, said: Mapping[str, Any], texts: Sequence[Example]) -> list[Prediction]:
        rows = zip(said["word_tags"].tolist(), said["word_confidence"].tolist(), texts, strict=True)
        return [self.prediction(tags, sure, text) for tags, sure, text in rows]

    def prediction(self, tags: Sequence[int], sure: Sequence[float], example: Example) -> Prediction:
        """The entities that a text's tags make, and the lowest confidence of any of its words."""
        text, words = example.text, example.words or words_in(example.text)
        held = tags[: len(words)]
        names = ["O" if tag == NO_WORD else self.labels.names[tag] for tag in held]
        spans = tuple(
            TextSpan(begin, end, label, text[begin:end])
            for label, first, after in entities(names)
            for begin, end in [(words[first].start, words[after - 1].end)]
        )
        known = [chance for chance in sure[: len(words)] if chance != NO_WORD]
        told = tuple(f"{span.text} ({span.label})" for span in spans)
        return Prediction(answer=told, confidence=min(known, default=None), spans=spans)


def first_pieces(words: Tensor) -> Tensor:
    """(B,T) whether a token is the first of its word."""
    before = F.pad(words[:, :-1], (1, 0), value=-1)
    return (words >= 0) & (words != before)


def mean_of_pieces(scores: Tensor, prepared: Prepared) -> Tensor:
    """(B,T,C) at every token the mean of the scores over the tokens of its word."""
    assert prepared.words is not None
    word = prepared.words.clamp(min=-1) + 1  # tokens of no word share a place that nobody asks for
    where = word[..., None].expand_as(scores)
    shape = (len(scores), int(word.max()) + 1, scores.shape[-1])
    sums = scores.new_zeros(shape).scatter_add(1, where, scores)
    counts = scores.new_zeros(shape[:2]).scatter_add(1, word, torch.ones_like(word, dtype=scores.dtype))
    return (sums / counts.clamp(min=1)[..., None]).gather(1, where)
