"""How good a label for each word is, by entities as seqeval counts them, and by words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attnlab.metrics.classes import ClassScores
from attnlab.metrics.metric import Examples, Floats, Metric, ratio

OUTSIDE = "O"
Entity = tuple[str, int, int]
"""A label, its first word, and the word after its last."""


def parted(tag: str) -> tuple[str, str]:
    """The prefix and the label of a tag: B, I, E or S before a hyphen; a tag without one is a word's own."""
    prefix, hyphen, label = tag.partition("-")
    return (prefix, label) if hyphen and prefix in ("B", "I", "E", "S") else ("S", tag)


def entities(tags: Sequence[str]) -> list[Entity]:
    """The entities of a sentence, as conlleval and seqeval's default mode find them: one begins at B or S,
    where the label changes, and where I or E has nothing to continue."""
    spans: list[Entity] = []
    label, begin = "", 0
    for place, (prefix, name) in enumerate((*map(parted, tags), ("", OUTSIDE))):
        outside = name == OUTSIDE
        if label and (outside or prefix in ("B", "S") or name != label):
            spans.append((label, begin, place))
            label = ""
        if not outside and not label:
            label, begin = name, place
        if label and prefix in ("E", "S"):
            spans.append((label, begin, place + 1))
            label = ""
    return spans


def invalid(tags: Sequence[str]) -> int:
    """How many tags continue (I, E) what was not begun: a sequence that no annotator could have written."""
    return sum(
        prefix in ("I", "E") and before != ("B", label) and before != ("I", label)
        for before, (prefix, label) in zip(("", *map(parted, tags)), map(parted, tags), strict=False)
    )


def labels_of_tags(tags: Sequence[str]) -> list[str]:
    """The labels of entities that tags speak of, sorted."""
    return sorted({label for tag in tags if (label := parted(tag)[1]) != OUTSIDE})


def entity_counts(right: Sequence[str], guessed: Sequence[str], labels: Sequence[str]) -> Floats:
    """(3·K) of a sentence: entities that are in both, in the truth, and predicted, by label."""
    true, predicted = set(entities(right)), set(entities(guessed))
    counts = np.zeros((3, len(labels)))
    for row, spans in enumerate((true & predicted, true, predicted)):
        for label, _, _ in spans:
            counts[row, labels.index(label)] += 1
    return counts.reshape(-1)


class EntityF1(Metric):
    """Entity F1: F1 of whole entities, which count if label and both borders are right.

    Formula: 2·right / (true + predicted), over all entities, found as conlleval and seqeval's default mode
    find them; 0 where there is nothing to divide by.

    Paper: Tjong Kim Sang and De Meulder 2003, "Introduction to the CoNLL-2003 Shared Task".
    """

    better = "higher"
    limits = (0.0, 1.0)
    needs = ("entities",)

    def parts(self, examples: Examples) -> Floats:
        sums: Floats = examples["entities"].reshape(len(examples), 3, -1).sum(-1)
        return sums

    def of(self, sums: Floats) -> Floats:
        return np.nan_to_num(ratio(2 * sums[..., 0], sums[..., 1] + sums[..., 2]))


class EntityPrecision(EntityF1):
    """Entity precision: the share of predicted entities that are right.

    Formula: right / predicted; as in entity F1.
    """

    share = True

    def of(self, sums: Floats) -> Floats:
        return np.nan_to_num(ratio(sums[..., 0], sums[..., 2]))


class EntityRecall(EntityF1):
    """Entity recall: the share of true entities that are found.

    Formula: right / true; as in entity F1.
    """

    share = True

    def of(self, sums: Floats) -> Floats:
        return np.nan_to_num(ratio(sums[..., 0], sums[..., 1]))


class TagAccuracy(Metric):
    """Tag accuracy: the share of words whose tag is right.

    Formula: Σ right words / Σ words. Compare it with the share of the most frequent tag, mostly O.
    """

    better = "higher"
    limits = (0.0, 1.0)
    share = True
    needs = ("tag_counts",)

    def parts(self, examples: Examples) -> Floats:
        sums: Floats = examples["tag_counts"].reshape(len(examples), 3, -1).sum(-1)
        return sums

    def of(self, sums: Floats) -> Floats:
        return ratio(sums[..., 0], sums[..., 1])

    def weights(self, examples: Examples) -> Floats:
        return self.parts(examples)[:, 1]


class InvalidTags(Metric):
    """Invalid tags: the share of predicted tags that continue an entity which was not begun.

    Formula: Σ [I-x or E-x after anything but B-x or I-x] / Σ words.
    """

    better = "lower"
    limits = (0.0, 1.0)
    share = True
    needs = ("invalid", "tag_counts")

    def parts(self, examples: Examples) -> Floats:
        words = examples["tag_counts"].reshape(len(examples), 3, -1)[:, 2].sum(-1)
        return np.stack([examples["invalid"], words], 1).astype(np.float64)

    def of(self, sums: Floats) -> Floats:
        return ratio(sums[..., 0], sums[..., 1])

    def weights(self, examples: Examples) -> Floats:
        return self.parts(examples)[:, 1]


def by_label(examples: Examples, labels: Sequence[str]) -> list[ClassScores]:
    """Each label's entities."""
    right, true, predicted = examples["entities"].sum(0).reshape(3, -1)
    counts = zip(labels, right, true, predicted, strict=True)
    return [ClassScores.of(name, right=r, true=t, predicted=s) for name, r, t, s in counts]
