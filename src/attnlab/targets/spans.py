"""An answer within a passage, or none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnlab.data.corpora.units import divided
from attnlab.data.errors import DataError
from attnlab.data.example import Example
from attnlab.data.labels import ANSWER, NO_ANSWER, ClassNames, Labels
from attnlab.metrics.answers import (
    ExactMatch,
    SpanF1,
    answered,
    exact_match,
    gold_of,
    normalised,
    overlap_f1,
)
from attnlab.metrics.metric import CLUSTER, Examples
from attnlab.metrics.thresholds import curve
from attnlab.runs.findings import Finding, Outcome
from attnlab.runs.typed import Value
from attnlab.targets.recipes import OF_SPANS
from attnlab.targets.report import (
    WRONG,
    AnswersReport,
    Baseline,
    CurvePoint,
    PredictingTask,
    TargetReport,
    ThresholdUse,
    WrongAnswer,
    shown,
)
from attnlab.targets.target import Row, Target, entropy, finding

POINTS = 12
"""Thresholds of the curve that are told, evenly spread over the questions."""
FIXED, CROSS_FITTED = "fixed", "cross-fitted"


TIED = 1e-4
"""Of a span's score, what rounding may decide."""


class SpanTarget(ClassNames, Target):
    """The first and the last token of an answer. The classes of its labels are questions with an answer and
    without one: a row of a long passage holds neither. `fixed` says that a person set the threshold of
    answers, and it was not chosen on dev."""

    name = "answer"
    columns = ("text", "pair", "answers")
    recipes = OF_SPANS

    def __init__(self, *, fixed: bool = False):
        self.fixed = fixed

    def draft(self, classes: int = 2) -> Labels:
        return Labels(self.name, (ANSWER, NO_ANSWER), (1, 1), 2)

    def summary(self, labels: Iterable[Any]) -> Labels:
        counts, names = Counter(labels), (ANSWER, NO_ANSWER)  # both are known, whichever there are
        return Labels(self.name, names, tuple(counts[name] for name in names), counts.total())

    def row(self, label: Any, known: Labels, place: str = "") -> dict[str, Any]:
        return {}

    def refuse(self, labels: Labels, *, declared: bool) -> None:
        if not labels.counts[labels.names.index(ANSWER)]:
            raise DataError(
                f"None of the {labels.examples:,} questions of the training split has an answer; there is "
                "nothing to learn. Name the column that holds them with data.corpus.answers (--answers "
                "COLUMN)."
            )

    def plain_loss(self, scores: Tensor, row: Row) -> Tensor:
        """−log p of the first and last token by scores (T,2), among the tokens of the passage, whose places
        in its text are not −1, and the first of all, which is no answer."""
        real = row["real"]
        places, first = row["char_start"][real], int(real.long().argmax())
        among = [0, *(places >= 0).nonzero()[:, 0].tolist()]
        return sum(
            (
                side[among].logsumexp(0) - side[target - first]
                for side, target in zip(scores.T, row["targets"], strict=True)
            ),
            torch.zeros((), dtype=scores.dtype),
        )

    def plain_prediction(self, scores: Tensor, row: Row, labels: Labels) -> dict[str, Any]:
        """The best span by every start and end of the passage, and its margin over the first token, which is
        no answer; where it stands only if no other span is as good to rounding."""
        real, (start, end) = row["real"], scores.T.tolist()
        first, last = (row[name][real].tolist() for name in ("char_start", "char_end"))
        readable = [n for n, (a, b) in enumerate(zip(first, last, strict=True)) if 0 <= a < b]
        spans = [(a, b) for a in readable for b in readable if a <= b < a + row["longest"]]
        if not spans:
            return {}
        ranked = sorted(((start[a] + end[b], a, b) for a, b in spans), reverse=True)
        best, a, b = ranked[0]
        margin = {"margin": best - start[0] - end[0]}
        tied = len(ranked) > 1 and best - ranked[1][0] <= TIED * (1 + abs(best))
        return margin if tied else margin | {"char_start": first[a], "char_end": last[b]}

    def uncertainty(self, targets: Tensor, given: Sequence[Hashable]) -> float:
        return sum(entropy(given, column.tolist()) for column in targets.T)

    def majority(self, examples: Examples, labels: Labels) -> Finding:
        """Span F1 against that of never answering, paired by question, questions of one passage taken
        together."""
        if "answerable" not in examples or not examples["answerable"].any():
            return finding("majority", Outcome.NOT_APPLICABLE, "no_answers")
        silent = Examples(dict(examples.columns) | {"margin": np.full(len(examples), -np.inf)})
        difference = SpanF1().difference(examples, silent)
        low, high = (
            (difference.low, difference.high)
            if np.isfinite(difference.low)
            else (difference.value, difference.value)
        )
        values: dict[str, Value] = {"f1": SpanF1().value(examples), "silent": SpanF1().value(silent)}
        values |= {"n": difference.n, "low": low, "high": high}
        if low > 0 and difference.n > 1:
            return finding("majority", Outcome.PASS, "better_than_silence", difference.value, **values)
        return finding("majority", Outcome.FAIL, "never_answering", difference.value, **values)

    def collapse(self, examples: Examples, labels: Labels) -> Finding:
        """Whether some questions are answered and some are not, where some have an answer and some not."""
        there = examples["answerable"] if "answerable" in examples else np.zeros(0, bool)
        if there.all() or not there.any():
            return finding("collapse", Outcome.NOT_APPLICABLE, "all_answerable")
        given, outcome, score = answered(examples), Outcome.FAIL, examples["span_f1"]
        if not given.any():
            kind, score = "never_answers", examples["silent"]
        elif given.all():
            kind = "always_answers"
        else:
            outcome, kind = Outcome.PASS, "answers_some"
        values: dict[str, Value] = {"n": len(given), "answerable": float(there.mean())}
        return finding("collapse", outcome, kind, float(given.mean()), **values, score=float(score.mean()))

    def report(self, task: PredictingTask, texts: Sequence[Example], examples: Examples) -> TargetReport:
        answers = AnswersReport(
            answered=int(answered(examples).sum()),
            answerable=int(examples["answerable"].sum()),
            n=len(examples),
            threshold=threshold_use(examples, fixed=self.fixed),
            curve=tuple(curve_points(examples)),
            wrong=wrong_answers(texts, examples),
        )
        return TargetReport(answers=answers, checks=tuple(self.findings(examples, task.labels)))

    def baselines(self, task: PredictingTask, texts: Sequence[Example]) -> list[Baseline]:
        if not texts:
            return []
        sentences = [overlapping_sentence(example) for example in texts]
        definition = "of the passage's sentences that share most words with the question the longest, always"
        return [
            baseline("never answer", answers_given(texts, [""] * len(texts)), "no answer to any question"),
            baseline("longest overlapping sentence", answers_given(texts, sentences), definition),
        ]

    def shown(self, truth: Mapping[str, Any], labels: Labels) -> str | float:
        first, last = truth["targets"]
        return f"tokens {first} to {last}" if last else "no answer in this window"


# ---------------------------------------------------------------- what is reported
def threshold_use(examples: Examples, *, fixed: bool) -> ThresholdUse:
    """The thresholds that were used, and what one chosen on these very questions would have pretended."""
    thresholds = examples["threshold"]
    tuned = curve(examples["margin"], examples["span_f1"], examples["silent"])
    return ThresholdUse(
        how=FIXED if fixed else CROSS_FITTED,
        least=float(thresholds.min()),
        most=float(thresholds.max()),
        folds=0 if fixed else len(np.unique(examples["fold"])),
        f1=float(SpanF1().each(examples).mean()),
        tuned_here=tuned.best,
        pretended_f1=float(tuned.sums.max() / len(examples)),
    )


def curve_points(examples: Examples) -> Iterator[CurvePoint]:
    """F1 and exact match by threshold, from answering all to answering none, the used one among them; of
    several that were used, the middle."""
    margin, silent = examples["margin"], examples["silent"]
    f1, exact = (curve(margin, examples[name], silent) for name in ("span_f1", "span_exact"))
    used = float((examples["threshold"].min() + examples["threshold"].max()) / 2)
    at_used = int(np.searchsorted(-f1.answered, -(margin > used).sum()))
    spread = np.linspace(0, len(f1.thresholds) - 1, POINTS).astype(int)
    for k in np.union1d(spread, at_used):
        yield CurvePoint(
            threshold=used if k == at_used else float(f1.thresholds[k]),
            used=bool(k == at_used),
            answered=int(f1.answered[k]),
            f1=float(f1.sums[k] / len(examples)),
            exact=float(exact.sums[k] / len(examples)),
        )


def wrong_answers(texts: Sequence[Example], examples: Examples) -> tuple[WrongAnswer, ...]:
    """The questions that were got wrong by the largest distance from the threshold."""
    wrong = np.flatnonzero(ExactMatch().each(examples) == 0)
    margin, given = examples["margin"] - examples["threshold"], answered(examples)
    away = np.nan_to_num(np.abs(margin)[wrong], posinf=0.0)
    order = wrong[np.argsort(-away, kind="stable")][:WRONG].tolist()
    spans = {n: (int(examples["char_start"][n]), int(examples["char_end"][n])) for n in order}
    return tuple(
        WrongAnswer(
            place=texts[n].place,
            question=shown(Example(texts[n].text)),
            answer=span_of(texts[n], *spans[n]) if given[n] else "",
            gold=texts[n].answers[0].text if texts[n].answers else "",
            f1=float(examples["span_f1"][n]) if given[n] else 0.0,
            margin=float(margin[n]),
        )
        for n in order
    )


# ---------------------------------------------------------------- without a model
def baseline(name: str, examples: Examples, definition: str) -> Baseline:
    score = SpanF1().interval(examples)
    between = (score.low, score.high) if np.isfinite(score.low) else None
    return Baseline(name, score.value, between, score.n, definition, "span_f1")


def overlapping_sentence(example: Example) -> str:
    """Of the sentences of a passage that share most different words with the question, the longest."""
    asked = set(normalised(example.text).split())
    parts = list(divided(example.pair or "", "sentence"))
    return max(parts, key=lambda part: (len(asked & {*normalised(part).split()}), len(part)), default="")


def answers_given(texts: Sequence[Example], answers: Sequence[str]) -> Examples:
    """Answers that are given as they are, as examples that metrics take; an empty one is none."""
    gold = [gold_of([answer.text for answer in example.answers]) for example in texts]
    both = list(zip(answers, gold, strict=True))
    return Examples(
        {
            "margin": np.array([1.0 if answer else -1.0 for answer in answers]),
            "threshold": np.zeros(len(texts)),
            CLUSTER: passages_of(texts),
            "span_f1": np.array([overlap_f1(*pair) for pair in both]),
            "span_exact": np.array([exact_match(*pair) for pair in both]),
            "silent": np.array([exact_match("", right) for right in gold]),
            "answerable": np.array([bool(example.answers) for example in texts]),
        }
    )


def span_of(example: Example, start: int, end: int) -> str:
    """The characters of a passage; none where the model found no token to answer with."""
    return (example.pair or "")[start:end] if start >= 0 else ""


def passages_of(texts: Sequence[Example]) -> NDArray[np.int64]:
    """(n) the number of each question's group, or passage: questions of one are not independent."""
    return np.unique([example.group or example.pair or "" for example in texts], return_inverse=True)[1]
