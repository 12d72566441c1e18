"""Threads and runs at once: by a rule that the load does not change, shown, recorded and planned."""

import pytest
import torch

from attnlab.config.files import load
from attnlab.model.assemble import build_model
from attnlab.model.counts import count
from attnlab.runs.record import read_record
from attnlab.session.session import step_flops
from attnlab.studies import plan as planning
from attnlab.studies.capacity import capacity_of
from attnlab.studies.engines.local import Local
from attnlab.studies.resolved import resolve
from attnlab.studies.timing import Pace
from attnlab.training import machine
from tests.session.commands import command
from tests.studies.small_study import study
from tests.training.small_run import corpus


@pytest.fixture
def eight(monkeypatch):
    for module in ("training.machine", "studies.runner", "studies.engines.engine", "session.run_display"):
        monkeypatch.setattr(f"attnlab.{module}.cores", lambda: 8)


def test_a_step_is_counted_as_its_batches_are():
    config = load("mini-gpt")
    model = build_model(config.model.with_tokenizer(10_000), device="meta")
    forward = count(model, length=100, source_length=100, batch=1).forward
    assert step_flops(config) == pytest.approx(3 * forward * 32)
    filled = load("mini-gpt", set=["data.batching=bucketed(tokens=1000)"])  # rows are unlimited there
    assert step_flops(filled) == pytest.approx(3 * forward * 10)
    twice = load("mini-gpt", set=["training.accumulate=2"])
    assert step_flops(twice) == pytest.approx(2 * step_flops(config))


def test_small_steps_get_one_thread_and_large_ones_the_cores(eight):
    assert machine.threads_for_step(step_flops(load("mini-gpt"))) == 1
    assert machine.threads_for_step(3.2 * machine.FLOPS_A_THREAD) == 3
    assert machine.threads_for_step(1e15) == 8


def test_a_run_shows_and_records_its_threads_and_keeps_them(tmp_path, monkeypatch, unchecked):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    file = corpus(tmp_path)
    few = ["--set", f"data.corpus={file}", "--set", "data.corpus.unit=line", "--set", "model.width=16"]
    few += ["--set", "model.layers=1", "--set", "training.schedule=constant", "--out", tmp_path / "run"]
    try:
        by_rule = command("train", "mini-gpt", *few, "--set", "training.budget.steps=1")
        assert "Threads: 1 of" in by_rule.output and "by the size of a step" in by_rule.output
        more = ["--set", "training.budget.steps=2", "--resume"]
        torch.set_num_threads(2)
        kept = command("train", "mini-gpt", *few, *more)
        assert "as when it began" in kept.output and torch.get_num_threads() == 1
        assert read_record(tmp_path / "run")["versions"]["threads"] == 1
        asked = command(
            "train", "mini-gpt", *few, *more[:1], "training.budget.steps=3", "--resume", "--threads=2"
        )
        assert "Threads: 2 of" in asked.output and "threads was 1, now 2" in asked.output
    finally:
        torch.set_num_threads(1)


def test_more_jobs_than_cores_are_planned_as_taking_turns(eight, tmp_path, monkeypatch):
    paced = {arm: Pace(step=1.0, steps=10.0, evaluation=0.0, start=0.0) for arm in ("dot", "linear")}
    timed_at = []

    def timed(resolved, folder, queue):
        timed_at.append(queue.jobs)
        return paced, {}

    monkeypatch.setattr(planning, "paces_of", timed)
    monkeypatch.setattr(planning, "prepare_data", lambda resolved: {})
    resolved = resolve(study(tmp_path, seeds=16))
    plans = {jobs: planning.plan(resolved, jobs=jobs) for jobs in (4, 8, 32)}
    assert plans[8].seconds == pytest.approx(plans[4].seconds / 2)
    assert plans[32].seconds == plans[8].seconds and timed_at == [4, 8, 8]
    assert (plans[32].jobs, plans[32].threads) == (32, 1)


def here(jobs, threads):
    return capacity_of(Local(), {"cpu"}, jobs=jobs, threads=threads)


def test_what_is_said_of_jobs(eight):
    assert here(32, 1).at_once == 8 and here(32, 4).at_once == 2 and here(1, 16).at_once == 1
    assert here(4, 1).sentence(10) == "10 runs, 4 at once, 1 thread each."
    assert here(8, 2).sentence(1) == "1 run, 1 at once, 2 threads each."
    said = (
        "40 runs, 32 at once, 1 thread each. The machine has 8 cores: it takes as long as 8 at once, and more"
    )
    assert here(32, 1).sentence(40).startswith(said)
