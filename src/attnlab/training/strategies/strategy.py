"""How one model is trained by its processes: which parts of a step each takes, and how they become one step.

A step is its parts (`training.accumulate` batches). Everything random in a part is a function of (seed, step,
part), so that it does not matter which process takes it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from torch import Tensor, nn

from attnlab.config.schema import TrainingSettings
from attnlab.config.values import ConfigError
from attnlab.data.sharing import in_order_of_pieces, own_pieces
from attnlab.model.model import Model
from attnlab.runs.checkpoints import Checkpoints
from attnlab.training.checkpoint import Checkpoint, save_checkpoint
from attnlab.training.optimizers import Optimizers
from attnlab.training.strategies.processes import ALONE, Processes

T = TypeVar("T")


class Strategy(ABC):
    """One model, several processes. `model` is the plain model that is counted, judged and checked."""

    several: ClassVar[bool] = True
    """Whether it is for more than one process."""
    whole_weights: ClassVar[bool] = True
    """Whether the plain model has its weights between steps; else only inside `whole`."""

    def __init__(self, processes: Processes):
        self.processes = processes

    # ------------------------------------------------------------ before the first step
    def refuse(self, settings: TrainingSettings) -> None:
        """Stop, before any work, where the settings do not allow so many processes."""
        world = self.processes.world
        if settings.accumulate < world:
            raise ConfigError(
                f"training.accumulate is {settings.accumulate}, and there are {world} processes: a step is "
                "its accumulated batches, and each process takes at least one. Set training.accumulate = "
                f"{world} or more, or start fewer processes."
            )

    @abstractmethod
    def wrap(self, model: Model, wrapped: nn.Module, optimizer: Optimizers) -> tuple[nn.Module, Optimizers]:
        """What a step goes through from now on, and what moves its weights."""

    def trained(self, model: Model) -> nn.Module:
        """The module whose parameters have gradients and are moved, by the names of the plain model."""
        return model

    # ------------------------------------------------------------ a step
    def parts(self, count: int) -> list[int]:
        """The parts of a step that this process takes, of so many: every `world`-th."""
        return list(own_pieces(self.processes, count))

    def divisor(self, count: int) -> float:
        """What the sum of a part's losses is divided by, where a step has so many targets over all
        processes: their gradients are averaged, and it is the mean over all targets that is wanted."""
        return count / self.processes.world

    def exchanging(self, wrapped: nn.Module, *, last: bool) -> AbstractContextManager[Any]:
        """Around the forward and backward of a part: gradients are exchanged with the last."""
        return nullcontext()

    def fillers(self, own: int) -> int:
        """How often a process with so many parts does its last one again, for nothing, since others have
        more and its forwards are theirs too."""
        return 0

    def sendable(self, value: Tensor) -> Tensor:
        """A number of a part, for `in_order`."""
        return value.detach().cpu()

    def in_order(self, own: Sequence[T]) -> list[T]:
        """What every process has of its own parts, in the order of all parts of a step."""
        return in_order_of_pieces(self.processes.gather(list(own)))

    def in_order_for_first(self, own: Sequence[T]) -> list[T]:
        """The same for the first process; nothing for the others."""
        return in_order_of_pieces(self.processes.gather_to_first(list(own)))

    def norm(self, norm: Tensor) -> Tensor:
        """The norm of the whole gradient, of what this process has of it."""
        return norm

    # ------------------------------------------------------------ between steps
    @contextmanager
    def whole(self, optimizer: Optimizers | None = None) -> Iterator[None]:
        """Inside, the plain model has its weights in every process; and `moments` knows all of the
        optimizer's, where one is given."""
        yield

    def moments(self, optimizer: Optimizers) -> Mapping[str, Tensor]:
        """The optimizer's tensors by name."""
        return optimizer.state()

    def finish(self) -> None:  # noqa: B027 - where weights are never apart there is nothing to do
        """After the last step the plain model has its weights."""

    def asked(self, model: Model) -> Model:
        """What answers the fixed input, asked by all processes at once."""
        return model

    def weights(self, model: Model) -> Mapping[str, Tensor]:
        """The weights by name; of a model in parts, this process's part of each."""
        return {name: parameter.detach() for name, parameter in self.trained(model).named_parameters()}

    def save(self, checkpoints: Checkpoints, step: int, checkpoint: Checkpoint) -> Path:
        """Write a checkpoint, whole or not at all; gives its folder."""
        return save_checkpoint(checkpoints, step, checkpoint)

    # ------------------------------------------------------------ on record
    @property
    def versions(self) -> dict[str, Any]:
        """What the last bits of a run depend on: the order of its sums."""
        from attnlab.training.strategies import STRATEGIES

        return {"strategy": STRATEGIES.name_of(type(self)), "processes": self.processes.world}

    @property
    def record(self) -> dict[str, Any]:
        """For run.json."""
        return self.versions | {
            "hosts": list(self.processes.hosts),
            "backend": self.processes.backend,
        }


class One(Strategy):
    """One process: every part of a step is its own.

    Cost: nothing is sent.

    When it helps: the model and its batches fit on one device.
    """

    several = False

    def refuse(self, settings: TrainingSettings) -> None:
        if self.processes.world > 1:
            raise ConfigError(
                f'training.strategy is "one", and there are {self.processes.world} processes; use "ddp" or '
                '"fsdp", or start one process.'
            )

    def wrap(self, model: Model, wrapped: nn.Module, optimizer: Optimizers) -> tuple[nn.Module, Optimizers]:
        return wrapped, optimizer

    def divisor(self, count: int) -> float:
        return count

    def sendable(self, value: Tensor) -> Tensor:
        return value.detach()

    @property
    def versions(self) -> dict[str, Any]:
        return {}

    @property
    def record(self) -> dict[str, Any]:
        return {"strategy": "one", "processes": 1}


ONE = One(ALONE)
