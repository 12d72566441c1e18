"""A classifier's predictions beside what was right: has it learned anything?"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from attnlab.data.labels import most_frequent
from attnlab.metrics.metric import wilson
from attnlab.runs.findings import Finding, Outcome
from attnlab.runs.typed import Value
from attnlab.targets.relabelling import Predictions, by_chance, relabelled, renamed

ENOUGH = 10
"""Examples of a class that a model should not pass over altogether."""
SOME = 0.01
"""The share of rows from which on repeated texts are told."""
FEW_LABELS = 0.02
"""The share of a class below which a model may leave it out."""


def provisional(finding: Finding) -> Finding:
    """A failure that more training may still mend."""
    failed = finding.outcome is Outcome.FAIL
    return replace(finding, outcome=Outcome.WARN, so_far=True) if failed else finding


def judge(
    labels: Sequence[Hashable], predicted: Sequence[Hashable], texts: Sequence[str] = ()
) -> list[Finding]:
    """What the checks `majority` and `collapse` say of predictions, wherever they come from; and with the
    texts that they are about, what `examples` says."""
    return judge_predictions(Predictions(labels, predicted, texts=texts))


def judge_predictions(given: Predictions) -> list[Finding]:
    """The same of what a classifier said."""
    examples = [repeated(given)] if given.texts else []
    return [majority(given), collapse(given), *examples]


def one_label(check: str) -> Finding:
    """The finding of a check where all examples have the same label."""
    return Finding(check=check, when="evaluation", outcome=Outcome.NOT_APPLICABLE, kind="one_label")


def majority(given: Predictions) -> Finding:
    """Accuracy against that of always saying the most frequent label."""
    same_length(given)
    counts, n = Counter(given.labels), len(given.labels)
    if len(counts) < 2:
        return one_label("majority")
    (label, share), right = most_frequent(counts), correct(given)
    low, high = wilson(right, n)
    values: dict[str, Value] = {"accuracy": right / n, "low": low, "high": high, "n": n}
    values |= {"label": str(label), "share": share}

    def judged(outcome: Outcome, kind: str, **more: Value) -> Finding:
        number, all_values = right / n - share, values | more
        about: dict[str, Any] = {"check": "majority", "when": "evaluation"}
        return Finding(outcome=outcome, kind=kind, values=all_values, number=number, **about)

    names = renamed(given) or relabelled(given, share)
    if names is not None:
        return judged(Outcome.FAIL, names.kind, **names.values)
    if low > share:
        return judged(Outcome.PASS, "better")
    if right == n:
        return judged(Outcome.WARN, "too_few")
    if high < by_chance(given):
        return judged(Outcome.FAIL, "opposed", chance=by_chance(given))
    return judged(Outcome.FAIL, "indistinguishable" if right / n > share else "not_better")


def collapse(given: Predictions) -> Finding:
    """How many of the classes are ever predicted."""
    same_length(given)
    labels, predictions = Counter(given.labels), Counter(given.predicted)
    if len(labels) < 2:
        return one_label("collapse")
    n, one_answer = len(given.labels), len(predictions) == 1
    if given.sets is not None and not one_answer:  # each class of a set is predicted by itself
        labels, predictions = (Counter[Hashable](chain.from_iterable(sets)) for sets in given.sets)
    classes = len(set(given.classes) | labels.keys() | predictions.keys())
    due = [name for name, count in labels.items() if count / n >= FEW_LABELS]
    never = [] if one_answer else unsaid(labels, predictions, classes)
    if given.sets is not None:  # of a class in fewer texts, a model that knows nothing says no
        never = [name for name in never if labels[name] >= n / 2]
    missing = never if not never or renamed(given) is None else []
    outcome, kind = Outcome.PASS, "several"
    if one_answer:
        outcome, kind = Outcome.FAIL, "one_class"
    elif missing or (given.sets is None and len(predictions) == 2 < len(due)):
        outcome, kind = Outcome.WARN, "never_predicted"
    values: dict[str, Value] = {
        "predicted": len(predictions),
        "classes": classes,
        "shares": [[str(name), count / n] for name, count in predictions.most_common(3)],
        "never": [[str(name), labels[name] / n] for name in missing[:3]],
        "due": len(due),
    }
    about: dict[str, Any] = {
        "check": "collapse",
        "when": "evaluation",
        "number": float(len(set(given.predicted))),
    }
    return Finding(outcome=outcome, kind=kind, values=values, **about)


def unsaid(labels: Counter[Hashable], predicted: Counter[Hashable], classes: int) -> list[Hashable]:
    """Labels that are never predicted and at least half as frequent as if all classes were equally so."""
    least = max(labels.total() / classes / 2, ENOUGH)
    return [name for name, count in labels.most_common() if count >= least and name not in predicted]


def repeated(given: Predictions) -> Finding:
    """Texts that are there more than once: with other labels, other predictions, or the same."""
    same_length(given)
    labels, predictions = defaultdict[str, Counter[Hashable]](Counter), defaultdict[str, set[Hashable]](set)
    for text, label, prediction in zip(given.texts, given.labels, given.predicted, strict=True):
        labels[" ".join(text.casefold().split())][label] += 1
        predictions[text].add(prediction)
    n = len(given.labels)
    again = n - len(labels)
    torn = {text: counts for text, counts in labels.items() if len(counts) > 1}
    conflicts = sum(counts.total() for counts in torn.values())
    best = sum(max(counts.values()) for counts in labels.values()) / n
    unsteady = sum(len(answers) > 1 for answers in predictions.values())
    values: dict[str, Value] = {"n": n, "again": again, "conflicts": conflicts}

    def judged(outcome: Outcome, kind: str, number: float, **more: Value) -> Finding:
        about: dict[str, Any] = {"check": "examples", "when": "evaluation"}
        return Finding(outcome=outcome, kind=kind, number=number, values=values | more, **about)

    if unsteady:
        return judged(Outcome.FAIL, "unsteady", float(unsteady), texts=unsteady)
    if conflicts >= SOME * n:
        return judged(Outcome.WARN, "conflicts", conflicts / n, example=next(iter(torn))[:60], best=best)
    if again >= SOME * n:
        return judged(Outcome.WARN, "repeated", again / n, texts=len(labels))
    return judged(Outcome.PASS, "different", again / n)


def correct(given: Predictions) -> int:
    return sum(a == b for a, b in zip(given.labels, given.predicted, strict=True))


def same_length(given: Predictions) -> None:
    if len(given.labels) != len(given.predicted):
        raise ValueError(
            f"There are {len(given.labels)} labels and {len(given.predicted)} predictions; give one for each."
        )
    if not given.labels:
        raise ValueError("There are no predictions to judge; give at least one.")
    if given.texts and len(given.texts) != len(given.labels):
        raise ValueError(
            f"There are {len(given.labels)} labels and {len(given.texts)} texts; give one for each, or none."
        )
