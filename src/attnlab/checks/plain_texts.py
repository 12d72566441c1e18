"""Scores of written text a second time: words, n-grams and matches counted in plain lines, without sacrebleu
and rouge-score."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Sums = NDArray[np.float64]
SIGNS = re.compile(r"([!-&(-+/:-@\[-`{-~])")
"""What stands alone in mteval-v13a: punctuation but the apostrophe, hyphen, full stop and comma."""
ESCAPED = {"<skipped>": "", "-\n": "", "\n": " ", "&quot;": '"', "&amp;": "&", "&lt;": "<", "&gt;": ">"}


def pairs_of(columns: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """Each written text with its references."""
    wanted = [[text] if isinstance(text, str) else list(text) for text in columns["reference"]]
    return list(zip(columns["generated"], wanted, strict=True))


def words_13a(text: str) -> list[str]:
    """The words of a text as mteval-v13a separates them."""
    for written, sign in ESCAPED.items():
        text = text.replace(written, sign)
    text = SIGNS.sub(r" \1 ", f" {text.rstrip()} ")
    text = re.sub(r"([^0-9])([.,])", r"\1 \2 ", text)
    text = re.sub(r"([.,])([^0-9])", r" \1 \2", text)
    return re.sub(r"([0-9])-", r"\1 - ", text).split()


def ngrams(items: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(items[at : at + n]) for at in range(len(items) - n + 1))


# ---------------------------------------------------------------- BLEU
def bleu_counts(columns: Mapping[str, Any]) -> list[list[float]]:
    """Length, the nearest length of a reference, and for 1 to 4 words matches and n-grams; a column each."""
    rows = []
    for text, references in pairs_of(columns):
        words, others = words_13a(text), [words_13a(reference) for reference in references]
        nearest = min((abs(len(other) - len(words)), len(other)) for other in others)[1]
        row = [float(len(words)), float(nearest)]
        for n in range(1, 5):
            own, most = ngrams(words, n), Counter[tuple[str, ...]]()
            for other in others:
                most |= ngrams(other, n)
            row += [float((own & most).total()), float(own.total())]
        rows.append(row)
    return np.array(rows).T.tolist()


def bleu(sums: Sums) -> Sums:
    """(…, 10) -> (…) BLEU of counts; an order without a match has half, a quarter, … of one."""
    length, wanted = sums[..., 0], sums[..., 1]
    matches, totals = sums[..., 2::2], sums[..., 3::2]
    halved = np.cumsum(matches == 0, -1)
    counted = np.where(matches > 0, matches, 0.5**halved)
    with np.errstate(all="ignore"):
        logs = np.log(counted / totals).mean(-1)
        brevity = np.where(length < wanted, np.exp(1 - wanted / length), 1.0)
        scores = 100 * brevity * np.exp(logs)
    return np.where((matches.sum(-1) > 0) & (totals > 0).all(-1), scores, 0.0)


# ---------------------------------------------------------------- chrF
def chrf_counts(columns: Mapping[str, Any]) -> list[list[float]]:
    """For 1 to 6 characters n-grams of the text, of its best reference, and of both; a column each."""
    rows = []
    for text, references in pairs_of(columns):
        signs = "".join(text.split())
        options = [character_counts(signs, "".join(reference.split())) for reference in references]
        rows.append(max(options, key=lambda counts: float(chrf(np.array(counts)))))
    return np.array(rows).T.tolist()


def character_counts(text: str, reference: str) -> list[float]:
    row: list[float] = []
    for n in range(1, 7):
        own, other = ngrams(text, n), ngrams(reference, n)
        row += [float(own.total() if other else 0), float(other.total()), float((own & other).total())]
    return row


def chrf(sums: Sums) -> Sums:
    """(…, 18) -> (…) the F-score, recall weighing twice, of the mean precision and recall of the orders."""
    own, other, both = sums[..., 0::3], sums[..., 1::3], sums[..., 2::3]
    there = (own > 0) & (other > 0)
    orders = np.maximum(there.sum(-1), 1)
    precision = np.where(there, both / np.maximum(own, 1), 0.0).sum(-1) / orders
    recall = np.where(there, both / np.maximum(other, 1), 0.0).sum(-1) / orders
    below = 4 * precision + recall
    return np.where(below > 0, 100 * 5 * precision * recall / np.where(below > 0, below, 1.0), 0.0)


# ---------------------------------------------------------------- ROUGE and equal texts
def rouge_scores(columns: Mapping[str, Any], kind: str) -> list[float]:
    """F1 of each text and its best reference, by words (1), pairs (2) or the longest subsequence (L)."""
    return [max(rouge_score(text, one, kind) for one in references) for text, references in pairs_of(columns)]


def rouge_score(text: str, reference: str, kind: str) -> float:
    own, other = (re.findall("[a-z0-9]+", one.lower()) for one in (text, reference))
    if kind == "L":
        shared, sizes = longest_common(own, other), len(own) + len(other)
    else:
        mine, theirs = ngrams(own, int(kind)), ngrams(other, int(kind))
        shared, sizes = (mine & theirs).total(), mine.total() + theirs.total()
    return 2 * shared / sizes if sizes else 0.0


def longest_common(one: Sequence[str], other: Sequence[str]) -> int:
    """Words of the longest sequence that both have in this order, row by row of the usual table."""
    row = [0] * (len(other) + 1)
    for word in one:
        before = row
        row = [0]
        for place, second in enumerate(other):
            row.append(before[place] + 1 if word == second else max(before[place + 1], row[place]))
    return row[-1]


def equal_texts(columns: Mapping[str, Any]) -> list[float]:
    return [float(any(text.strip() == one.strip() for one in right)) for text, right in pairs_of(columns)]


# ---------------------------------------------------------------- copies
def copied_runs(columns: Mapping[str, Any], n: int) -> list[list[float]]:
    """Of each text the runs of n words that stand in its source, searched as text, and how many it has."""
    copied, totals = list[float](), list[float]()
    for text, source in zip(columns["generated"], columns["source"], strict=True):
        words, within = (re.sub(r"([^\w\s])", r" \1 ", t.lower()).split() for t in (text, source))
        haystack = f" {' '.join(within)} "
        runs = [" ".join(words[at : at + n]) for at in range(len(words) - n + 1)]
        copied.append(float(sum(f" {run} " in haystack for run in runs)))
        totals.append(float(len(runs)))
    return [copied, totals]
