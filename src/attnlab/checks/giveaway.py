"""Labels that are two spellings of one, and words that give a label away."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import islice
from typing import ClassVar

from attnlab.checks.check import Case, Check
from attnlab.data.example import Example
from attnlab.data.images.decoding import facts_of
from attnlab.data.label_quality import alike
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.runs.typed import Value

TEXTS = 5000
LEAST = 20
"""Texts with a word from which on it can be a rule."""
PURE, FREQUENT = 0.98, 0.5
"""Shares of the texts with a word that have one label, and of those with the label that have the word."""
USUAL = 0.9
"""A label that is more frequent is given away by every word."""


class Giveaway(Check):
    """Giveaway: does a single word decide the label, and is each class one name?

    Formula: names of classes are compared without case, spaces and Unicode form (NFKC). Of up to 5,000
    training texts, each word, each sign and the first and last three characters, by label: one that stands in
    at least 20 texts, 98% of them with one label, and in half of the texts of that label, is named with its
    share. Both are warnings: a person knows whether they are meant.

    When it helps: a marker that whoever collected the rows left in them, an address, the label itself among
    the words: a model that reads it is right on dev, and wrong on everything else.

    Cannot see: what only two words together give away, and signs that are not in the text (see
    `inputs_matter`); words that stand in fewer than half of a label's texts.
    """

    when: ClassVar[tuple[When, ...]] = ("before",)
    limit: ClassVar[float] = 0.5
    same_for_seeds: ClassVar[bool] = True

    def run(self, case: Case) -> Finding:
        names = case.task.labels.names
        if case.task.predicts_words or not names:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "no_classes")
        same = next(iter(alike(names)), ())
        if same:
            return self.finding(case.when, Outcome.WARN, "alike", float(len(same)), names=list(same))
        if not case.task.target.one_name:
            return self.finding(case.when, Outcome.PASS, "names", float(len(names)), classes=len(names))
        texts = list(islice(case.dataset.examples("train"), TEXTS))
        words = deciding([(example, str(case.task.label_of(example))) for example in texts])
        values: dict[str, Value] = {"texts": len(texts), "classes": len(names)}
        if not words:
            return self.finding(case.when, Outcome.PASS, "none", 0.0, **values)
        most = max(share for _, _, share, _ in words)
        return self.finding(
            case.when, Outcome.WARN, "word", most, words=[list(w) for w in words[:3]], **values
        )


def deciding(rows: Sequence[tuple[Example, str]]) -> list[tuple[str, str, float, float]]:
    """Words that alone decide a label: the word, the label, the share of its texts that have the word, and
    the share of the texts with the word that have the label; the most frequent of each label."""
    labels = Counter(label for _, label in rows)
    by_word = defaultdict[str, Counter[str]](Counter)
    for example, label in rows:
        for word in marks(example):
            by_word[word][label] += 1
    best: dict[str, tuple[str, str, float, float]] = {}
    for word, counts in by_word.items():
        label, count = counts.most_common(1)[0]
        pure, share = count / counts.total(), count / labels[label]
        usual = labels[label] > USUAL * len(rows)
        if counts.total() < LEAST or pure < PURE or share < FREQUENT or usual:
            continue
        own = word, label, share, pure
        best[label] = max(best.get(label, own), own, key=lambda found: (found[2], len(found[0]), found[0]))
    return sorted(best.values(), key=lambda found: -found[2])


def marks(example: Example) -> set[str]:
    """The words and signs of an example, and how it begins and ends."""
    text = f"{example.text} {example.pair or ''}".strip()
    signs = {sign for sign in text if not (sign.isalnum() or sign.isspace())}
    ends = {f"{text[:3]}…", f"…{text[-3:]}"} if text else set()
    return {*text.casefold().split(), *signs, *ends, *picture_marks(example)}


def picture_marks(example: Example) -> set[str]:
    """What is known of a picture without looking at it: words of its file's name, its size and colours."""
    if example.image is None:
        return set()
    facts = facts_of(example.image)
    named = re.findall(r"[^\W\d_]+", example.image.name.rpartition(".")[0].casefold())
    size = f"pictures of {facts.width} × {facts.height}"
    return {size, f"pictures in mode {facts.mode}", *(f"file name {word}" for word in named)}
