"""The gradient of a step, over as many batches as it has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from torch import Tensor, nn

from attnlab.model.losses import LossSum
from attnlab.tasks.task import Prepared, Task


def backward(
    model: nn.Module,
    task: Task,
    batches: Sequence[Prepared],
    *,
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext,
    around: Callable[[int], AbstractContextManager[Any]] = nullcontext,
) -> tuple[float, dict[str, float]]:
    """The gradient of the mean over all targets of all batches; gives the mean cross-entropy, and its parts.

    What smoothing and z-loss add has its gradient, but is no part of that mean: it stays comparable.
    The model may be wrapped, in DDP or FSDP. `around` is entered for each batch with its number: to seed
    what is drawn in it.
    """
    count = max(1, sum(batch.count for batch in batches))
    sums: dict[str, Tensor] = {}
    for number, batch in enumerate(batches):
        with around(number):
            with autocast():
                loss: LossSum = model(**batch.inputs, objective=task.loss_of(batch))
            (loss.total / count).backward()
        for name, part in {"": loss.reported, **loss.parts}.items():
            sums[name] = sums.get(name, 0) + part.detach()
    means = {name: float(total) / count for name, total in sums.items()}
    return means.pop(""), means
