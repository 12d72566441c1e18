"""Which fault explains a step that came out otherwise: each is tried."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from attnlab.checks.plain_step import StepInputs, clipping_of, options_of, updated
from attnlab.config.schema import TrainingSettings
from attnlab.model.model import Model
from attnlab.runs.typed import Value
from attnlab.training.optimizers import OPTIMIZERS

EPSILONS = 4.0
"""Roundings of a weight that its update may differ by."""
ROUNDINGS = 32.0
"""Times as far as the same gradient with other roundings, a tensor may be from what it should be."""
FEW = 0.01
"""The share of a tensor's numbers that may be off: those whose gradient is itself a rounding error."""


@dataclass(frozen=True)
class StepOutcome:
    """What was found after a step, to be compared with what some update would have given."""

    settings: TrainingSettings
    model: Model
    inputs: StepInputs
    actual: Mapping[str, Tensor]
    close: float
    """How exact an update is, as a share of it."""

    def worst(self, inputs: StepInputs | None = None, **options: Any) -> tuple[str | None, float]:
        """The tensor that differs most from what this update gives, None where all agree; and by how much."""
        inputs = inputs or self.inputs
        return self.against(updated(self.settings.optimizer, self.model, inputs, **options))

    def roundings(self) -> dict[str, float]:
        """How far each update comes out otherwise when its gradient is another by a rounding: an update that
        is made orthogonal enlarges what is small of a matrix, and rounding errors with it."""
        nudged = replace(self.inputs, clipping=self.inputs.clipping * (1 + torch.finfo(torch.float32).eps))
        usual, other = (
            updated(self.settings.optimizer, self.model, inputs) for inputs in (self.inputs, nudged)
        )
        starts = {name: self.inputs.weights[name].double() for name in self.inputs.gradients}
        return {
            name: distance(other[name].double() - start, usual[name].double() - start)
            for name, start in starts.items()
        }

    def against(self, expected: Mapping[str, Tensor]) -> tuple[str | None, float]:
        worst: tuple[str | None, float] = (None, 0.0)
        largest = 0.0
        for key, wanted in expected.items():
            close = max(self.close, ROUNDINGS * self.inputs.noise.get(key.rsplit("/", 1)[0], 0.0))
            got = self.actual.get(key)
            start = self.inputs.weights.get(key)
            share, gap = (1.0, 1.0) if got is None else off(got, wanted, start, close)
            largest = max(largest, gap)
            if share > FEW and gap > close and gap >= worst[1]:
                worst = key, gap
        return (None, largest) if worst[0] is None else worst

    def explained(self, inputs: StepInputs | None = None, **options: Any) -> bool:
        try:
            return self.worst(inputs, **options)[0] is None
        except (KeyError, TypeError, ValueError):  # an option that this optimizer does not have
            return False


def distance(one: Tensor, other: Tensor) -> float:
    """As a share of the other; 1 where that is nothing."""
    size = float(other.double().norm())
    return float((one.double() - other.double()).norm()) / size if size else 1.0


def off(got: Tensor, wanted: Tensor, start: Tensor | None, close: float) -> tuple[float, float]:
    """The share of numbers that differ by more than rounding; and by how much of the update they differ."""
    got, wanted = got.double(), wanted.double().to(got.device)
    if got.shape != wanted.shape:
        return 1.0, math.inf
    gap, moved = got - wanted, wanted if start is None else wanted - start.double()
    distance = float(gap.norm()) / max(float(moved.norm()), 1e-30)
    if distance <= close:  # as almost always: no number needs to be looked at by itself
        return 0.0, distance
    rounding = EPSILONS * torch.finfo(torch.float32).eps
    if start is None:  # of what an optimizer remembers, which grows and shrinks with the gradient
        allowed = close * wanted.abs() + rounding * wanted.abs().max().clamp(min=1e-30)
    else:
        allowed = rounding * wanted.abs() + close * moved.abs() + 1e-12
    beyond = gap.abs() > allowed
    beyond |= ~gap.isfinite()
    return float(beyond.double().mean()), distance


Values = dict[str, Value]


def cause_of(
    outcome: StepOutcome, *, reported: float, rate: float, full: float, scale: float
) -> tuple[str, Values]:
    """What explains that a step came out otherwise, by trying it."""
    inputs = outcome.inputs
    if outcome.against(inputs.weights)[0] is None:
        return "skipped", {}
    if outcome.explained(replace(inputs, rate=reported)):
        return "rate", {"rate": reported * full, "expected": rate * full}
    if abs(scale - 1) > 1e-3:
        scaled = replace(inputs, clipping=clipping_of(outcome.settings.clip, inputs.norm * scale) * scale)
        values: Values = {"norm": inputs.norm * scale, "expected": inputs.norm}
        if outcome.explained(scaled):
            return "divisor", values
    for name, attempt in attempts(outcome).items():
        if attempt():
            return name, {}
    implied = implied_rate(outcome)
    if implied is not None and outcome.explained(replace(inputs, rate=implied)):
        return "rate", {"rate": implied * full, "expected": rate * full}
    return "differs", {}


def attempts(outcome: StepOutcome) -> Mapping[str, Callable[[], bool]]:
    """Faults of an update, each with whether it explains what was found."""
    inputs = outcome.inputs
    choice = outcome.settings.optimizer
    options = options_of(OPTIMIZERS, choice)
    every = frozenset(inputs.weights)
    decay = options.get("weight_decay", 0.0)
    betas = tuple(reversed(options.get("betas", (0, 0))))
    counted = {
        shift: {k: v + shift if k.endswith("/step") else v for k, v in inputs.moments.items()}
        for shift in (-1, 1)
    }
    counted[1] |= {f"{name}/step": torch.ones(()) for name in every if f"{name}/step" not in inputs.moments}
    return {
        "moments_lost": lambda: bool(inputs.moments) and outcome.explained(replace(inputs, moments={})),
        "not_clipped": lambda: outcome.explained(replace(inputs, clipping=1.0)),
        "clipped_twice": lambda: outcome.explained(replace(inputs, clipping=inputs.clipping**2)),
        "betas": lambda: outcome.explained(betas=betas),
        "count": lambda: any(outcome.explained(replace(inputs, moments=one)) for one in counted.values()),
        "decay_everywhere": lambda: outcome.explained(replace(inputs, decaying=every, matrices=every)),
        "decay_missing": lambda: bool(decay) and outcome.explained(weight_decay=0.0),
        "decay_unasked": lambda: decayed(outcome),
    }


def decayed(outcome: StepOutcome) -> bool:
    """Whether all agrees once each weight may have decayed by a share of its own."""
    expected = updated(outcome.settings.optimizer, outcome.model, outcome.inputs)
    for name, start in outcome.inputs.weights.items():
        gap, weight = expected[name].double() - outcome.actual[name].double(), start.double()
        share = float((gap * weight).sum() / weight.square().sum().clamp(min=1e-30))
        expected[name] = expected[name].double() - share * weight
    return outcome.against(expected)[0] is None


def implied_rate(outcome: StepOutcome) -> float | None:
    """The rate at which the weights really moved, where all of them moved at one."""
    expected = updated(outcome.settings.optimizer, outcome.model, outcome.inputs)
    ratios = []
    for name, start in outcome.inputs.weights.items():
        asked = expected[name].double() - start.double()
        moved = outcome.actual[name].double() - start.double()
        if float(asked.norm()):
            ratios.append(float((moved * asked).sum() / asked.square().sum()))
    ratios.sort()
    return outcome.inputs.rate * ratios[len(ratios) // 2] if ratios else None
