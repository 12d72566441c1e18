"""Runs of ours in two processes: the check `processes` is quiet, and names what is put wrong in them."""

from __future__ import annotations

import pytest
import torch

from attnlab.model.draws import Dropout
from attnlab.runs.findings import read_findings
from attnlab.session.session import Session
from attnlab.session.training import train
from attnlab.training.loop import Loop
from attnlab.training.strategies.ddp import DDP
from attnlab.training.strategies.own_processes import current
from attnlab.training.strategies.strategy import Strategy
from tests.training.forked import in_processes, patched
from tests.training.small_run import config
from tests.unchecked import checked_by, only_checks

SETTINGS = {
    "model": {"dropout": 0.1},
    "training": {
        "accumulate": 3,
        "schedule": "constant",
        "budget": {"steps": 4},
        "evaluate_every": 2,
        "checkpoint_every": 4,
    },
}


@pytest.fixture(autouse=True)
def asked_alone():
    """Only the check that is tried: the others take seconds, and are tried elsewhere."""
    with checked_by("processes"), patched(processes_alone):
        yield


def processes_alone(patch):
    only_checks(patch, "processes")


def trained(chosen, out):
    return str(train(Session(chosen), out, allow=["processes"]).reason)


def findings(folder, strategy="ddp"):
    """What was found at each moment of a run in two processes."""
    training = SETTINGS["training"] | {"strategy": strategy}
    chosen = config(folder, **(SETTINGS | {"training": training}))
    results = in_processes(2, trained, chosen, folder / "run")
    assert results == ["budget", "budget"], results
    return {one.when: one for one in read_findings(folder / "run") if one.check == "processes"}


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_a_sound_run_passes_at_every_moment(tmp_path, strategy):
    moments = findings(tmp_path, strategy)
    trained = "equal_states" if strategy == "ddp" else "sharded_states"
    assert {when: one.kind for when, one in moments.items()} == {
        "before": "equal_states",
        "during": "planned_rows",
        "evaluation": trained,
        "after": trained,
    }
    assert moments["during"].values["parts"] == 3 and moments["during"].values["of"] == 2


def same_parts(patch):
    patch.setattr(Strategy, "parts", lambda self, count: [0, 1] if self.processes.first else [0])


def other_initial_weights(patch):
    made = Loop.__init__

    def moved(self, **parts):
        made(self, **parts)
        with torch.no_grad():
            next(self.model.parameters()).add_(self.processes.rank)

    patch.setattr(Loop, "__init__", moved)


def no_average(patch):
    patch.setattr(DDP, "exchanging", lambda self, wrapped, *, last: wrapped.no_sync())


def skipped_batch(patch):
    taken = Loop.next_batches

    def once_more(self, step):
        if step == 1 and not self.processes.first:
            self.loader.take(False)
        return taken(self, step)

    patch.setattr(Loop, "next_batches", once_more)


def equal_draws(patch):
    def seed(seed, stream, *numbers):
        return 7 if stream == "dropout" else real(seed, stream, *numbers)

    from attnlab.training import loop

    real = loop.stream_seed
    patch.setattr(loop, "stream_seed", seed)


def drifting_weights(patch):
    step = Loop.step

    def stepped(self):
        event = step(self)
        if self.state.step == 4 and not self.processes.first:
            with torch.no_grad():
                next(self.model.parameters()).flatten()[0].add_(1e-6)
        return event

    patch.setattr(Loop, "step", stepped)


FAULTS = {
    same_parts: {"during": "other_rows"},
    other_initial_weights: {"before": "other_weights"},
    no_average: {"during": "other_weights", "evaluation": "other_weights", "after": "other_weights"},
    skipped_batch: {"during": "other_place", "evaluation": "other_place", "after": "other_place"},
    equal_draws: {"during": "same_part_draws"},
    drifting_weights: {"during": "other_weights", "evaluation": "other_weights", "after": "other_weights"},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named_at_the_moments_at_which_it_shows(fault, tmp_path):
    assert Dropout(0.1).training  # what draws
    with patched(fault):
        moments = findings(tmp_path)
    bad = {when: one.kind for when, one in moments.items() if one.outcome == "fail"}
    assert bad == FAULTS[fault], {when: one.sentence for when, one in moments.items()}


def test_one_process_has_nothing_to_compare(tmp_path):
    train(Session(config(tmp_path, **SETTINGS)), tmp_path / "run")
    outcomes = {one.outcome for one in read_findings(tmp_path / "run") if one.check == "processes"}
    assert outcomes == {"not applicable"} and current().world == 1
