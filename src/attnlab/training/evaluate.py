"""The dev loss: always the same batches with the same masking, on a stream of its own."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal

import torch

from attnlab.config.streams import stream_seed
from attnlab.data.loader import Loader
from attnlab.model.model import Model
from attnlab.objectives.objective import Objective


@dataclass(frozen=True)
class Evaluation:
    """`loss` in nats per target, and what follows from it."""

    loss: float
    scores: Mapping[str, float]


@torch.no_grad()
def evaluate(
    model: Model,
    objective: Objective,
    loader: Loader,
    *,
    batches: int | Literal["all"],
    seed: int,
    device: torch.device,
    autocast: Callable[[], AbstractContextManager[Any]],
) -> Evaluation:
    """The mean loss over the first `batches` of the loader's first epoch, in eval mode."""
    plan = loader.plan(0)
    total, count, size, parts = 0.0, 0, 0, dict[str, float]()
    training = model.training
    model.eval()
    try:
        for number in itertools.islice(range(len(plan)), None if batches == "all" else batches):
            prepared = objective.prepare(loader.load(plan, number), stream_seed(seed, "evaluation", number))
            with autocast():
                loss = objective.loss(model, prepared.to(device))
            total, count, size = total + float(loss.total), count + int(loss.count), size + prepared.bytes
            for name, part in loss.parts.items():
                parts[name] = parts.get(name, 0.0) + float(part)
    finally:
        model.train(training)
    scores = {name: part / max(1, count) for name, part in parts.items()}
    mean = total / max(1, count)
    scores |= {"perplexity": math.exp(min(mean, 700.0)), "targets": count}
    if size:
        scores["bits_per_byte"] = total / math.log(2) / size
    return Evaluation(mean, scores)
