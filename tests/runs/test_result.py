"""One typed result: written and read back without loss, by this version and of the one before."""

import json
from dataclasses import fields, replace

import pytest

from attnlab.runs.findings import Finding
from attnlab.runs.reason import Reason
from attnlab.runs.result import CutText, RunResult, read_result, write_result

FOUND = Finding.of_text("0.7 nats", check="honesty", when="evaluation", outcome="fail", step=40)
CUT = dict.fromkeys(CutText.__annotations__, 1)
FULL = RunResult(
    status="finished",
    reason=Reason.error("why"),
    arm="zero",
    seed=3,
    folder="runs/zero/seed-3",
    identity="abc",
    ended="budget",
    steps=60,
    tokens=12_000,
    flops=5_000,
    parameters=4_000,
    tuned=40,
    seconds=1.5,
    tokens_per_second=8_000.0,
    evaluation_seconds=0.5,
    peak_memory_bytes=7,
    unsound=("honesty",),
    checks=(FOUND,),
    metrics={"loss": 2.0},
    fingerprints={"text": "t", "data": {"dev": "d"}},
    trace={"batches": {"1": "x"}},
    initial={"a.weight": "4x4 v s"},
    epoch_batches=9,
    truncation={"dev": CUT},
    versions={"torch": "2"},
    samples=("a text",),
    quality={"n": 5},
    probes=({"text": "p", "loss": 1.0},),
    attention={"tokens": ["a"], "weights": []},
    alignment={"sentence": "a", "source": ["a"], "written": ["b"], "effect": "nats", "heads": []},
    curve={"step": [1], "loss": [2.0]},
    dev_curve={"step": [1], "loss": [3.0]},
    extra_curves={"gradient norm": {"step": [1], "value": [0.1]}},
    extra={"by_pairs": {"1": [3, 4]}},
    waited=0.1,
    machines=({"node": "node-1", "processor": "a processor", "accelerator": ""},),
)


def test_every_field_is_written_and_read_back(tmp_path):
    bare = RunResult()
    assert all(getattr(FULL, f.name) != getattr(bare, f.name) for f in fields(bare)), (
        "nothing is left to its default"
    )
    write_result(tmp_path, FULL)
    assert read_result(tmp_path) == FULL
    assert read_result(tmp_path / "elsewhere") is None


def test_the_file_keeps_the_form_that_others_read(tmp_path):
    write_result(tmp_path, FULL)
    held = json.loads((tmp_path / "result.json").read_text())
    assert held["by_pairs"] == {"1": [3, 4]} and held["sound"] is False and held["unsound"] == ["honesty"]
    assert "extra" not in held
    written = replace(FULL, trace=None, initial=None, attention=None).as_json()
    assert not {"trace", "initial", "attention"} & written.keys(), "what was not recorded is left out"


def test_a_result_of_before_is_read(tmp_path):
    """As a study of the version before left it: no checks, no seed, a metric that is null in results.json."""
    before = {"status": "finished", "reason": "", "sound": True, "unsound": [], "steps": 4, "trace": None}
    run = RunResult.of_json(before | {"metrics": {"loss": 1.0, "perplexity": None}, "growth": [1, 2]})
    assert run.sound and run.trained and run.steps == 4 and run.trace is None
    assert run.metrics == {"loss": 1.0} and run.extra == {"growth": [1, 2]}


@pytest.mark.parametrize(("status", "trained"), [("finished", True), ("invalid", True), ("failed", False)])
def test_what_came_to_its_end_has_numbers(status, trained):
    assert RunResult(status=status).trained is trained


def test_failures_are_told_with_their_step_where_it_is_known():
    assert FULL.failures == ["honesty (step 40)"]
    assert replace(FULL, checks=()).failures == ["honesty"]
