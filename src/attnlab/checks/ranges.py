"""Gradients and activations of a run, in numbers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from attnlab.checks.check import Case, Check
from attnlab.checks.real import batch_of, device_of, piece, prepared_of
from attnlab.model.isolation import undisturbed
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.runs.metrics_file import TAIL, events_of, last_events
from attnlab.runs.typed import Value

FEW = 20
EXPLODING, VANISHING = 100.0, 1e-7
FAR_BEYOND = 10.0
LARGE = 1e4


class Ranges(Check):
    """Ranges: are gradients and activations finite, and neither huge nor zero?

    Formula: of the last steps' gradient norms in metrics.jsonl: the largest is at most 100 times the
    median, or that of the run's first 20 steps where that is more (a model that has learned its labels has
    hardly any gradient left); the median is above 1e-7, and at most 10 times `training.clip`; the share of
    clipped steps is reported. On a real batch every part's output is finite, below 1e4, and not all zero.

    When it helps: a run that explodes between two evaluations and recovers, one that no longer
    learns, or one whose every step is cut to a fraction.

    Cannot see: a part that is small but not zero, and an explosion in steps of which metrics.jsonl has
    been lost.
    """

    when: ClassVar[tuple[When, ...]] = ("during", "after")
    limit: ClassVar[float] = 0.3

    def run(self, case: Case) -> Finding:
        norms = [] if case.folder is None else gradient_norms(case.folder / "metrics.jsonl")
        values: dict[str, Value] = {"gradients": sizes(norms, case.config.training.clip) if norms else None}
        first = first_norms(case.folder / "metrics.jsonl") if case.folder is not None and norms else []
        fault = fault_of_gradients(norms, first, case.config.training.clip)
        if fault:
            return self.finding(case.when, Outcome.WARN, fault, statistics.median(norms), **values)
        largest = activations(case)
        name, size = max(largest.items(), key=lambda item: (not math.isfinite(item[1]), item[1]))
        if not size < LARGE:
            return self.finding(case.when, Outcome.WARN, "large", size, name=name, **values)
        silent = [name for name, value in largest.items() if value == 0]
        if silent:
            return self.finding(case.when, Outcome.WARN, "silent", 0.0, name=silent[0], silent=len(silent))
        return self.finding(case.when, Outcome.PASS, "in_range", size, name=name, **values)


def sizes(norms: list[float], clip: Any) -> dict[str, Value]:
    """Gradient norms in a few numbers, with the share that was clipped where some may be."""
    numbers: dict[str, Value] = {
        "steps": len(norms),
        "median": statistics.median(norms),
        "largest": max(norms),
    }
    if clip == "off":
        return numbers | {"clip": None, "clipped": 0.0}
    return numbers | {"clip": float(clip), "clipped": sum(n > clip for n in norms) / len(norms)}


def fault_of_gradients(norms: list[float], first: list[float], clip: Any) -> str | None:
    """The kind of fault that the gradients' sizes have; None where there is none, or few are known."""
    if len(norms) < FEW:
        return None
    middle = statistics.median(norms)
    if middle < VANISHING:
        return "vanished"
    if max(norms) > EXPLODING * max(middle, statistics.median(first)):
        return "exploded"
    return "clipped" if clip != "off" and middle > FAR_BEYOND * clip else None


def gradient_norms(file: Path) -> list[float]:
    """The gradient norms of the last steps in metrics.jsonl."""
    return norms_of(last_events(file))


def first_norms(file: Path) -> list[float]:
    """The gradient norms of the run's first steps."""
    with file.open("rb") as stream:
        lines = stream.read(TAIL).decode(errors="ignore").splitlines()
    return norms_of(events_of(lines))[:FEW]


def norms_of(events: Iterable[dict[str, Any]]) -> list[float]:
    return [float(event["gradient"]) for event in events if event["event"] == "stepped"]


def activations(case: Case) -> dict[str, float]:
    """The largest absolute output of every part on a few rows of real text."""
    prepared = prepared_of(case, piece(batch_of(case), 4))
    largest: dict[str, float] = {}

    def noted(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: object, output: object) -> None:
            if isinstance(output, Tensor) and output.is_floating_point() and output.numel():
                size = float(output.abs().max().nan_to_num(math.inf))
                largest[name] = max(largest.get(name, 0.0), size)

        return hook

    with undisturbed(case.model) as model:
        handles = [part.register_forward_hook(noted(name)) for name, part in model.named_modules() if name]
        try:
            with torch.no_grad():
                case.task.loss(model, prepared.to(device_of(model)))
        finally:
            for handle in handles:
                handle.remove()
    return largest
