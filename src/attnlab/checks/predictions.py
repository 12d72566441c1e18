"""A classifier's predictions beside what was right: has it learned anything?"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from attnlab.checks.answered import NOT_BETTER, never_answering, one_way
from attnlab.checks.check import Case, Predictions
from attnlab.checks.relabelling import by_chance, relabelled, renamed
from attnlab.checks.tagged import ALWAYS_ONE, most_frequent_tag, no_entities
from attnlab.metrics.metric import Examples, wilson
from attnlab.runs.findings import Finding
from attnlab.tasks.task import Task

ENOUGH = 10
"""Examples of a class that a model should not pass over altogether."""
SOME = 0.01
"""The share of rows from which on repeated texts are told."""
FEW_LABELS = 0.02
"""The share of a class below which a model may leave it out."""

LEARNED_NOTHING = "The model is not better than always predicting the most frequent label."
NOT_TOLD_APART = (
    "It cannot be distinguished from always predicting the most frequent label (see the interval)."
)
NO_BETTER_THAN_MEAN = "The model is not better than always predicting the mean, on these examples."
COLLAPSES = {
    LEARNED_NOTHING: "The model is not better than always predicting the most frequent label",
    NOT_TOLD_APART: "The model cannot be distinguished from always predicting the most frequent label",
    NO_BETTER_THAN_MEAN: "The model is not better than always predicting the mean",
    ALWAYS_ONE: "The model is not better than giving every word the most frequent tag",
    NOT_BETTER: "The model is not better than never answering",
}
"""What a person is told first where a failed check `majority` means this."""
CURE = (
    "Usual causes are too high a learning rate (`attnlab adapt … --rates usual` tries several) and too few "
    "steps (training.budget.epochs)."
)

ONE_LABEL: dict[str, Any] = {"outcome": "not applicable", "found": "all examples have the same label"}


def predictions_of(task: Task, examples: Examples) -> Predictions | None:
    """What a classifier said of the examples of an evaluation, in the names of its classes."""
    names = task.labels.names
    if task.target.name == "class":
        labels, said = examples["label"], examples["probabilities"].argmax(1)
        return Predictions([names[n] for n in labels], [names[n] for n in said], classes=names)
    if task.target.name == "classes":
        labels, said = examples["labels"], examples["chances"] > 0.5
        return Predictions([together(names, row) for row in labels], [together(names, row) for row in said])
    return None


def together(names: Sequence[str], flags: Sequence[bool]) -> str:
    """A set of labels as one name."""
    return " + ".join(name for name, there in zip(names, flags, strict=True) if there) or "none"


def so_far(found: Finding, case: Case) -> Finding:
    """A finding of an evaluation in the course of training, where a model may still learn: at its end it
    fails."""
    training = case.when == "evaluation" and case.evaluator is not None
    return replace(provisional(found) if training else found, when=case.when)


def provisional(found: Finding) -> Finding:
    """A failure that more training may still mend."""
    if found.outcome != "fail":
        return found
    return replace(found, outcome="warn", meaning=f"So far: {found.meaning}")


def judge(
    labels: Sequence[Hashable], predicted: Sequence[Hashable], texts: Sequence[str] = ()
) -> list[Finding]:
    """What the checks `majority` and `collapse` say of predictions, wherever they come from; and with the
    texts that they are about, what `examples` says."""
    given = Predictions(labels, predicted, texts=texts)
    found = {"majority": majority(given), "collapse": collapse(given)}
    if texts:
        found["examples"] = repeated(given)
    return [one or Finding(check=name, when="evaluation", **ONE_LABEL) for name, one in found.items()]


def judge_examples(task: Task, examples: Examples, texts: Sequence[str] = ()) -> list[Finding]:
    """The same of the examples of an evaluation; of answers and tags `majority` and `collapse`, of
    numbers nothing."""
    if task.target.name == "answer":
        return [one for one in (never_answering(examples), one_way(examples)) if one is not None]
    if task.target.name == "tags":
        return [one for one in (most_frequent_tag(examples), no_entities(examples)) if one is not None]
    said = predictions_of(task, examples)
    return [] if said is None else judge(said.labels, said.predicted, texts)


def majority(given: Predictions) -> Finding | None:
    """Accuracy against that of always saying the most frequent label; None where there is only one label."""
    same_length(given)
    counts, n = Counter(given.labels), len(given.labels)
    if len(counts) < 2:
        return None
    (label, most), right = counts.most_common(1)[0], correct(given)
    share, (low, high) = most / n, wilson(right, n)
    always = f"always predicting “{label}” gives {share:.1%}"
    told = f"accuracy {right / n:.1%} [{low:.1%}, {high:.1%}] of {n:,}; {always}"
    common: dict[str, Any] = {"check": "majority", "when": "evaluation", "number": right / n - share}
    names = renamed(given) or relabelled(given, share)
    if names is not None:
        return Finding(outcome="fail", found=f"{told}; {names.found}", **names.advice, **common)
    if low > share:
        return Finding(outcome="pass", found=told, **common)
    if right == n:
        return Finding(
            outcome="warn",
            found=told,
            meaning="All are right, but they are too few to rule out luck.",
            fix="Evaluate on more examples.",
            **common,
        )
    if high < by_chance(given):
        return Finding(
            outcome="fail",
            found=f"{told}; by chance {by_chance(given):.1%} would be right",
            meaning="Fewer are right than by chance: predictions and labels are systematically opposed.",
            fix="Check that each prediction is in the row of its own label, and whether a class "
            "means the same in both.",
            **common,
        )
    return Finding(
        outcome="fail",
        found=told,
        meaning=NOT_TOLD_APART if right / n > share else LEARNED_NOTHING,
        fix="Check that the input reaches the model and that the loss falls; judge on more examples, or by "
        "a measure "
        "that weighs classes equally.",
        **common,
    )


def collapse_told(findings: Iterable[Finding]) -> str:
    """That predictions came to what the most frequent label gives, with what to try; nothing where they did
    not. Only a model that says one class for every input has collapsed."""
    failed = {one.check: one for one in findings if one.outcome == "fail"}
    found = failed.get("majority")
    if found is None or found.meaning not in COLLAPSES:
        return ""
    if found.meaning == NOT_BETTER:
        return f"{COLLAPSES[NOT_BETTER]}: {found.found}. {found.fix}"
    one_class = "The model has collapsed to one class. " if "collapse" in failed else ""
    return f"{one_class}{COLLAPSES[found.meaning]}: {found.found}. {CURE}"


def collapse(given: Predictions) -> Finding | None:
    """How many of the classes are ever predicted; None where there is only one label."""
    same_length(given)
    labels, said = Counter(given.labels), Counter(given.predicted)
    if len(labels) < 2:
        return None
    n = len(given.labels)
    shares = ", ".join(f"“{name}” {count / n:.0%}" for name, count in said.most_common(3))
    classes = len(set(given.classes) | labels.keys() | said.keys())
    told = f"{len(said)} of {classes} classes are predicted: {shares}"
    due = [name for name, count in labels.items() if count / n >= FEW_LABELS]
    common: dict[str, Any] = {"check": "collapse", "when": "evaluation", "number": float(len(said))}
    if len(said) == 1:
        return Finding(
            outcome="fail",
            found=told,
            meaning="The model predicts the same class for every input.",
            fix="Look at the learning rate, and whether the input reaches the head.",
            **common,
        )
    missing = [name for name in unsaid(labels, said, classes) if renamed(given) is None]
    if missing or len(said) == 2 < len(due):
        never = ", ".join(f"“{name}” ({labels[name] / n:.0%} of the labels)" for name in missing[:3])
        return Finding(
            outcome="warn",
            found=f"{told}; never {never}" if never else told,
            meaning=f"The model knows {len(said)} classes; {len(due)} are frequent enough to be learned.",
            fix="Look at the classes that are never predicted: are their labels read, are they weighed?",
            **common,
        )
    return Finding(outcome="pass", found=told, **common)


def unsaid(labels: Counter[Hashable], said: Counter[Hashable], classes: int) -> list[Hashable]:
    """Labels that are never predicted and at least half as frequent as if all classes were equally so."""
    least = max(labels.total() / classes / 2, ENOUGH)
    return [name for name, count in labels.most_common() if count >= least and name not in said]


def repeated(given: Predictions) -> Finding:
    """Texts that are there more than once: with other labels, other predictions, or the same."""
    same_length(given)
    labels, said = defaultdict[str, Counter[Hashable]](Counter), defaultdict[str, set[Hashable]](set)
    for text, label, prediction in zip(given.texts, given.labels, given.predicted, strict=True):
        labels[" ".join(text.casefold().split())][label] += 1
        said[text].add(prediction)
    n = len(given.labels)
    again = n - len(labels)
    torn = {text: counts for text, counts in labels.items() if len(counts) > 1}
    conflicts = sum(counts.total() for counts in torn.values())
    best = sum(max(counts.values()) for counts in labels.values()) / n
    unsteady = sum(len(answers) > 1 for answers in said.values())
    told = f"{n:,} rows, {again:,} of them repeat a text; {conflicts:,} have a text with two labels"
    common: dict[str, Any] = {"check": "examples", "when": "evaluation"}
    if unsteady:
        return Finding(
            outcome="fail",
            found=f"{unsteady:,} texts have two predictions",
            number=float(unsteady),
            meaning="The same text gets different predictions: dropout is on, or the rest of the batch "
            "matters.",
            fix="Predict in evaluation mode (no dropout), and look at padding and batch statistics.",
            **common,
        )
    if conflicts >= SOME * n:
        return Finding(
            outcome="warn",
            found=f"{told}, such as “{next(iter(torn))[:60]}”",
            number=conflicts / n,
            meaning=f"No model can be right on both: at the most {best:.1%} of these rows.",
            fix="Look which label is right, and whether something that decides it is missing from the text.",
            **common,
        )
    if again >= SOME * n:
        return Finding(
            outcome="warn",
            found=told,
            number=again / n,
            meaning=f"There are {len(labels):,} different texts: intervals over {n:,} rows are too narrow.",
            fix="Leave out repeated rows, and look whether the same texts were trained on.",
            **common,
        )
    return Finding(outcome="pass", found=told, number=again / n, **common)


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
