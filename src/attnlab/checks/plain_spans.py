"""Entities in tags and answers in passages, scored in plain lines: nothing of `metrics/` is used."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from attnlab.data.example import Example

Entity = tuple[int, int, str]


def entities_in(tags: Sequence[str]) -> set[Entity]:
    """Where entities begin and end, and their label, by conlleval's two questions at each border: does one
    end before this tag, does one begin with it?"""
    parts = [tag.split("-", 1) if tag[:2] in ("B-", "I-", "E-", "S-") else ["S", tag] for tag in tags]
    spans, begun = set[Entity](), 0
    for place in range(len(parts) + 1):
        before = parts[place - 1] if place else ["", "O"]
        after = parts[place] if place < len(parts) else ["", "O"]
        if before[1] != "O" and ends(before, after):
            spans.add((begun, place, before[1]))
        if after[1] != "O" and begins(before, after):
            begun = place
    return spans


def ends(before: Sequence[str], after: Sequence[str]) -> bool:
    return before[0] in ("E", "S") or after[0] in ("B", "S") or before[1] != after[1]


def begins(before: Sequence[str], after: Sequence[str]) -> bool:
    return before[1] == "O" or before[0] in ("E", "S") or after[0] in ("B", "S") or before[1] != after[1]


def entity_agreement(true: Sequence[str], given: Sequence[str]) -> list[float]:
    """Entities that are in both, in the truth, and given."""
    right, said = entities_in(true), entities_in(given)
    return [float(len(right & said)), float(len(right)), float(len(said))]


# ---------------------------------------------------------------- answers
def bare(text: str) -> str:
    """A text as SQuAD's own script compares it: without case, punctuation, articles and further spaces."""
    lowered = text.lower().translate(str.maketrans("", "", string.punctuation))
    return " ".join(re.sub(r"\b(?:a|an|the)\b", " ", lowered).split())


def word_f1(given: str, right: str) -> float:
    """2·shared / all words of both; of an empty one 1 only if both are."""
    a, b = bare(given).split(), bare(right).split()
    if not a or not b:
        return float(a == b)
    return 2 * (Counter(a) & Counter(b)).total() / (len(a) + len(b))


def answer_scores(columns: Mapping[str, NDArray[Any]], texts: Sequence[Example]) -> dict[str, list[float]]:
    """The F1 and the exact match of each question: of the span where it is given, of nothing where not. From
    the passages, or where these are not at hand from what was kept of each span."""
    given = [m > t for m, t in zip(columns["margin"].tolist(), columns["threshold"].tolist(), strict=True)]
    if not texts:
        silent = columns["silent"].tolist()
        names = {"f1": "span_f1", "exact": "span_exact"}
        return {
            kind: [s if g else n for g, s, n in zip(given, columns[name].tolist(), silent, strict=True)]
            for kind, name in names.items()
        }
    scores: dict[str, list[float]] = {"f1": [], "exact": []}
    places = zip(columns["char_start"].tolist(), columns["char_end"].tolist(), strict=True)
    for text, (start, end), answers in zip(texts, places, given, strict=True):
        said = (text.pair or "")[start:end] if answers and start >= 0 else ""
        right = [answer.text for answer in text.answers if bare(answer.text)] or [""]
        scores["f1"].append(max(word_f1(said, one) for one in right))
        scores["exact"].append(float(bare(said) in [bare(one) for one in right]))
    return scores
