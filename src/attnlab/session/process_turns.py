"""What the processes of a run have, gathered at the events at which checks look at it."""

from __future__ import annotations

from itertools import chain

from attnlab.checks.process_facts import ProcessState, SharedStep, checksum
from attnlab.runs.events import Ended, Evaluated, Event, Stepped
from attnlab.training.loop import Loop


class ProcessTurns:
    """A listener of every process: all of them come here at the same events, and each tells what it has.

    Asked before training, after the first step, at each evaluation and at the end; not between, which would
    cost a checksum of all weights a step.
    """

    everywhere = True

    def __init__(self, loop: Loop):
        self.loop, self.first = loop, loop.state.step + 1
        self.gathered: SharedStep | None = None

    def __call__(self, event: Event) -> None:
        if isinstance(event, Evaluated | Ended) or (isinstance(event, Stepped) and event.step == self.first):
            self.gather()

    def result(self) -> SharedStep | None:
        """What was gathered last."""
        return self.gathered

    def gather(self) -> None:
        """Nothing where there is one process."""
        loop = self.loop
        if loop.processes.world == 1:
            return
        state = ProcessState(
            weights=checksum(loop.strategy.weights(loop.model)),
            buffers=checksum(dict(loop.model.named_buffers())),
            steps=loop.state.step,
            place=(loop.loader.epoch, loop.loader.batch),
        )
        draws = [state for part in loop.contents for state, _ in part.drawn]
        self.gathered = SharedStep(
            states=tuple(loop.processes.gather(state)),
            parts=tuple((part.rank, part.rows) for part in loop.parts),
            planned=planned_rows(loop) if loop.parts else (),
            draws=tuple(draws),
        )


def planned_rows(loop: Loop) -> tuple[tuple[int, ...], ...]:
    """The rows of each part of the last step by the plan of the data, whoever should have read them."""
    loader, count = loop.loader, loop.settings.accumulate
    places = [(loader.epoch, number) for number in range(loader.batch)]
    epoch = loader.epoch
    while len(places) < count and epoch > 0:
        epoch -= 1
        places = [*((epoch, number) for number in range(len(loader.plan(epoch)))), *places]
    batches = (loader.plan(epoch).batch(number) for epoch, number in places[-count:])
    return tuple(tuple(int(row) for row in chain.from_iterable(batch)) for batch in batches)
