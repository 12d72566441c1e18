"""training.compile: the same run, but for rounding, from its checks to its samples."""

import json

import pytest
import torch
from torch import nn

from attnlab.tasks import TASKS
from tests.training.small_run import config, for_task, merged, train

pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute", "ignore::DeprecationWarning")  # its own

CHANGES = {"compile": True, "budget": {"steps": 2}, "evaluate_every": 2, "evaluate_batches": 1}


def losses(folder):
    events = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [event["loss"] for event in events if event["event"] in ("stepped", "evaluated")]


def compared(tmp_path, task):
    chosen = merged(for_task(task, tmp_path), {"training": CHANGES, "model": {"dropout": 0.0}})
    torch.compiler.reset()
    compiled = train(config(tmp_path, **chosen), tmp_path / "compiled")
    plain = train(config(tmp_path, **merged(chosen, {"training": {"compile": False}})), tmp_path / "plain")
    assert compiled.model.trunk._compiled_call_impl is not None  # kept through samples and checks
    assert losses(compiled.folder) == pytest.approx(losses(plain.folder), rel=1e-4)
    assert not compiled.unsound
    samples = [run.folder / "samples.txt" for run in (compiled, plain)]
    assert [file.exists() for file in samples] == [task in ("causal", "seq2seq", "denoising")] * 2
    if samples[0].exists():
        assert samples[0].read_text().startswith("step 2\n1. ")


@pytest.mark.parametrize(
    "task", [task if task == "causal" else pytest.param(task, marks=pytest.mark.slow) for task in TASKS]
)
def test_a_run_is_traced_from_its_checks_to_its_samples(tmp_path, monkeypatch, unchecked, task):
    """By torch's tracer alone: what it cannot follow stops a run. Writing code takes longer."""
    compile = nn.Module.compile
    monkeypatch.setattr(nn.Module, "compile", lambda self, **given: compile(self, backend="eager", **given))
    compared(tmp_path, task)


@pytest.mark.slow
def test_a_compiled_run_is_that_of_plain_code(tmp_path):
    compared(tmp_path, "causal")
