"""The contract of a target: what is predicted, and all that follows from its being that."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from torch import Tensor

from attnlab.data.example import Example
from attnlab.data.labels import LabelForm, Labels
from attnlab.metrics.metric import Examples
from attnlab.runs.findings import Finding, Outcome
from attnlab.runs.typed import Value
from attnlab.targets.predictions import collapse, majority
from attnlab.targets.recipes import RECIPES, Recipe
from attnlab.targets.relabelling import Predictions
from attnlab.targets.report import Baseline, PredictingTask, TargetReport

Row = Mapping[str, Any]
"""What a batch holds of one of its rows: `targets`, which of its tokens are `real`, and what the target reads
besides."""


Said = Callable[[Sequence[Example]], Examples]
"""What a model says of texts, and what is right, in the columns that metrics read."""


class Target(LabelForm):
    """What is predicted. Its name is the kind of the labels in run.json."""

    columns: tuple[str, ...] = ("text", "pair", "label")
    """The parts of an example that are read from a table with what is right."""
    by_token: bool = False
    """Whether targets stand at tokens: words, or tags of words."""
    recipes: Mapping[str, Recipe] = RECIPES
    """How a trained model is adapted to it, by adapter."""
    one_name: bool = False
    """Whether a text's label is one name, which a language model can be asked for."""
    told_by_words: bool = False
    """Whether a bag of words can be learned to predict it, to compare a model with."""
    compares_batch: bool = False
    """Whether a text is told from the others of its batch: its loss is no sum over examples."""

    def refuse(self, labels: Labels, *, declared: bool) -> None:
        """Refuse labels that teach nothing, or are hardly meant: before any tokenizer is trained on their
        text. `declared` says that a person named the classes (data.corpus.labels), so that they are meant."""

    def warnings(self, labels: Labels) -> list[str]:
        """What a person should know before a model learns them."""
        return []

    def plain_loss(self, scores: Tensor, row: Row) -> Tensor:
        """The loss of one row that was read alone, by a head's scores (C) or (T,C), written out; of words
        see attnlab.evaluation.texts."""
        raise NotImplementedError

    def plain_prediction(self, scores: Tensor, row: Row, labels: Labels) -> dict[str, Any]:
        """What is said of one row that was read alone, by column, written out; nothing where there is no
        second way to it."""
        return {}

    def uncertainty(self, targets: Tensor, given: Sequence[Hashable]) -> float:
        """The loss that is left when what is given of each row is known, where targets are of rows."""
        raise NotImplementedError

    def predictions(self, examples: Examples, labels: Labels) -> Predictions | None:
        """What a classifier said of the examples of an evaluation, in the names of its classes."""
        return None

    def majority(self, examples: Examples, labels: Labels) -> Finding:
        """Whether predictions are better than saying the same of every example."""
        predictions = self.predictions(examples, labels)
        none = finding("majority", Outcome.NOT_APPLICABLE, "no_classes")
        return none if predictions is None else majority(predictions)

    def collapse(self, examples: Examples, labels: Labels) -> Finding:
        """Whether different things are predicted at all."""
        predictions = self.predictions(examples, labels)
        none = finding("collapse", Outcome.NOT_APPLICABLE, "no_classes")
        return none if predictions is None else collapse(predictions)

    def findings(self, examples: Examples, labels: Labels) -> list[Finding]:
        """Both, where they apply."""
        findings = self.majority(examples, labels), self.collapse(examples, labels)
        return [finding for finding in findings if finding.outcome is not Outcome.NOT_APPLICABLE]

    def report(self, task: PredictingTask, texts: Sequence[Example], examples: Examples) -> TargetReport:
        """What is reported of these examples beside their metrics."""
        return TargetReport()

    def baselines(self, task: PredictingTask, texts: Sequence[Example]) -> list[Baseline]:
        """What there is on these texts without any training."""
        return []

    def bag_of_words(self, task: PredictingTask, train: Sequence[Example]) -> Said:
        """A linear model of the words of training texts, or the like, which says of other texts what metrics
        read; of targets that words tell."""
        raise NotImplementedError

    def shown(self, truth: Mapping[str, Any], labels: Labels) -> str | float:
        """What was right of one row, by the task's columns and its `targets`, for a person."""
        raise NotImplementedError


def entropy(given: Sequence[Hashable], targets: Sequence[int]) -> float:
    """Nats per target that are left when what is given is known."""
    groups, pairs = Counter(given), Counter(zip(given, targets, strict=True))
    return sum(n * math.log(groups[context] / n) for (context, _), n in pairs.items()) / len(targets)


def finding(check: str, outcome: Outcome, kind: str, number: float | None = None, **values: Value) -> Finding:
    """What a check finds of the predictions of an evaluation."""
    return Finding(check=check, when="evaluation", outcome=outcome, kind=kind, number=number, values=values)
