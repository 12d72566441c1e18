"""How long a step takes on one processor and on all, and how many operations must follow one another.

Time on one processor is what a step costs. What a second processor gains depends on how much of it can be
done at the same time: positions that wait for the one before them leave it idle.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from attnlab.studies.outcome import FigureRecord, TableRecord
from attnlab.studies.shown import figure, interval, over_seeds, rounded, side, table

if TYPE_CHECKING:
    import torch

BUSY = 0.1
"""The share of its time that a step may wait for a processor that others have; above it nothing is judged."""

PATIENCE, FEWEST = 120.0, 2
"""Seconds after which no further round begins, once there are so many: on a machine that others keep busy,
small steps on several threads wait for each other, and a round may take minutes."""

Step = Callable[[int], "torch.Tensor"]
"""The loss of a step on texts of this length, with its graph."""
Backward = Callable[["torch.Tensor"], object]


@dataclass(frozen=True, kw_only=True)
class StepTimes:
    """Wall seconds of a step: by arm, number of threads and length, one for each round."""

    lengths: Sequence[int]
    threads: Sequence[int]
    seconds: Mapping[str, Mapping[int, Sequence[Sequence[float]]]] = field(default_factory=dict)
    waited: float | None = None
    """The share of the time in which others had the processor; None where the system does not tell."""

    def as_json(self) -> dict[str, Any]:
        by_arm = {
            arm: {str(count): [list(rounds) for rounds in by_length] for count, by_length in own.items()}
            for arm, own in self.seconds.items()
        }
        known = {"lengths": list(self.lengths), "threads": list(self.threads), "waited": self.waited}
        return {**known, "seconds": by_arm}

    @property
    def rounds(self) -> int:
        return len(next(iter(self.seconds.values()))[self.threads[0]][0])

    @property
    def busy(self) -> bool:
        return self.waited is not None and self.waited > BUSY

    def speedups(self, arm: str) -> list[list[float]]:
        """How many times as fast all processors are as one, by length, one for each round."""
        one, every = (self.seconds[arm][count] for count in (self.threads[0], self.threads[-1]))
        return [[a / b for a, b in zip(*rounds, strict=True)] for rounds in zip(one, every, strict=True)]


def step_times(
    steps: Mapping[str, Step],
    backward: Mapping[str, Backward],
    lengths: Sequence[int],
    *,
    threads: Sequence[int],
    rounds: int,
) -> StepTimes:
    """Forward and backward of every arm at every length, with each number of threads. Rounds go over all of
    them in turn, so that a change of the machine meets all alike; the first warms up. There are fewer where
    they take too long."""
    from attnlab.studies.worker import waiting_share
    from attnlab.training.machine import ProcessorTime

    seconds = {arm: {count: [list[float]() for _ in lengths] for count in threads} for arm in steps}
    before, started = ProcessorTime.now(), time.perf_counter()
    for number in range(rounds + 1):
        if number > FEWEST and time.perf_counter() - started > PATIENCE:
            break
        for count in threads:
            with threads_of_torch(count):
                for place, length in enumerate(lengths):
                    for arm, step in steps.items():
                        began = time.perf_counter()
                        backward[arm](step(length))
                        if number:
                            seconds[arm][count][place].append(time.perf_counter() - began)
    waited = waiting_share(ProcessorTime.now().since(before))
    return StepTimes(lengths=lengths, threads=threads, seconds=seconds, waited=waited)


@contextmanager
def threads_of_torch(count: int) -> Iterator[None]:
    import torch

    usual = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(usual)


def longest_chain(loss: torch.Tensor) -> int:
    """The operations on the longest way through a loss's graph: each needs the result of the one before, so
    no number of processors makes them fewer."""
    depth: dict[object, int] = {}
    stack = [(loss.grad_fn, False)]
    while stack:
        node, known = stack.pop()
        if node is None or (node in depth and not known):
            continue
        needs = [other for other, _ in node.next_functions if other is not None]
        if known:
            depth[node] = 1 + max((depth[other] for other in needs), default=0)
        else:
            stack += [(node, True), *((other, False) for other in needs if other not in depth)]
    return depth.get(loss.grad_fn, 0)


@contextmanager
def unfused() -> Iterator[None]:
    """Recurrent layers step by step: oneDNN's own kernel is one operation, whatever happens inside it."""
    import torch

    with warnings.catch_warnings():  # of a setting of other devices
        warnings.simplefilter("ignore", UserWarning)
        with torch.backends.mkldnn.flags(enabled=False):
            yield


# ---------------------------------------------------------------- shown
def speedup_figure(times: StepTimes, about: str) -> FigureRecord:
    by_round = {arm: list(zip(*times.speedups(arm), strict=True)) for arm in times.seconds}
    return figure(
        f"What {times.threads[-1]} processors gain over one",
        x="letters in a text",
        y="times as fast",
        series=[over_seeds(arm, times.lengths, rounds) for arm, rounds in by_round.items()],
        log_x=True,
        note=f"Lines are means over {times.rounds} rounds, bands go from the lowest to the highest. "
        f"{clocked(times, about)}",
    )


def speedup_table(times: StepTimes, baseline: str, about: str) -> TableRecord:
    """At the longest texts: the time on one processor and on all, and what these gain, paired by round."""
    gains = {arm: times.speedups(arm)[-1] for arm in times.seconds}
    rows = []
    for arm, own in gains.items():
        one, every = (times.seconds[arm][count][-1] for count in (times.threads[0], times.threads[-1]))
        other = gains.get(baseline, []) if arm != baseline else []
        differences = [a - b for a, b in zip(own, other, strict=False)]
        verdict = "machine busy" if times.busy and differences else side(differences)
        milliseconds = rounded(2, 1000 * min(one), 1000 * min(every))
        rows.append([arm, *milliseconds, *interval(own), *interval(differences), verdict])
    columns = ("arm", "ms on one", f"ms on {times.threads[-1]}", "times as fast", "from", "to")
    return table(
        f"A step of {times.lengths[-1]} letters on one processor and on {times.threads[-1]}",
        (*columns, "difference", "from", "to", "verdict"),
        rows,
        "Milliseconds by the clock, the least of the rounds; times as fast: the mean over "
        f"{times.rounds} rounds with its 95% interval; its difference from the baseline is paired by round. "
        f"{clocked(times, about)}",
    )


def clocked(times: StepTimes, about: str) -> str:
    """What a reader of times by the clock must know of the machine."""
    waited = "" if times.waited is None else f" Steps waited {times.waited:.0%} of their time for others."
    doubt = " The machine was too busy to judge by the clock." if times.busy else ""
    return f"Measured after all runs, arms in turn, {about}.{waited}{doubt}"
