"""What the checks cost: seconds before and after a run of mini-gpt, and their share of its training and of an
evaluation, in interleaved rounds."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from attnlab.checks.recomputed_loss import confirm
from attnlab.checks.recomputed_metrics import confirm_metrics
from attnlab.checks.source import source_of
from attnlab.checks.step_replay import StepReplay
from attnlab.config.files import load
from attnlab.evaluation.documents import document_losses
from attnlab.runs.events import Stepped
from attnlab.session.defined_scores import scores_of, values_and_intervals
from attnlab.session.evaluation_checks import history_confirmed, rows_scored
from attnlab.session.session import Session, default_cache
from attnlab.session.soundness import RunChecks
from attnlab.session.trained import Trained
from attnlab.session.training import in_order, train
from attnlab.training.trace import generator_state
from benchmarks.measure import interleaved, row
from benchmarks.training import loop_of

STEPS, REPLAYED = 10, 2
"""Steps that are timed together, and steps of a run that are done a second time."""


def rows() -> list[dict[str, object]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return [*around(folder), training(folder), evaluating(folder)]


def session(**settings: Any) -> Session:
    changes = [f"training.{name}={value}" for name, value in settings.items()]
    return Session(load("mini-gpt", set=changes), cache=default_cache())


def around(folder: Path) -> list[dict[str, object]]:
    """The checks before the first step, and those after the last; text and model are ready."""
    own = session()
    checks = RunChecks(own, folder)
    _ = own.model, own.dataset.overlap
    taken = {}
    for when in ("before", "after"):
        began = time.perf_counter()
        checks.examine(when)
        taken[when] = time.perf_counter() - began
    before, after = taken.values()
    found = [row("checks before training mini-gpt, s", before, "below 5", before < 5, f"{before:.1f} s")]
    return [*found, row("checks after training mini-gpt, s", after, "below 5", after < 5, f"{after:.1f} s")]


def training(folder: Path) -> dict[str, object]:
    """What is recorded and looked at in a step, and two replayed steps, against the steps of an epoch."""
    loop = loop_of(session(), folder / "loop")
    replay, watch = (StepReplay(loop, in_order(session())) for _ in range(2))
    for one in (replay, watch):
        one.first, one.late = False, True
    place = loop.loader.state()
    batches = [loop.next_batch(0, 0) for _ in range(STEPS)]
    event = loop.step()

    def stepped(count: int) -> Stepped:
        loop.loader.restore(place)  # always the same batches: they are of many lengths
        loop.batches = loop.loader.forever()
        return [loop.step() for _ in range(count)][-1]

    def looked_at() -> None:
        for batch in batches:
            states = generator_state(loop.device), generator_state(loop.device)
            loop.traced([batch], [states])
            watch.before()
            watch.after(event)

    def replayed() -> None:
        loop.loader.restore(place)
        kept = replay._keep()
        replay._judge(kept, stepped(1))

    works: dict[str, Callable[[], object]] = {"steps": partial(stepped, STEPS), "step": partial(stepped, 1)}
    seconds = interleaved(works | {"look": looked_at, "replay": replayed}, rounds=15)
    assert replay.result.fault is None
    step, look, again = seconds["steps"] / STEPS, seconds["look"] / STEPS, seconds["replay"] - seconds["step"]
    steps = len(loop.loader)
    share = 100 * (look * steps + REPLAYED * again) / (steps * step)
    detail = f"{1000 * look:.2f} ms a step of {1000 * step:.0f} ms, {again:.2f} s a replayed step"
    return row("checks in training mini-gpt, % of its steps", share, "at most 2", share <= 2, detail)


def evaluating(folder: Path) -> dict[str, object]:
    """The confirmations of an evaluation of dev against the evaluation itself."""
    train(session(budget="{steps=2}", evaluate_every='"never"'), folder / "run")
    trained = Trained.at(folder / "run")
    evaluator = trained.evaluator("dev")
    losses = document_losses(evaluator)
    values, intervals = values_and_intervals(scores_of(losses))

    def confirmed() -> None:
        confirm(evaluator, losses, values)
        source = source_of(trained.dataset)
        confirm_metrics(losses, values, evaluator=evaluator, source=source, split="dev", intervals=intervals)
        history_confirmed(trained, "dev", values, len(losses))
        rows_scored(trained, trained.dataset.examples("dev"), "dev")

    works = {"scored": lambda: scores_of(document_losses(evaluator)), "confirmed": confirmed}
    seconds = interleaved(works, rounds=5, warmups=1)
    share = 100 * seconds["confirmed"] / seconds["scored"]
    detail = f"{seconds['confirmed']:.2f} s of {seconds['scored']:.2f} s"
    return row("confirming an evaluation of dev, % of it", share, "at most 15", share <= 15, detail)
