"""Checks that several processes share find what one finds, and leave the run as it was."""

import os
from dataclasses import replace

import pytest
import torch

from attnlab.checks import CHECKS
from attnlab.checks.check import Check, run_checks
from attnlab.runs.events import Checking
from attnlab.training import machine
from tests.checks.cases import case
from tests.checks.test_decoding import seen_padding
from tests.training import small_run
from tests.training.small_run import train


@pytest.fixture
def two_cores(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(machine, "cores", lambda: 2)


def untimed(findings):
    return [replace(one, seconds=0) for one in findings]


@pytest.mark.parametrize("faulty", [False, True])
def test_two_processes_find_what_one_does(two_cores, monkeypatch, faulty):
    if faulty:  # here, and so in the processes that are forked from here
        seen_padding(monkeypatch)
    about = case("causal")
    torch.manual_seed(5)
    shared = run_checks(about)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert untimed(run_checks(about)) == untimed(shared)
    assert any(one.outcome == "fail" for one in shared) == faulty


class WhereItRuns(Check):
    """Where it runs: in which process?"""

    def run(self, case):
        return self.passed(case, str(os.getpid()))


@pytest.fixture
def where_it_runs():
    CHECKS.register("where_it_runs", WhereItRuns)
    yield
    CHECKS.unregister("where_it_runs")


def test_other_cores_are_used_only_where_they_are_free(two_cores, where_it_runs, monkeypatch):
    about, own = case("causal"), str(os.getpid())

    def place():
        return run_checks(about, ["where_it_runs"])[0].found

    assert place() != own
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # as the workers of a study have it
    assert place() == own
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert place() != own
    with monkeypatch.context() as patch:
        patch.setattr(machine, "COPIED", 100)  # parameters: there may be no room for several copies
        assert place() == own
    about = replace(about, when="during")  # soon done
    assert place() == own


def test_threads_of_this_process_are_no_hindrance(two_cores):
    """They do not survive a fork: a process that waited for them would wait for ever."""
    torch.set_num_threads(2)
    try:
        a = torch.ones(600, 600)
        assert float((a @ a)[0, 0]) == 600.0
        outcomes = {one.outcome for one in run_checks(case("causal"))}
        assert torch.get_num_threads() == 2 and "fail" not in outcomes
    finally:
        torch.set_num_threads(1)


def test_a_run_is_the_same_bit_for_bit(two_cores, tmp_path, monkeypatch):
    config = small_run.config(tmp_path)
    said = []
    first = train(config, tmp_path / "shared", listeners=[said.append])
    before = [event for event in said if isinstance(event, Checking) and not event.step and event.of > 5]
    assert [event.done for event in before] == list(range(1, before[0].of + 1))  # it is told how far it is
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    second = train(config, tmp_path / "alone")
    for name, value in first.model.state_dict().items():
        assert torch.equal(value, second.model.state_dict()[name])
    assert first.unsound == second.unsound
