"""The loop: knows steps, budgets and events; of the model only that a task can tell its loss."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from attnlab.config.schema import TrainingSettings
from attnlab.config.streams import stream_seed
from attnlab.data.batch import Batch
from attnlab.data.loader import Loader
from attnlab.data.sharing import UNSHARED
from attnlab.evaluation.evaluator import Evaluation, Evaluator
from attnlab.evaluation.features import FeaturesOf, no_features
from attnlab.evaluation.written_texts import text_signatures
from attnlab.metrics.measures import TRAIN
from attnlab.model.losses import LossSum
from attnlab.model.model import Model
from attnlab.model.witness import answer
from attnlab.runs.checkpoints import Checkpoints, DamagedError
from attnlab.runs.events import Ended, Evaluated, Event, Listener, Saved, Started, Stepped, Stepping, Warned
from attnlab.runs.faults import EndedElsewhereError
from attnlab.tasks.task import Prepared, Task
from attnlab.training import budget
from attnlab.training.best import judged, standard_error
from attnlab.training.budget import State
from attnlab.training.checkpoint import (
    Checkpoint,
    load_checked,
    load_weights,
    read_checkpoint,
    weights_of,
)
from attnlab.training.failure import Failure, fault_of, gradient_norm, not_finite
from attnlab.training.interrupt import Interrupt
from attnlab.training.optimizers import Optimizers
from attnlab.training.parts import PartContent, PartFacts, extended
from attnlab.training.schedules import Schedule
from attnlab.training.strategies.strategy import ONE, Strategy
from attnlab.training.trace import Trace, seeded


class Loop:
    """One run of training. Everything random in a step is a function of (seed, stream, step).

    A step goes through `wrapped`, the model as its `strategy` spreads it over processes; the plain model is
    counted, judged and checked. Every process goes through the same steps; the first one tells of them.
    """

    def __init__(
        self,
        *,
        model: Model,
        wrapped: nn.Module | None = None,
        task: Task,
        loader: Loader,
        evaluate: Evaluator | None,
        evaluate_train: Evaluator | None = None,
        optimizer: Optimizers,
        schedule: Schedule,
        settings: TrainingSettings,
        checkpoints: Checkpoints,
        failure: Failure,
        seed: int,
        listeners: Iterable[Listener] = (),
        features: FeaturesOf = no_features,
        autocast: Callable[[], AbstractContextManager[Any]],
        device: torch.device,
        strategy: Strategy = ONE,
    ):
        self.model, self.task, self.loader, self.evaluate_model = model, task, loader, evaluate
        self.wrapped = model if wrapped is None else wrapped
        self.evaluate_train = evaluate_train
        self.optimizer, self.schedule, self.settings = optimizer, schedule, settings
        self.checkpoints, self.failure, self.seed = checkpoints, failure, seed
        self.listeners, self.autocast, self.device = list(listeners), autocast, device
        self.features, self.state, self.saved = features, State(), 0
        self.strategy, self.processes = strategy, strategy.processes
        self.parts: tuple[PartFacts, ...] = ()
        self.contents: list[PartContent] = []
        self.evaluation: Evaluation | None = None
        self.train_evaluation: Evaluation | None = None

    def spread(self) -> None:
        """Share the model among the processes: from here on a step is theirs together."""
        self.wrapped, self.optimizer = self.strategy.wrap(self.model, self.wrapped, self.optimizer)

    @property
    def trained(self) -> nn.Module:
        """Whose parameters have gradients."""
        return self.strategy.trained(self.model)

    def run(self, interrupt: Interrupt) -> str:
        """Train until the budget is spent, patience is lost, or a person asks to stop; gives the reason."""
        self.model.train()
        parameters = sum(p.numel() for p in self.model.parameters())
        self.tell(Started(step=self.state.step, parameters=parameters, ends=self.expected_end()))
        while True:
            asked = self.agree(interrupt)
            if self.evaluation_due() and not asked:
                self.evaluate()
                asked = self.agree(interrupt)
            reason = self.end(asked)
            if reason or self.save_due():
                self.save()
            if reason:
                self.tell(Ended(step=self.state.step, reason=reason))
                return reason
            self.tell(Stepping(step=self.state.step))
            self.tell(self.step())

    def agree(self, interrupt: Interrupt) -> bool:
        """Whether all processes stop, since one of them was asked to. A signal that is heard from here on
        counts the next time: a process that acted on it alone would wait for the others for ever."""
        signal = self.processes.most(interrupt.signal)
        if signal:
            interrupt.signal = signal
        return signal != 0

    def step(self) -> Stepped:
        """One step: `accumulate` batches, one update, normalised by the true number of targets."""
        began, before, place = time.perf_counter(), self.state, self.loader.state()
        batches = self.next_batches(before.step)
        drawn: list[list[tuple[bytes, bytes]]] = [[] for _ in batches]
        loss, parts = self.backward(self.wrapped, [p for _, p in batches.values()], drawn, [*batches])
        norm = self.strategy.norm(gradient_norm(self.trained))
        fault = fault_of(self.trained, loss, norm, self.processes)
        if fault:
            self.loader.restore(place)
            raise self.failed(fault, [prepared for _, prepared in batches.values()])
        if self.settings.clip != "off":
            nn.utils.clip_grads_with_norm_(self.trained.parameters(), self.settings.clip, norm)
        self.parts = tuple(self.strategy.in_order([self.facts(*part) for part in batches.values()]))
        after = replace(
            before,
            step=before.step + 1,
            tokens=before.tokens + sum(part.tokens for part in self.parts),
            epochs=self.loader.epoch + self.loader.batch / len(self.loader),
            flops=before.flops + sum(part.flops for part in self.parts),
            seconds=self.seconds(before, began),
            trace=self.traced([*batches.values()], drawn),
        )
        factor = self.schedule.factor((self.progress(before) + self.progress(after)) / 2)
        self.optimizer.step(factor)
        self.optimizer.zero_grad()
        self.state = replace(after, seconds=self.seconds(before, began))
        return Stepped(
            step=after.step,
            loss=loss,
            learning_rate=self.optimizer.learning_rate * factor,
            gradient=float(norm),
            tokens=after.tokens - before.tokens,
            flops=after.flops - before.flops,
            seconds=self.state.seconds - before.seconds,
            progress=min(1.0, self.progress(self.state)),
            epoch=after.epochs,
            parts=parts,
        )

    def backward(
        self,
        model: nn.Module,
        batches: list[Prepared],
        drawn: list[list[tuple[bytes, bytes]]] | None = None,
        numbers: Sequence[int] | None = None,
    ) -> tuple[float, dict[str, float]]:
        """The gradient of the mean over all targets of all batches; gives that mean, and its parts.

        `drawn` takes the states of the generator before and after each batch that drew from it. `numbers` are
        the parts of a step that the batches are, where the processes take it together.
        """
        states = [[] for _ in batches] if drawn is None else drawn

        def around(number: int) -> AbstractContextManager[None]:
            part = number if numbers is None else numbers[number]
            seed = stream_seed(self.seed, "dropout", self.state.step, part)
            return seeded(seed, self.device, states[number])

        sharing = ONE if numbers is None else self.strategy
        return backward(model, self.task, batches, autocast=self.autocast, around=around, sharing=sharing)

    def traced(self, batches: list[tuple[Batch, Prepared]], drawn: list[list[tuple[bytes, bytes]]]) -> Trace:
        """What the run was really given up to here, this step's parts included; the first process knows."""
        own = [PartContent.of(*part, states) for part, states in zip(batches, drawn, strict=True)]
        self.contents = self.strategy.in_order_for_first(own)
        return extended(self.state.trace, self.contents)

    def facts(self, batch: Batch, prepared: Prepared) -> PartFacts:
        return PartFacts(
            rank=self.processes.rank,
            rows=tuple(batch.rows.tolist()),
            targets=prepared.count,
            tokens=batch.tokens,
            flops=self.task.flops(self.model, prepared),
        )

    def seconds(self, before: State, began: float) -> float:
        """Of training until now; where they end the run, those of the first process count for all."""
        seconds = before.seconds + time.perf_counter() - began
        return self.processes.of_first(seconds) if "seconds" in self.settings.budget.limits else seconds

    def next_batches(self, step: int) -> dict[int, tuple[Batch, Prepared]]:
        """The next batches, as many as a step has: those that this process takes, by their number."""
        own, batches = self.strategy.parts(self.settings.accumulate), {}
        for number in range(self.settings.accumulate):
            batch = self.loader.take(number in own)
            if batch is not None:
                batches[number] = self.prepared(batch, step, number)
        return batches

    def prepared(self, batch: Batch, step: int, number: int) -> tuple[Batch, Prepared]:
        """A batch, and what the task makes of it."""
        prepared = self.task.prepare(batch, stream_seed(self.seed, "masking", step, number))
        return batch, self.features(batch, prepared.to(self.device))

    def failed(self, fault: str, batches: list[Prepared]) -> Exception:
        """The error of a step that cannot be taken, with its batches and the last good state on disk."""
        every, snapshot, step = self.strategy.in_order_for_first(batches), self.snapshot(), self.state.step
        if not not_finite(snapshot.model, self.processes):
            self.strategy.save(self.checkpoints, step, snapshot)
        if not self.processes.first:
            return EndedElsewhereError(fault)
        return self.failure.kept(step + 1, fault, every)

    def progress(self, state: State) -> float:
        return budget.progress(self.settings.budget, state)

    def expected_end(self) -> str:
        """Which limit will end the run, and when."""
        steps, patience = len(self.loader) / self.settings.accumulate, self.settings.patience
        sentence = budget.expected_end(
            self.settings.budget, epoch_steps=steps, epoch_tokens=self.loader.epoch_tokens
        )
        if patience == "unlimited" or self.evaluate_model is None:
            return sentence
        return f"{sentence} Earlier {budget.patience_phrase(patience, self.metric)}."

    def end(self, asked: bool) -> str:
        """Why the run is over; nothing while it is not."""
        if self.progress(self.state) >= 1:
            return "budget"
        if self.settings.patience != "unlimited" and self.state.since_best >= self.settings.patience:
            return "patience"
        return "interrupted" if asked else ""

    def evaluation_due(self) -> bool:
        every, step = self.settings.evaluate_every, self.state.step
        if self.evaluate_model is None or every == "never" or step == self.state.evaluated:
            return False
        due = self.epoch_ended() if every == "epoch" else step % every == 0
        return due or self.progress(self.state) >= 1

    def texts_due(self) -> int | Literal["all"]:
        """How many texts are written at this evaluation, to be scored too."""
        every, step = self.settings.generate_every, self.state.step
        if every == "never":
            return 0
        due = every == "evaluation" or step % every == 0 or self.progress(self.state) >= 1
        return self.settings.generate_examples if due else 0

    @property
    def metric(self) -> str:
        """What chooses the best checkpoint."""
        return self.settings.deciding(self.task.metrics)

    def epoch_ended(self) -> bool:
        """Whether the last step took the last batch of an epoch, alone or with some of the next."""
        return self.loader.batch == len(self.loader) or self.loader.batch < self.settings.accumulate

    def evaluate(self) -> None:
        """A pass over dev, on its own random stream; the state remembers the best."""
        assert self.evaluate_model is not None
        began = time.perf_counter()
        with self.strategy.whole():
            evaluation = self.evaluation = self.evaluate_model(written=self.texts_due())
            self.state = replace(
                judged(self.state, evaluation, self.metric),
                evaluated=self.state.step,
                settled=self.task.fit_decision(evaluation.examples.columns),
            )
            scores = {**evaluation.scores, **self.train_scores()}
            state, seconds = self.state, time.perf_counter() - began
            self.tell(
                Evaluated(
                    step=state.step,
                    loss=evaluation.loss,
                    seconds=seconds,
                    best=state.step == state.top_step,
                    scores=scores,
                    kept=state.step == state.best_step,
                    error=standard_error(evaluation, self.metric),
                    signatures={} if evaluation.texts is None else text_signatures(evaluation.texts),
                )
            )

    def best_evaluation(self) -> Evaluation | None:
        """What the best checkpoint says of dev: the one that is opened later, which need not be the last. The
        first process alone asks."""
        best = self.state.best_step
        is_current = self.evaluation is not None and best == self.state.evaluated
        if is_current or self.evaluate_model is None or best not in self.checkpoints.steps():
            return self.evaluation
        try:
            checkpoint = read_checkpoint(self.checkpoints, best)
        except DamagedError as damage:
            self.warn(f"The best checkpoint, of step {best}, is damaged: {damage} The last step is judged.")
            return self.evaluation
        last = {name: weights.clone() for name, weights in weights_of(self.model).items()}
        load_weights(self.model, checkpoint.model)
        try:
            return replace(self.evaluate_model, sharing=UNSHARED)()
        finally:
            load_weights(self.model, last)

    def train_scores(self) -> dict[str, float]:
        """Loss and metrics of the sample of training rows, where one is scored beside dev."""
        if self.evaluate_train is None:
            return {}
        evaluation = self.train_evaluation = self.evaluate_train()
        scores = {"loss": evaluation.loss, **evaluation.scores}
        return {f"{TRAIN}{name}": value for name, value in scores.items()}

    def save_due(self) -> bool:
        step = self.state.step
        if step == self.saved:
            return False
        return step % self.settings.checkpoint_every == 0 or step == self.state.best_step

    def snapshot(self) -> Checkpoint:
        """The run as it stands between two steps."""
        state = asdict(self.state) | {"data": self.loader.state()}
        frozen = frozenset(name for name, p in self.model.named_parameters() if not p.requires_grad)
        return Checkpoint(weights_of(self.trained), self.optimizer.state(), state, frozen=frozen)

    def save(self) -> None:
        """A checkpoint of this step, and no more old ones than the rule keeps."""
        began, snapshot = time.perf_counter(), self.snapshot()
        self.failure.refuse_broken(snapshot, self.processes)
        snapshot = replace(snapshot, answer=answer(self.strategy.asked(self.model)))
        place = self.strategy.save(self.checkpoints, self.state.step, snapshot)
        if self.processes.first:
            self.checkpoints.prune(self.settings.keep, self.state.best_step)
        self.saved = self.state.step
        self.tell(Saved(step=self.saved, seconds=time.perf_counter() - began, place=place.name))

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint as if nothing had happened."""
        load_checked(self.model, checkpoint)
        self.optimizer.restore(checkpoint.optimizer)
        state = dict(checkpoint.state)
        self.loader.restore(state.pop("data"))
        self.state = State.of(state)
        self.saved = self.state.step

    def warn(self, message: str) -> None:
        self.tell(Warned(step=self.state.step, message=message))

    def tell(self, event: Event) -> None:
        """Tell the listeners: in the first process, but for those that every process has. At a moment when
        they may look at the model, or take long, the processes wait for the first one."""
        asks = isinstance(event, LOOKS) or any(asks_weights(one, event) for one in self.listeners)
        optimizer = self.optimizer if isinstance(event, (Stepping, Stepped)) else None
        with self.strategy.whole(optimizer) if asks else nullcontext():
            for listener in self.listeners:
                if self.processes.first or getattr(listener, "everywhere", False):
                    listener(event)
            if asks:
                self.processes.meet()


LOOKS = (Started, Evaluated, Ended)
"""Moments at which checks and samples look at the model."""


def asks_weights(listener: Listener, event: Event) -> bool:
    """Whether a listener looks at the model at another moment: it then has a method that says so, and is
    there in every process."""
    return bool(getattr(listener, "asks_weights", lambda event: False)(event))


# ---------------------------------------------------------------- the gradient of a step
def backward(
    model: nn.Module,
    task: Task,
    batches: Sequence[Prepared],
    *,
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext,
    around: Callable[[int], AbstractContextManager[Any]] = nullcontext,
    sharing: Strategy = ONE,
) -> tuple[float, dict[str, float]]:
    """The gradient of the mean over all targets of all batches; gives the mean cross-entropy, and its parts.

    What smoothing and z-loss add has its gradient, but is no part of that mean: it stays comparable.
    The model may be wrapped, in DDP or FSDP. `around` is entered for each batch with its number: to seed
    what is drawn in it. `sharing` are the processes whose batches all of these are.
    """
    count = max(1, sharing.processes.sum(sum(batch.count for batch in batches)))
    losses: list[dict[str, Tensor]] = []

    def of_part(batch: Prepared) -> LossSum:
        with autocast():
            loss: LossSum = model(**batch.inputs, objective=task.loss_of(batch))
        return loss

    rounds = len(batches) + sharing.fillers(len(batches))
    for number, batch in enumerate(batches):
        with around(number), sharing.exchanging(model, last=number + 1 == rounds):
            loss = of_part(batch)
            (loss.total / sharing.divisor(count)).backward()
        named = {"": loss.reported, **loss.parts}
        losses.append({name: sharing.sendable(part) for name, part in named.items()})
    for number in range(len(batches), rounds):
        with sharing.exchanging(model, last=number + 1 == rounds):
            (of_part(batches[-1]).total * 0.0).backward()
    sums: dict[str, Tensor] = {}
    for each in sharing.in_order(losses):
        for name, part in each.items():
            sums[name] = sums.get(name, 0) + part
    means = {name: float(total) / count for name, total in sums.items()}
    return means.pop(""), means
