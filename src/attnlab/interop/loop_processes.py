"""A loop that is not ours, in one of many processes: what it does here, told to all the others and compared.

What is told goes by a group of its own, over gloo: it does not mix with the calls that the loop makes itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from attnlab.checks.process_facts import (
    BatchWeight,
    ProcessReading,
    ProcessScores,
    ProcessState,
    ProcessStep,
    row_checksums,
    some_numbers,
    watched_parameters,
)
from attnlab.checks.processes import Processes
from attnlab.interop.observing import Part, ids_of
from attnlab.runs.findings import Finding, Outcome, When

SECONDS = 300.0
"""How long the others may take to come to the same call: the first makes the checks of the model."""
ROWS = 20_000
"""Rows of a process that are remembered, to see whether another reads them too."""
WEIGHED = 20
"""Steps whose batches are weighed: in some of them all processes may have as many targets."""
Fact = TypeVar("Fact")


class LoopProcesses:
    """What this process of several does, and what follows from what all of them do."""

    def __init__(self, *, seconds: float = SECONDS):
        self.seconds = seconds
        self.rank, self.count = dist.get_rank(), dist.get_world_size()
        self.group = dist.new_group(backend="gloo", timeout=timedelta(seconds=seconds))
        self.model: nn.Module | None = None
        self.rows: list[str] = []
        self.weighed: list[tuple[BatchWeight, ...]] = []
        self.draws = ""
        self.own: list[Tensor] = []
        self.watched: list[nn.Parameter] = []
        self.handles: list[RemovableHandle] = []

    @classmethod
    def here(cls) -> LoopProcesses | None:
        """Nothing where the loop has one process."""
        several = dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
        return cls() if several else None

    def attach(self, model: nn.Module) -> None:
        """Watch what the model reads, and the gradients of this process before they are averaged."""
        self.model = model
        self.handles = [model.register_forward_pre_hook(self._reads, with_kwargs=True)]
        self.watched = watched_parameters(model)
        self.own = [torch.zeros_like(some_numbers(parameter)) for parameter in self.watched]
        for number, parameter in enumerate(self.watched):
            self.handles.append(parameter.register_hook(partial(self._add, number)))

    def detach(self) -> None:
        for handle in self.handles:
            handle.remove()
        self.handles = []

    def weigh(self, parts: Sequence[Part]) -> bool:
        """Keep what the batches of a step taught; gives whether those of the next are wanted too."""
        self.weighed.append(tuple(BatchWeight(part.count, part.weight) for part in parts))
        return len(self.weighed) < WEIGHED

    def stepping(self) -> Finding:
        """Of the first step, when its gradients are there: the weights are those that it began with."""
        gradients = [parameter.grad for parameter in self.watched]
        seen = all(gradient is not None for gradient in gradients)
        step = ProcessStep(
            state=self.state(1),
            rows=tuple(self.rows),
            batches=self.weighed[0],
            own=tuple(torch.cat(self.own).tolist()) if seen and self.own else (),
            used=tuple(n for g in gradients if g is not None for n in some_numbers(g).tolist())
            if seen
            else (),
            draws=self.draws,
        )
        for handle in self.handles[1:]:
            handle.remove()
        return self._judge("before", step, Processes().judge_step)

    def evaluated(
        self, steps: int, labels: Sequence[Hashable], predicted: Sequence[Hashable], examples: int | None
    ) -> Finding:
        """After an evaluation: what was scored, here or by all."""
        content = hashlib.blake2b(repr((list(labels), list(predicted))).encode(), digest_size=16).hexdigest()
        scores = ProcessScores(state=self.state(steps), scored=len(labels), content=content)
        return self._judge(
            "evaluation", scores, lambda when, all: Processes().judge_scores(when, all, examples)
        )

    def read(self) -> Finding:
        """Whether the rows that the processes read up to here are their own, and weighed the same."""
        reading = ProcessReading(rows=tuple(self.rows), steps=tuple(self.weighed))
        return self._judge("during", reading, Processes().judge_readings)

    def finish(self, steps: int) -> Finding:
        self.detach()
        return self._judge("after", self.state(steps), Processes().judge_states)

    def gathered(self, fact: Fact) -> list[Fact]:
        """What every process says, in the order of their ranks."""
        facts: list[Any] = [None] * self.count
        dist.all_gather_object(facts, fact, group=self.group)
        return facts

    def state(self, steps: int) -> ProcessState:
        assert self.model is not None
        return ProcessState.of(self.model, steps)

    def _judge(self, when: When, fact: Fact, judge: Callable[[When, Sequence[Fact]], Finding]) -> Finding:
        try:
            dist.monitored_barrier(self.group, timedelta(seconds=self.seconds), wait_all_ranks=True)
            return judge(when, self.gathered(fact))
        except RuntimeError as error:  # a process did not come, or is gone
            message = next(iter(str(error).splitlines()), "")[:200]
            return Processes().finding(when, Outcome.FAIL, "unanswered", seconds=self.seconds, error=message)

    def _reads(self, model: nn.Module, args: tuple[Any, ...], given: dict[str, Any]) -> None:
        ids = ids_of(args, given)
        if not model.training or not torch.is_grad_enabled() or ids is None or len(self.rows) >= ROWS:
            return
        if not self.draws and drops(model):
            self.draws = hashlib.blake2b(torch.get_rng_state().numpy().data, digest_size=8).hexdigest()
        real, labels = (tensor_of(given, name) for name in ("attention_mask", "labels"))
        whole = real if real is not None and real.shape == ids.shape else None
        self.rows += row_checksums(ids, labels, real=whole) if ids.ndim == 2 else []

    def _add(self, number: int, gradient: Tensor) -> None:
        self.own[number] += some_numbers(gradient)


def tensor_of(given: Mapping[str, Any], name: str) -> Tensor | None:
    value = given.get(name)
    return value if isinstance(value, Tensor) else None


def drops(model: nn.Module) -> bool:
    """Whether a part of the model draws random numbers in training."""
    return any(isinstance(part, nn.modules.dropout._DropoutNd) and part.p > 0 for part in model.modules())
