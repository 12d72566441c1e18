"""The dev loss: always the same batches with the same masking, on a stream of its own."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch

from attnlab.config.streams import stream_seed
from attnlab.data.batch import Batch
from attnlab.data.loader import Loader
from attnlab.model.losses import LossSum
from attnlab.model.model import Model
from attnlab.objectives.objective import Objective, Prepared


@dataclass(frozen=True)
class Evaluation:
    """`loss` in nats per target, and what follows; perplexity from the words alone, if it has parts."""

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
    total, words, count, size, parts = 0.0, 0.0, 0, 0, dict[str, float]()
    with judging(model):
        found = judged(model, objective, loader, seed=seed, device=device, autocast=autocast)
        for _, prepared, loss in itertools.islice(found, None if batches == "all" else batches):
            total, count, size = total + float(loss.total), count + int(loss.count), size + prepared.bytes
            words += float(loss.of_words.total)
            for name, part in loss.parts.items():
                parts[name] = parts.get(name, 0.0) + float(part)
    scores = {name: part / max(1, count) for name, part in parts.items()}
    scores |= {"perplexity": math.exp(min(words / max(1, count), 700.0)), "targets": count}
    if size:
        scores["bits_per_byte"] = words / math.log(2) / size
    return Evaluation(total / max(1, count), scores)


def judged(
    model: Model,
    objective: Objective,
    loader: Loader,
    *,
    seed: int,
    device: torch.device,
    autocast: Callable[[], AbstractContextManager[Any]],
) -> Iterator[tuple[Batch, Prepared, LossSum]]:
    """Each batch of the loader's first epoch, what the objective made of it, and its loss."""
    plan = loader.plan(0)
    for number in range(len(plan)):
        batch = loader.load(plan, number)
        prepared = objective.prepare(batch, stream_seed(seed, "evaluation", number))
        with autocast():
            loss = objective.loss(model, prepared.to(device))
        yield batch, prepared, loss


@contextmanager
def judging(model: Model) -> Iterator[None]:
    """The model in eval mode, and afterwards in the mode it was in."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)
