"""SQuAD 2.0's scores as its own paper and site define them, written the plain way, question by question: a
second route to the numbers of attnlab/metrics/answers.py, with which it shares nothing."""

from __future__ import annotations

import collections
import re
import string


def normalize(text: str) -> str:
    text = text.lower()
    text = "".join(ch for ch in text if ch not in set(string.punctuation))
    text = re.sub(re.compile(r"\b(a|an|the)\b", re.UNICODE), " ", text)
    return " ".join(text.split())


def tokens(text: str) -> list[str]:
    return normalize(text).split() if text else []


def exact(gold: str, said: str) -> int:
    return int(normalize(gold) == normalize(said))


def f1(gold: str, said: str) -> float:
    gold_tokens, said_tokens = tokens(gold), tokens(said)
    common = collections.Counter(gold_tokens) & collections.Counter(said_tokens)
    same = sum(common.values())
    if len(gold_tokens) == 0 or len(said_tokens) == 0:
        return int(gold_tokens == said_tokens)
    if same == 0:
        return 0
    precision = 1.0 * same / len(said_tokens)
    recall = 1.0 * same / len(gold_tokens)
    return (2 * precision * recall) / (precision + recall)


def raw(golds: list[str], said: str) -> tuple[float, float]:
    """Exact match and F1 of one question; `golds` is empty where it has no answer."""
    golds = [gold for gold in golds if normalize(gold)]
    if not golds:
        golds = [""]
    return max(exact(gold, said) for gold in golds), max(f1(gold, said) for gold in golds)


def scores(questions: list[list[str]], answers: list[str]) -> dict[str, float]:
    """Of questions with their gold answers, and the answers that were given, "" for none."""
    found = {}
    for name, wanted in (("", None), ("_answerable", True), ("_unanswerable", False)):
        kept = [
            raw(golds, said)
            for golds, said in zip(questions, answers, strict=True)
            if wanted is None or bool(golds) == wanted
        ]
        if kept:
            found[f"exact_match{name}"] = sum(one[0] for one in kept) / len(kept)
            found[f"span_f1{name}"] = sum(one[1] for one in kept) / len(kept)
    return found


def best_f1(questions: list[list[str]], spans: list[str], margins: list[float]) -> float:
    """The best F1 that any threshold on the margins gives."""
    best = 0.0
    for threshold in [*margins, min(margins) - 1]:
        said = [span if margin > threshold else "" for span, margin in zip(spans, margins, strict=True)]
        best = max(best, scores(questions, said)["span_f1"])
    return best
