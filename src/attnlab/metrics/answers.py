"""How good answers to questions are, with and without an answer in the passage, by SQuAD's definition."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

import numpy as np

from attnlab.metrics.metric import Examples, Floats, Mean

ARTICLES = re.compile(r"\b(a|an|the)\b", re.UNICODE)
PUNCTUATION = frozenset(string.punctuation)


# ---------------------------------------------------------------- one answer
def normalised(text: str) -> str:
    """A text without case, punctuation, articles and extra white space."""
    bare = "".join(sign for sign in text.lower() if sign not in PUNCTUATION)
    return " ".join(ARTICLES.sub(" ", bare).split())


def gold_of(answers: Sequence[str]) -> tuple[str, ...]:
    """The texts that are right: those of which something is left when normalised, else the empty one."""
    return tuple(text for text in answers if normalised(text)) or ("",)


def exact_match(answer: str, gold: Sequence[str]) -> float:
    """1 if an answer is one of the right ones, normalised."""
    return float(any(normalised(answer) == normalised(text) for text in gold))


def overlap_f1(answer: str, gold: Sequence[str]) -> float:
    """The F1 of an answer's words, the best over the right ones."""
    return max(_overlap_f1(normalised(answer).split(), normalised(text).split()) for text in gold)


def _overlap_f1(answer: list[str], right: list[str]) -> float:
    if not answer or not right:
        return float(answer == right)
    shared = sum((Counter(answer) & Counter(right)).values())
    if not shared:
        return 0.0
    precision, recall = shared / len(answer), shared / len(right)
    return 2 * precision * recall / (precision + recall)


# ---------------------------------------------------------------- all of them
class SpanF1(Mean):
    """Span F1: the F1 of the answer's words and the best gold answer's, in the mean over questions.

    Formula: 2·precision·recall / (precision + recall) over words without case, punctuation and articles; of a
    question without an answer 1 if none is given, else 0. The best span is given as the answer where its
    margin, score − s_null, is above the threshold τ.

    Paper: Rajpurkar et al. 2018, "Know What You Don't Know: Unanswerable Questions for SQuAD".
    """

    better = "higher"
    limits = (0.0, 1.0)
    needs = ("margin", "threshold", "span_f1", "span_exact", "silent", "answerable")
    of_span = "span_f1"

    def each(self, examples: Examples) -> Floats:
        scores: Floats = np.where(answered(examples), examples[self.of_span], examples["silent"])
        return scores


class ExactMatch(SpanF1):
    """Exact match: the share of questions whose answer is a gold answer, or that rightly get none.

    Formula: texts are equal without case, punctuation, articles and extra white space.

    Paper: Rajpurkar et al. 2016, "SQuAD".
    """

    of_span = "span_exact"
    share = True


class OfAnswerable(SpanF1):
    """Of questions that have an answer."""

    def weights(self, examples: Examples) -> Floats:
        return examples["answerable"].astype(np.float64)


class SpanF1Answerable(OfAnswerable):
    """Span F1, answerable: span F1 over the questions that have an answer; giving none counts 0."""


class ExactMatchAnswerable(OfAnswerable):
    """Exact match, answerable: exact match over the questions that have an answer."""

    of_span = "span_exact"
    share = True


class ExactMatchUnanswerable(ExactMatch):
    """Exact match, unanswerable: the share of questions without an answer that get none; their F1 as well."""

    def weights(self, examples: Examples) -> Floats:
        return 1.0 - examples["answerable"]


def answered(examples: Examples) -> np.ndarray:
    """(n) which questions are given an answer."""
    return np.asarray(examples["margin"] > examples["threshold"])
