"""What a training loop really does, seen from the model: its batches, and the gradient that comes back."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from attnlab.checks.module_subject import scores_of
from attnlab.model.losses import IGNORE

ROWS = 256
"""Targets of a batch whose probabilities are looked at."""
SMOOTH = 8
"""Classes from which on a target's weight is read off the classes that it is not, whatever the smoothing."""
SPREAD = 0.05
FED = 2000
"""Texts that are kept of the training, to ask whether their labels go with their words."""
KEPT = 200_000
"""Predictions that are kept of one evaluation."""


class UnsoundWarning(UserWarning):
    """A check warns or failed, or could not be made, and the training goes on."""


@dataclass(frozen=True)
class Part:
    """One batch of a step, by the gradient of its scores: softmax − target, times the target's weight.

    `taught` is the class that each place (B,T) or text (B) was taught, IGNORE where none; `loss` the mean
    nats of these; `weight` what one of them weighs in the step, None where that differs within the batch.
    """

    ids: Tensor | None
    labels: Tensor | None
    taught: Tensor
    classes: int
    loss: float
    weight: float | None

    @property
    def count(self) -> int:
        return int((self.taught != IGNORE).sum())


def part_of(ids: Tensor | None, labels: Tensor | None, scores: Tensor, gradient: Tensor) -> Part:
    lead, classes = scores.shape[:-1], scores.shape[-1]
    flat, slope = scores.detach().reshape(-1, classes), gradient.detach().reshape(-1, classes)
    there = slope.abs().amax(-1) > 0
    taught = torch.where(there, slope.argmin(-1), IGNORE)
    rows = there.nonzero().flatten()
    rows = rows[torch.linspace(0, max(len(rows) - 1, 0), min(ROWS, len(rows))).long().to(rows.device)]
    chances, targets = flat[rows].double().softmax(-1), taught[rows, None]
    own = chances.gather(-1, targets)
    nats = -own.clamp(min=1e-300).log()
    weights = weights_of(slope[rows].double(), chances, targets, own)
    return Part(
        None if ids is None else ids.detach().cpu(),
        None if labels is None else labels.detach().cpu(),
        taught.reshape(lead).cpu(),
        classes,
        float(nats.mean()) if len(rows) else 0.0,
        common(weights),
    )


def weights_of(slope: Tensor, chances: Tensor, targets: Tensor, own: Tensor) -> Tensor:
    """(N) the weight of each target. Of the classes that it is not, the slope of gradient by probability."""
    if slope.shape[-1] < SMOOTH:
        return (slope.gather(-1, targets) / (own - 1).clamp(max=-1e-6)).flatten()
    other = torch.ones_like(slope).scatter(-1, targets, 0.0)
    count = other.sum(-1, keepdim=True)
    x, y = ((v - (v * other).sum(-1, keepdim=True) / count) * other for v in (chances, slope))
    return (x * y).sum(-1) / (x * x).sum(-1).clamp(min=1e-300)


def common(weights: Tensor) -> float | None:
    """The weight that all targets have; None where they have not."""
    if not len(weights):
        return None
    low, middle, high = (float(weights.quantile(q)) for q in (0.1, 0.5, 0.9))
    return middle if middle > 0 and high - low <= SPREAD * middle else None


@dataclass(frozen=True)
class SeenCall:
    """A call of the model as the loop made it, with its tensors of one entry for each row. It can be made
    again, with some of its rows or with other ids."""

    args: tuple[Any, ...]
    given: Mapping[str, Any]

    @staticmethod
    def of(args: tuple[Any, ...], given: Mapping[str, Any]) -> SeenCall | None:
        """None where no ids were given."""
        ids = ids_of(args, given)
        if ids is None:
            return None
        return SeenCall(args, {name: v for name, v in given.items() if by_row(v, len(ids))})

    @property
    def ids(self) -> Tensor:
        ids = ids_of(self.args, self.given)
        assert ids is not None
        return ids

    @property
    def labels(self) -> Tensor | None:
        return self.given.get("labels")

    def rows(self, count: int) -> SeenCall:
        size = len(self.ids)
        args = tuple(value[:count] if by_row(value, size) else value for value in self.args)
        return SeenCall(args, {name: value[:count] for name, value in self.given.items()})

    def with_ids(self, ids: Tensor) -> SeenCall:
        if "input_ids" in self.given:
            return SeenCall(self.args, {**self.given, "input_ids": ids})
        return SeenCall((ids, *self.args[1:]), self.given)

    def without_labels(self) -> SeenCall:
        return SeenCall(self.args, {name: v for name, v in self.given.items() if name != "labels"})

    def answer(self, model: nn.Module) -> Any:
        return model(*self.args, **self.given)


@dataclass
class FedTexts:
    """Texts that a loop trained on, each with the class that it was taught, by the gradient of its scores.

    A text counts once, as it was met first; of pairs, which words do not tell, nothing is kept.
    """

    classes: int = 0
    taught: dict[tuple[int, ...], int] = field(default_factory=dict)
    complete: bool = False

    def add(self, ids: Tensor, given: Mapping[str, Any], gradient: Tensor) -> None:
        types, real = given.get("token_type_ids"), given.get("attention_mask")
        if isinstance(types, Tensor) and bool(types.any()):
            self.taught, self.complete = {}, True
            return
        masked = isinstance(real, Tensor) and real.shape == ids.shape
        there = real.bool() if masked and real is not None else torch.ones_like(ids, dtype=torch.bool)
        slopes, self.classes = gradient.detach(), gradient.shape[-1]
        for row, own, slope in zip(ids.cpu(), there.cpu(), slopes.cpu(), strict=True):
            if bool(slope.abs().any()):
                self.taught.setdefault(tuple(row[own].tolist()), int(slope.argmin()))
        self.complete = len(self.taught) >= FED


@dataclass
class Observer:
    """Hooks on a model: of the first step its parts, of each evaluation its labels and predictions.

    It changes nothing of what the model computes, and keeps no scores.
    """

    parts: list[Part] = field(default_factory=list)
    labels: list[Tensor] = field(default_factory=list)
    predicted: list[Tensor] = field(default_factory=list)
    fed: FedTexts = field(default_factory=FedTexts)
    held_out: SeenCall | None = None
    """The first batch that was evaluated, or else trained on."""
    training: bool = True
    handle: RemovableHandle | None = None

    def attach(self, model: nn.Module) -> None:
        self.handle = model.register_forward_hook(self._seen, with_kwargs=True)

    def detach(self) -> None:
        if self.handle is not None:
            self.handle.remove()

    def clear(self) -> None:
        self.labels.clear()
        self.predicted.clear()

    def _seen(self, model: nn.Module, args: tuple[Any, ...], given: dict[str, Any], output: Any) -> None:
        with self._apart():
            self._note(model, args, given, output)

    @contextmanager
    def _apart(self) -> Iterator[None]:
        """Whatever goes wrong here is not the loop's: from then on the model is not observed."""
        try:
            yield
        except Exception as error:
            self.detach()
            warnings.warn(
                f"attnlab no longer observes the model: {type(error).__name__}: {error}. The training goes "
                "on; what is checked from its batches stays unchecked.",
                UnsoundWarning,
                stacklevel=4,
            )

    def _note(self, model: nn.Module, args: tuple[Any, ...], given: dict[str, Any], output: Any) -> None:
        scores = scores_of(output)
        if scores is None:
            return
        if model.training and scores.requires_grad and scores.ndim == 2 and not self.fed.complete:
            self._feed(args, given, scores)
        if model.training and self.training and scores.requires_grad:
            self._keep(args, given)
            ids, labels = ids_of(args, given), given.get("labels")

            def keep(gradient: Tensor) -> None:
                with self._apart():
                    self.parts.append(part_of(ids, labels, scores, gradient))

            scores.register_hook(keep)
        elif not model.training:
            self._evaluated(args, given, scores)

    def _feed(self, args: tuple[Any, ...], given: Mapping[str, Any], scores: Tensor) -> None:
        """Keep the texts of a batch with what they are taught: the lowest slope is that of the target."""
        ids, labels = ids_of(args, given), given.get("labels")
        if ids is None or ids.ndim != 2 or len(ids) != len(scores) or scores.shape[1] < 2:
            return
        classes = labels.ndim == 1 and not labels.is_floating_point() if isinstance(labels, Tensor) else None
        if classes is False or (classes is None and scores.shape[1] == len(ids)):
            return  # numbers, several labels, or each text compared with the others of its batch

        def keep(gradient: Tensor) -> None:
            with self._apart():
                self.fed.add(ids, given, gradient)

        scores.register_hook(keep)

    def _evaluated(self, args: tuple[Any, ...], given: Mapping[str, Any], scores: Tensor) -> None:
        labels = given.get("labels")
        if not self.labels:
            self._keep(args, given)
        if not isinstance(labels, Tensor) or scores.ndim != 2 or labels.ndim != 1:
            return  # only texts with one class each are judged by their predictions
        if labels.is_floating_point() or sum(map(len, self.labels)) > KEPT:
            return
        self.labels.append(labels.detach().cpu())
        self.predicted.append(scores.detach().argmax(-1).cpu())

    def _keep(self, args: tuple[Any, ...], given: Mapping[str, Any]) -> None:
        self.held_out = SeenCall.of(args, given) or self.held_out


def by_row(value: Any, rows: int) -> bool:
    return isinstance(value, Tensor) and value.ndim > 0 and len(value) == rows


def ids_of(args: tuple[Any, ...], given: Mapping[str, Any]) -> Tensor | None:
    ids = given.get("input_ids", args[0] if args else None)
    return ids if isinstance(ids, Tensor) and not ids.is_floating_point() else None
