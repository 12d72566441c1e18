"""Every process has a part of every tensor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.distributed_c10d import _set_pg_timeout
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from attnlab.config.ranges import Count
from attnlab.config.schema import TrainingSettings
from attnlab.config.values import ConfigError
from attnlab.config.wording import first_few
from attnlab.model.blocks import Block
from attnlab.model.isolation import copy_module
from attnlab.model.model import Model
from attnlab.runs.checkpoints import Checkpoints
from attnlab.training.checkpoint import Checkpoint
from attnlab.training.machine import return_freed_memory
from attnlab.training.optimizers import Optimizers
from attnlab.training.strategies.processes import Processes
from attnlab.training.strategies.sharded_checkpoint import save_shards, whole_tensor
from attnlab.training.strategies.strategy import Strategy
from attnlab.training.updates import MuonUpdate, TorchUpdate, orthogonal_each

ELEMENTWISE = (
    "SGD",
    "Adam",
    "AdamW",
    "Adamax",
    "NAdam",
    "RAdam",
    "RMSprop",
    "Adagrad",
    "Adadelta",
    "ASGD",
    "Rprop",
)
"""Optimizers of torch.optim that move each number by its own gradient alone."""


class FSDP(Strategy):
    """FSDP: every process has a part of each weight, of its gradient and of the optimizer's state.

    Formula: the step of ddp. A block's weights are gathered for its forward and again for its backward, and
    its gradient is summed into the parts.

    Cost: the memory of weights, gradients and optimizer divided by the processes; each part of a step sends
    about three times the size of the weights. Evaluations and checks gather the whole weights, without
    gradients, in every process. With `replicas` there are so many groups of processes with a whole model
    each, such as one a machine: only gradients go between groups, once a step. With training.precision =
    "bfloat16" blocks compute in it, as with ddp; weights are gathered and kept in float32.

    When it helps: the model, its gradient and AdamW's state do not fit on one device.

    Paper: Zhao et al. 2023, "PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel".
    """

    whole_weights = False

    def __init__(
        self,
        processes: Processes,
        *,
        replicas: Count = 1,
    ):
        super().__init__(processes)
        self.replicas = replicas
        self.plain: Model | None = None
        self.sharded: Model | None = None
        self.rounds, self.inside = 0, 0
        self.held: Mapping[str, Tensor] = {}

    def refuse(self, settings: TrainingSettings) -> None:
        super().refuse(settings)
        world = self.processes.world
        if world % self.replicas:
            fitting = [str(n) for n in range(1, world + 1) if world % n == 0]
            raise ConfigError(
                f"training.strategy.replicas is {self.replicas}, which does not divide {world} processes; "
                f"use {first_few(fitting)}."
            )
        if settings.compile:
            raise ConfigError("training.compile does not work with fsdp; set it to false, or use ddp.")

    # ------------------------------------------------------------ before the first step
    def wrap(self, model: Model, wrapped: nn.Module, optimizer: Optimizers) -> tuple[nn.Module, Optimizers]:
        refuse_optimizer(optimizer)
        device = next(model.parameters()).device
        shape = (self.replicas, self.processes.world // self.replicas)
        names = ("replicate", "shard")
        mesh = init_device_mesh(device.type, shape, mesh_dim_names=names)
        for name in names:  # which would wait half an hour
            _set_pg_timeout(timedelta(seconds=self.processes.timeout), mesh.get_group(name))
        chosen = mesh if self.replicas > 1 else mesh["shard"]
        sharded = copy_module(model, {})
        for block in [module for module in sharded.modules() if isinstance(module, Block)]:
            fully_shard(block, mesh=chosen, reshard_after_forward=True)
        fully_shard(sharded, mesh=chosen, reshard_after_forward=True)
        self.plain, self.sharded = model, sharded
        moved = Optimizers(optimizer.recipe, sharded)
        moved.restore(parts_of(optimizer.state(), sharded))
        for update in moved.made:
            if isinstance(update, MuonUpdate):
                update.directions = self.directions  # type: ignore[assignment,method-assign]
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.data = torch.empty_like(parameter)  # memory that can be given back
        self._release()
        return sharded, moved

    def trained(self, model: Model) -> nn.Module:
        return model if self.sharded is None else self.sharded

    # ------------------------------------------------------------ a step
    def parts(self, count: int) -> list[int]:
        self.rounds = -(-count // self.processes.world)
        return super().parts(count)

    def fillers(self, own: int) -> int:
        return self.rounds - own

    def exchanging(self, wrapped: nn.Module, *, last: bool) -> AbstractContextManager[Any]:
        assert isinstance(wrapped, FSDPModule)
        wrapped.set_requires_all_reduce(last)  # between groups; inside one, each batch is summed into parts
        return nullcontext()

    def norm(self, norm: Tensor) -> Tensor:
        return norm.full_tensor() if isinstance(norm, DTensor) else norm

    def directions(self, matrices: list[DTensor]) -> list[Tensor]:
        """Muon's step of each matrix. It asks whole matrices: each is gathered, made orthogonal by one of the
        processes, and taken apart again."""
        world, results = self.processes.world, list[Tensor]()
        for begin in range(0, len(matrices), world):
            group = matrices[begin : begin + world]
            whole = [matrix.full_tensor() for matrix in group]
            if (own := self.processes.rank) < len(group):
                whole[own] = orthogonal_each([whole[own]])[0].contiguous()
            for owner, (matrix, part) in enumerate(zip(whole, group, strict=True)):
                dist.broadcast(matrix, src=owner)
                results.append(part_of(matrix, part))
        return results

    # ------------------------------------------------------------ between steps
    @contextmanager
    def whole(self, optimizer: Optimizers | None = None) -> Iterator[None]:
        """Nested ones gather once."""
        self.inside += 1
        try:
            if self.inside == 1:
                self._fill()
            state = {} if optimizer is None else optimizer.state()
            gathered = {key: whole_tensor(value) for key, value in state.items()}
            self.held = gathered if self.processes.first else {}
            yield
        finally:
            self.inside -= 1
            self.held = {}
            if not self.inside:
                self._release()

    def moments(self, optimizer: Optimizers) -> Mapping[str, Tensor]:
        return self.held

    @torch.no_grad()
    def _fill(self) -> None:
        if self.plain is None or self.sharded is None:
            return
        for plain, part in zip(self.plain.parameters(), self.sharded.parameters(), strict=True):
            plain.untyped_storage().resize_(plain.numel() * plain.element_size())
            plain.copy_(part.full_tensor())  # type: ignore[attr-defined]

    def _release(self) -> None:
        if self.plain is not None:
            for plain in self.plain.parameters():
                plain.untyped_storage().resize_(0)
            return_freed_memory()

    def finish(self) -> None:
        self._fill()

    def asked(self, model: Model) -> Model:
        return model if self.sharded is None else self.sharded

    def save(self, checkpoints: Checkpoints, step: int, checkpoint: Checkpoint) -> Path:
        return save_shards(checkpoints, step, checkpoint, self.processes)


def refuse_optimizer(optimizer: Optimizers) -> None:
    """Stop where an optimizer may need whole matrices, of which a process has a part."""
    for update in optimizer.made:
        if isinstance(update, TorchUpdate) and type(update.optimizer).__name__ not in ELEMENTWISE:
            raise ConfigError(
                f"training.optimizer: {type(update.optimizer).__name__} may mix the numbers of a matrix, and "
                f'with fsdp a process has a part of each; use training.strategy = "ddp", or one of '
                f"{', '.join(ELEMENTWISE)}, adamw or muon."
            )


def part_of(whole: Tensor, like: DTensor) -> DTensor:
    """This process's part of a tensor that every process has, as another is divided."""
    return distribute_tensor(whole, like.device_mesh, like.placements, src_data_rank=None)


def parts_of(state: Mapping[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """An optimizer's tensors by name, those in the shape of their parameter divided as it is."""
    parameters, parts = dict(model.named_parameters()), {}
    for key, value in state.items():
        parameter = parameters[key.rsplit("/", 1)[0]]
        parts[key] = value
        if isinstance(parameter, DTensor) and value.shape == parameter.shape:
            parts[key] = part_of(value.to(parameter.device), parameter)
    return parts
