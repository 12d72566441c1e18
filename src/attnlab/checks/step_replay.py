"""Replays steps of a running loop: what goes into a step is kept before it, and judged after it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.checks.plain_step import (
    Amounts,
    StepInputs,
    clipping_of,
    decaying_of,
    middle_rates,
    norm_of,
    options_of,
    target_count,
)
from attnlab.checks.step_causes import StepOutcome, cause_of, distance
from attnlab.config.streams import stream_seed
from attnlab.data.batch import Batch
from attnlab.data.loader import Loader
from attnlab.model.draws import seed_everything
from attnlab.runs.events import Event, Stepped, Stepping
from attnlab.runs.typed import Value
from attnlab.tasks.task import Prepared
from attnlab.training.checkpoint import Checkpoint, read_checkpoint
from attnlab.training.loop import Loop
from attnlab.training.optimizers import OPTIMIZERS

LATE = 0.75
"""The share of the budget from which on one more step is replayed."""
MOST = 10_000_000
"""Numbers of weights that are compared; of larger models, tensors that are as far apart as can be."""
EXACT, PARALLEL = 3e-5, 1e-2
"""Of the update itself: on a processor, and where sums are taken in an order that changes."""
SUMMED = 30.0
"""Times as far apart are sums of all of a step: torch adds a million squares in float32 to four digits."""
OTHER_UNIT = 0.77
"""A unit of the loss that is no power of two: the same gradient with other roundings."""
SLICE, SLICES, CLEARLY = 256, 8, 16.0
"""What is watched at every step: so many numbers of so many tensors; how many roundings are a clear move."""


@dataclass(frozen=True)
class StepFault:
    """Why a step is not the one that its config asks for: a kind with its values."""

    step: int
    kind: str
    gap: float
    values: Mapping[str, Value] = field(default_factory=dict)


@dataclass
class Replays:
    """The steps of a run that were done a second time, and the first that came out otherwise."""

    steps: list[int] = field(default_factory=list)
    tensors: int = 0
    gap: float = 0.0
    fault: StepFault | None = None


@dataclass(frozen=True)
class Kept:
    """What is known of a step before it is taken."""

    inputs: StepInputs
    left: Mapping[str, Tensor]
    """Gradients that were there already."""
    before: Amounts
    after: Amounts
    """As far as it is known before the step: all but the seconds."""
    loss: float
    batches: Sequence[Prepared]


class ReplayTurns:
    """The moments at which a step is replayed, as every process knows them: the first one needs weights then
    of which each may have a part."""

    def __init__(self, loop: Loop):
        self.loop, self.first, self.late, self.taken = loop, True, False, False

    def __call__(self, event: Event) -> None:
        """The first process replays."""

    def asks_weights(self, event: Event) -> bool:
        if isinstance(event, Stepping):
            late = not self.late and self.loop.progress(self.loop.state) >= LATE
            self.taken = (self.first or late) and not self.loop.strategy.whole_weights
            self.late, self.first = self.late or late, False
            return self.taken
        return isinstance(event, Stepped) and self.taken


class StepReplay:
    """Replays the first step of a process and one late step, and sees that every step moves the weights.

    What the first step begins with is nothing, or what the last checkpoint holds: read from its files, not
    from the loop, which may have lost it.
    """

    def __init__(self, loop: Loop, loader: Loader):
        self.loop, self.loader, self.settings = loop, loader, loop.settings
        self.result, self.kept = Replays(), list[Kept]()
        self.first, self.late = True, False
        watched = self._spread(SLICES) if loop.strategy.whole_weights else []  # they are there between steps
        self.slices = [p.detach().view(-1)[:SLICE] for p in watched]
        self.seen: Tensor | None = None
        self.last: tuple[Tensor, Tensor, Stepped] | None = None
        """The watched numbers before and after the last step that moved them."""

    # ------------------------------------------------------------ before and after a step
    def before(self) -> None:
        """Keep what the next step goes by, where it is one that is replayed."""
        if self.seen is None and self.slices:
            self.seen = torch.cat(self.slices)
        late = not self.late and self.loop.progress(self.loop.state) >= LATE
        if self.first or late:
            self.kept = [self._keep()]
            self.late, self.first = self.late or late, False

    def after(self, event: Stepped) -> bool:
        """Judge the step that was taken; gives whether there is something to say of it."""
        kept, self.kept = self.kept, []
        for one in kept:
            self._judge(one, event)
        unmoved = self._unmoved(event)
        if unmoved and self.result.fault is None:
            self.result.fault = StepFault(event.step, "skipped", 1.0)
        return bool(kept) or unmoved

    def _unmoved(self, event: Stepped) -> bool:
        """Whether a step left every watched number as it was, though the one before moved them clearly."""
        if self.seen is None:
            return False
        now, before, last = torch.cat(self.slices), self.seen, self.last
        if not torch.equal(now, before):
            self.seen, self.last = now, (before, now, event)
            return False
        if last is None:
            return False
        unit = torch.finfo(now.dtype).eps * last[0].abs().clamp(min=1e-12)
        size, moving = float(((last[1] - last[0]).abs() / unit).max()), last[2]
        comparable = event.learning_rate >= moving.learning_rate / 2
        return size > CLEARLY and comparable and event.gradient >= moving.gradient / 10 > 0

    def _spread(self, count: int) -> list[nn.Parameter]:
        """Trainable parameters that are as far apart as can be."""
        parameters = [p for p in self.loop.model.parameters() if p.requires_grad and p.is_contiguous()]
        return parameters[:: max(1, len(parameters) // count)]

    def _compared(self) -> dict[str, nn.Parameter]:
        named = {name: p for name, p in self.loop.model.named_parameters() if p.requires_grad}
        apart = -(-sum(p.numel() for p in named.values()) // MOST)
        return dict(list(named.items())[:: max(1, apart)])

    # ------------------------------------------------------------ what goes into a step
    def _keep(self) -> Kept:
        loop, checkpoint = self.loop, self._checkpoint()
        compared = self._compared()
        weights = {name: p.detach().clone() for name, p in compared.items()}
        moments = loop.strategy.moments(loop.optimizer)
        before, place = amounts_of(vars(loop.state)), loop.loader.state()
        if self.first:
            moments, before = {}, Amounts()
            place = {"epoch": 0, "batch": 0, "fingerprint": self.loader.fingerprint}
        if self.first and checkpoint is not None:
            moments, before = checkpoint.optimizer, amounts_of(checkpoint.state)
            place = checkpoint.state["data"]
            device = loop.device
            weights = {name: checkpoint.model[name].to(device) for name in weights}
        self.loader.restore(place)
        batches = self._batches(int(before.steps))
        left = {name: p.grad.clone() for name, p in compared.items() if p.grad is not None}
        prepared = [one for _, one in batches]
        gradients, norm, loss = self._gradient(prepared, int(before.steps))
        decaying, matrices = decaying_of(loop.model)
        inputs = StepInputs(
            weights=weights,
            gradients={name: gradients[name] for name in weights if name in gradients},
            moments={key: v.clone() for key, v in moments.items() if key.rsplit("/", 1)[0] in weights},
            norm=norm,
            rate=0.0,
            clipping=clipping_of(self.settings.clip, norm),
            decaying=decaying,
            matrices=matrices,
        )
        after = replace(
            before,
            steps=before.steps + 1,
            tokens=before.tokens + sum(batch.tokens for batch, _ in batches),
            epochs=self.loader.epoch + self.loader.batch / len(self.loader),
            flops=before.flops + sum(loop.task.flops(loop.model, prepared) for _, prepared in batches),
        )
        return Kept(inputs, left, before, after, loss, prepared)

    def _checkpoint(self) -> Checkpoint | None:
        steps = self.loop.checkpoints.steps() if self.first else []
        return read_checkpoint(self.loop.checkpoints, steps[-1]) if steps else None

    def _batches(self, step: int) -> list[tuple[Batch, Prepared]]:
        """The batches of a step, by a loader of its own."""
        loop, order = self.loop, self.loader.forever()
        batches = []
        for number in range(self.settings.accumulate):
            batch = next(order)
            prepared = loop.task.prepare(batch, stream_seed(loop.seed, "masking", step, number))
            batches.append((batch, loop.features(batch, prepared.to(loop.device))))
        return batches

    def _gradient(
        self, batches: list[Prepared], step: int, unit: float = 1.0
    ) -> tuple[dict[str, Tensor], float, float]:
        """The gradient by name, its norm and the mean loss, from no gradient; the model is left as it was.

        In another `unit` of the loss it is the same, and every number is rounded otherwise.
        """
        loop, count, total = self.loop, max(1, target_count(batches)), 0.0
        with untouched(loop.model):
            for number, prepared in enumerate(batches):
                seed_everything(stream_seed(loop.seed, "dropout", step, number))
                with loop.autocast():
                    loss = loop.task.loss(loop.model, prepared)
                (unit * loss.total / count).backward()
                total += float(loss.reported.detach())
            named = ((name, p.grad) for name, p in loop.model.named_parameters())
            gradients = {name: grad.div_(unit) for name, grad in named if grad is not None}
        return gradients, norm_of(list(gradients.values())), total / count

    # ------------------------------------------------------------ what came out
    def _judge(self, kept: Kept, event: Stepped) -> None:
        state = self.loop.state
        after = replace(kept.after, seconds=state.seconds)
        rates = middle_rates(self.settings, kept.before, after)
        full = float(options_of(OPTIMIZERS, self.settings.optimizer).get("learning_rate", math.nan))
        reported = event.learning_rate / full if full else math.nan
        between = min(rates) * (1 - 1e-6) <= reported <= max(rates) * (1 + 1e-6)
        rate = reported if between else rates[len(rates) // 2]
        close = EXACT if self.loop.device.type == "cpu" else PARALLEL
        norm = kept.inputs.norm
        scale = event.gradient / norm if norm else 1.0
        summed_alike = abs(scale - 1) <= SUMMED * close
        clipping = clipping_of(self.settings.clip, event.gradient if summed_alike else norm)
        inputs = replace(kept.inputs, rate=rate, clipping=clipping)
        outcome = StepOutcome(self.settings, self.loop.model, inputs, self._actual(inputs), close)
        name, gap = outcome.worst()
        if name is not None:
            noise, roundings = self._noise(kept), outcome.roundings()
            noise = {name: max(share, roundings.get(name, 0.0)) for name, share in noise.items()}
            outcome = replace(outcome, inputs=replace(inputs, noise=noise))
            name, gap = outcome.worst()
        self.result.steps.append(int(after.steps))
        self.result.tensors = len(inputs.weights)
        self.result.gap = max(self.result.gap, gap if name is None else 0.0)
        if self.result.fault is not None:
            return
        if kept.left and any(bool(one.any()) for one in kept.left.values()):
            self.result.fault = StepFault(event.step, "not_cleared", gap, {"tensors": len(kept.left)})
        elif name is not None:
            kind, values = cause_of(outcome, reported=reported, rate=rate, full=full, scale=scale)
            self.result.fault = StepFault(event.step, kind, gap, {"name": name, **values})
        elif not summed_alike:
            values = {"norm": event.gradient, "expected": inputs.norm}
            self.result.fault = StepFault(event.step, "divisor", abs(scale - 1), values)
        elif not between and not math.isnan(reported):
            values = {"rate": event.learning_rate, "expected": rate * full}
            self.result.fault = StepFault(event.step, "rate", abs(reported / rate - 1), values)
        elif not abs(event.loss - kept.loss) <= SUMMED * close * max(1.0, abs(kept.loss)):
            values = {"loss": event.loss, "expected": kept.loss}
            self.result.fault = StepFault(event.step, "loss", abs(event.loss - kept.loss), values)

    def _noise(self, kept: Kept) -> dict[str, float]:
        """How far each gradient comes out otherwise when every number is rounded otherwise, at the weights
        before the step: asked for only where a step differs, since it takes two more backward passes."""
        named, step = dict(self.loop.model.named_parameters()), int(kept.before.steps)
        actual = {name: named[name].detach().clone() for name in kept.inputs.weights}
        try:
            set_weights(named, kept.inputs.weights)
            batches = list(kept.batches)
            (gradients, _, _), (otherwise, _, _) = (
                self._gradient(batches, step, unit=unit) for unit in (1.0, OTHER_UNIT)
            )
        finally:
            set_weights(named, actual)
        return {name: distance(otherwise[name], gradients[name]) for name in actual if name in gradients}

    def _actual(self, inputs: StepInputs) -> dict[str, Tensor]:
        """The weights and the optimizer's tensors as the loop left them."""
        named = {n: p.detach() for n, p in self.loop.model.named_parameters() if n in inputs.weights}
        held = self.loop.strategy.moments(self.loop.optimizer)
        return named | {key: v for key, v in held.items() if key.rsplit("/", 1)[0] in inputs.weights}


@torch.no_grad()
def set_weights(parameters: Mapping[str, nn.Parameter], values: Mapping[str, Tensor]) -> None:
    for name, value in values.items():
        parameters[name].copy_(value)


def amounts_of(state: Mapping[str, Any]) -> Amounts:
    """How far a run had come, by its state."""
    names = "tokens", "epochs", "seconds", "flops"
    return Amounts(steps=state["step"], **{name: state[name] for name in names})


@contextmanager
def untouched(model: nn.Module) -> Iterator[None]:
    """Gradients are taken from none, and gradients, buffers and random numbers are then as they were."""
    gradients = {p: p.grad for p in model.parameters()}
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    model.zero_grad(set_to_none=True)
    try:
        with torch.random.fork_rng():
            yield
    finally:
        for p, gradient in gradients.items():
            p.grad = gradient
        with torch.no_grad():
            for buffer, value in buffers:
                buffer.copy_(value)
