"""What a model that answers questions does on a split: the curve over its threshold, and its mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attnlab.checks.predictions import judge_examples
from attnlab.checks.threshold import Threshold
from attnlab.data.corpora.units import divided
from attnlab.data.example import Example
from attnlab.interop.module_checks import Point
from attnlab.metrics import METRICS
from attnlab.metrics.answers import SpanF1, answered, exact_match, gold_of, normalised, overlap_f1
from attnlab.metrics.metric import CLUSTER, Estimate, Examples
from attnlab.metrics.thresholds import curve
from attnlab.runs.findings import collapse_sentence
from attnlab.session.label_scores import WRONG, shown
from attnlab.tasks.answer_spans import AnswerSpans, passages_of, span_of

POINTS = 12
"""Thresholds of the curve that are told, evenly spread over the questions."""
FIXED, CROSS_FITTED = "fixed", "cross-fitted"


def of_answers(task: AnswerSpans, texts: Sequence[Example], examples: Examples) -> dict[str, Any]:
    """All that is told of answers beside the metrics."""
    found = judge_examples(task, examples)
    checks = [*found, Threshold().judge(Point("evaluation"), examples, fixed=task.threshold != "dev")]
    return {
        "answers": {
            "answered": int(answered(examples).sum()),
            "answerable": int(examples["answerable"].sum()),
            "n": len(examples),
            "threshold": threshold_told(task, examples),
            "curve": curve_told(examples),
            "wrong": wrong_answers(texts, examples),
        },
        "checks": [one.as_json() for one in checks],
        "collapsed": collapse_sentence(found),
    }


def threshold_told(task: AnswerSpans, examples: Examples) -> dict[str, Any]:
    """The thresholds that were used, and what one chosen on these very questions would have pretended."""
    held = examples["threshold"]
    tuned = curve(examples["margin"], examples["span_f1"], examples["silent"])
    score = float(SpanF1().each(examples).mean())
    return {
        "how": CROSS_FITTED if task.threshold == "dev" else FIXED,
        "least": float(held.min()),
        "most": float(held.max()),
        "folds": len(np.unique(examples["fold"])) if task.threshold == "dev" else 0,
        "f1": score,
        "tuned_here": tuned.best,
        "pretended_f1": float(tuned.sums.max() / len(examples)),
    }


def curve_told(examples: Examples) -> list[dict[str, Any]]:
    """F1 and exact match by threshold, from answering all to answering none, the used one among them; of
    several that were used, the middle."""
    margin, silent = examples["margin"], examples["silent"]
    f1, exact = (curve(margin, examples[name], silent) for name in ("span_f1", "span_exact"))
    used = float((examples["threshold"].min() + examples["threshold"].max()) / 2)
    at_used = int(np.searchsorted(-f1.answered, -(margin > used).sum()))
    spread = np.linspace(0, len(f1.thresholds) - 1, POINTS).astype(int)
    return [
        {
            "threshold": used if k == at_used else float(f1.thresholds[k]),
            "used": bool(k == at_used),
            "answered": int(f1.answered[k]),
            "f1": float(f1.sums[k] / len(examples)),
            "exact": float(exact.sums[k] / len(examples)),
        }
        for k in np.union1d(spread, at_used)
    ]


def wrong_answers(texts: Sequence[Example], examples: Examples) -> list[dict[str, Any]]:
    """The questions that were got wrong by the largest distance from the threshold."""
    exact = METRICS.build("exact_match").each(examples)  # type: ignore[attr-defined]
    wrong = np.flatnonzero(exact == 0)
    away = np.abs(examples["margin"] - examples["threshold"])[wrong]
    order = wrong[np.argsort(-np.nan_to_num(away, posinf=0.0), kind="stable")][:WRONG]
    given = answered(examples)
    return [
        {
            "place": texts[n].place,
            "question": shown(Example(texts[n].text)),
            "answer": span_of(texts[n], int(examples["char_start"][n]), int(examples["char_end"][n]))
            if given[n]
            else "",
            "gold": texts[n].answers[0].text if texts[n].answers else "",
            "f1": float(examples["span_f1"][n]) if given[n] else 0.0,
            "margin": float(examples["margin"][n] - examples["threshold"][n]),
        }
        for n in order.tolist()
    ]


# ---------------------------------------------------------------- without a model
def never_answer(texts: Sequence[Example]) -> Estimate:
    """The span F1 of giving no answer to any question."""
    return SpanF1().interval(_said(texts, [""] * len(texts)))


def overlapping_sentences(texts: Sequence[Example]) -> Estimate:
    """The span F1 of answering each question with the sentence that shares most words with it."""
    return SpanF1().interval(_said(texts, [overlapping_sentence(one) for one in texts]))


def overlapping_sentence(example: Example) -> str:
    """Of the sentences of a passage that share most different words with the question, the longest."""
    asked = set(normalised(example.text).split())
    parts = list(divided(example.pair or "", "sentence"))
    return max(parts, key=lambda part: (len(asked & {*normalised(part).split()}), len(part)), default="")


def _said(texts: Sequence[Example], answers: Sequence[str]) -> Examples:
    """Answers that are given as they are, as examples that metrics take; an empty one is none."""
    gold = [gold_of([answer.text for answer in one.answers]) for one in texts]
    both = list(zip(answers, gold, strict=True))
    return Examples(
        {
            "margin": np.array([1.0 if answer else -1.0 for answer in answers]),
            "threshold": np.zeros(len(texts)),
            CLUSTER: passages_of(texts),
            "span_f1": np.array([overlap_f1(*one) for one in both]),
            "span_exact": np.array([exact_match(*one) for one in both]),
            "silent": np.array([exact_match("", right) for right in gold]),
            "answerable": np.array([bool(one.answers) for one in texts]),
        }
    )
