"""Checks that several processes share find what one finds, and leave the run as it was."""

import os
from dataclasses import replace

import pytest
import torch

from attnlab.checks import CHECKS
from attnlab.checks.check import Check, run_checks
from attnlab.experiment.run import train
from attnlab.training import machine
from tests.checks.cases import case
from tests.checks.test_decoding import seen_padding
from tests.training import small_run


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
    torch.set_num_threads(2)
    try:
        assert place() == own
    finally:
        torch.set_num_threads(1)
    about = replace(about, when="during")  # soon done
    assert place() == own


def test_a_run_is_the_same_bit_for_bit(two_cores, tmp_path, monkeypatch):
    config = small_run.config(tmp_path)
    first = train(config, tmp_path / "shared")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    second = train(config, tmp_path / "alone")
    for name, value in first.model.state_dict().items():
        assert torch.equal(value, second.model.state_dict()[name])
    assert first.unsound == second.unsound
