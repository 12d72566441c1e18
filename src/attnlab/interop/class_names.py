"""Labels in other projects' files: names of classes, and what kind of label a head is for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attnlab.config.schema import ModelSettings
from attnlab.config.values import Choice
from attnlab.data.labels import Labels
from attnlab.interop.fields import Theirs
from attnlab.interop.foreign import ID2LABEL
from attnlab.model.heads.labels import Classification
from attnlab.model.isolation import copy_of
from attnlab.model.model import Model
from attnlab.targets import TARGETS
from attnlab.tasks import TASKS

PROBLEMS: dict[str, str] = {
    "class": "single_label_classification",
    "classes": "multi_label_classification",
    "number": "regression",
}


def task_of(labels: Labels) -> str | None:
    """The task that learns such labels; none where there are no labels."""
    learned = {TASKS[name].target.name: name for name in reversed(tuple(TASKS))}  # the first of each
    return None if TARGETS[labels.kind].of_words else learned[labels.kind]


NAMED: tuple[str, ...] = (*PROBLEMS, "tags")
"""Labels whose number, and mostly names, stand in config.json."""


def labels_in(theirs: Theirs, outputs: int) -> Labels:
    """What their config.json says of the labels of a head for texts; their frequency it does not know."""
    kinds = {problem: kind for kind, problem in PROBLEMS.items()}
    kind = kinds.get(str(theirs.get("problem_type")), "number" if outputs == 1 else "class")
    return Labels("number") if kind == "number" else named_labels(theirs, kind, outputs)


def named_labels(theirs: Theirs, kind: str, outputs: int) -> Labels:
    """Labels by the names of their config.json."""
    named = theirs.get(ID2LABEL)
    by_number = {int(n): str(name) for n, name in named.items()} if isinstance(named, Mapping) else {}
    names = tuple(by_number.get(n, f"LABEL_{n}") for n in range(outputs))
    return Labels(kind, names, (0,) * outputs)


def labels_out(labels: Labels) -> Theirs:
    """The same in their config.json; nothing where there are no labels."""
    if labels.kind not in NAMED:
        return {}
    fields: dict[str, Any] = {"problem_type": PROBLEMS[labels.kind]} if labels.kind in PROBLEMS else {}
    if labels.names:
        fields[ID2LABEL] = {str(n): name for n, name in enumerate(labels.names)}
        fields["label2id"] = {name: n for n, name in enumerate(labels.names)}
    return fields


def counted(settings: ModelSettings, labels: Labels) -> ModelSettings:
    """Settings whose head says how many classes it has, where it says "what the labels have"."""
    if labels.kind not in NAMED:
        return settings
    options = {**settings.output.options, "classes": labels.outputs}
    return replace(settings, output=Choice(settings.output.kind, options))


def unit_scores(scores: Tensor, labels: Labels) -> Tensor:
    """Scores of one of our heads as others read them: numbers in their own unit, all else as it is."""
    return labels.mean + labels.deviation * scores if labels.kind == "number" else scores


def in_unit(model: Model, labels: Labels) -> Model:
    """A model whose head gives numbers in their own unit, as others read them; ours are standardised."""
    if labels.kind != "number":
        return model
    folded = copy_of(model)
    to_unit(folded, labels)
    return folded


@torch.no_grad()
def to_unit(model: Model, labels: Labels) -> None:
    """Fold the scale of numbers into the model's own head; nothing where labels are classes."""
    if labels.kind == "number":
        assert isinstance(model.head, Classification)
        model.head.scores.weight.mul_(labels.deviation)
        model.head.scores.bias.mul_(labels.deviation).add_(labels.mean)
