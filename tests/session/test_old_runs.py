"""Runs and a study of earlier versions open, score, predict and resume as they did.

`before_tasks/` holds six steps of a prefix language model of the time before tasks had names.
`before_house/` holds a run of every kind of label, an adapted one with its start and a finished study with an
invalid and a failed arm, of the time before findings and results were records (`runs.tar.xz`), and what that
version said of them with --json (`said.json`).
"""

import json
import shutil
import tarfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from attnlab.cli import app
from attnlab.runs.folder import RunFolder
from attnlab.runs.metrics_file import read_events
from attnlab.runs.record import read_record
from attnlab.session.trained import Trained
from tests.studies.test_runner import training_flops
from tests.training.small_run import train

RUN = Path(__file__).with_name("before_tasks")
HOUSE = Path(__file__).with_name("before_house")
SAID = json.loads((HOUSE / "said.json").read_text())
DECIDED = ("identity", "order", "config")


@pytest.fixture
def old(tmp_path):
    return Path(shutil.copytree(RUN, tmp_path / "old"))


@pytest.fixture
def house(tmp_path, monkeypatch):
    """The folder that the runs were made in, as the working directory."""
    with tarfile.open(HOUSE / "runs.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def losses(folder, event):
    return {
        line["step"]: line["loss"] for line in read_events(folder / "metrics.jsonl") if line["event"] == event
    }


def resumed_losses_agree(folder, before, unresumed):
    """Resume a run whose last checkpoint is gone, and compare with what it had."""
    known = {event: losses(unresumed, event) for event in ("stepped", "evaluated")}
    train(RunFolder(folder).config(), folder, resume=True)
    assert {name: read_record(folder)[name] for name in DECIDED} == {name: before[name] for name in DECIDED}
    for event, expected in known.items():
        assert losses(folder, event) == pytest.approx(expected, rel=1e-5)


def agree(now, before, path=""):
    """The same keys, first and in the same order, the same numbers and names; sentences may get better."""
    if isinstance(before, dict):
        assert list(now)[: len(before)] == list(before), path
        for key, value in before.items():
            agree(now[key], value, f"{path}.{key}")
    elif isinstance(before, list):
        now = now[: len(before)] if path.endswith(".baselines") else now  # there are more of them today
        assert len(now) == len(before), path
        for number, (mine, value) in enumerate(zip(now, before, strict=True)):
            agree(mine, value, f"{path}[{number}]")
    elif isinstance(before, float):
        assert now == pytest.approx(before, rel=1e-4, abs=1e-5), path
    elif isinstance(before, str) and " " in before:
        assert isinstance(now, str) and now, path
    else:
        assert now == before, path


def said(*arguments, code=0):
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def test_a_run_before_tasks_opens_with_the_scores_that_it_had(old):
    measures = Trained.at(old).evaluate("dev")["measures"]
    assert measures["loss"]["value"] == pytest.approx(losses(RUN, "evaluated")[6], rel=1e-6)


def test_a_run_before_tasks_resumes_with_the_losses_that_it_had(old, unchecked):
    shutil.rmtree(old / "checkpoints" / "step-6")
    resumed_losses_agree(old, read_record(old), RUN)


@pytest.mark.parametrize("name", SAID)
def test_an_old_run_scores_and_predicts_as_it_did(house, name):
    before = SAID[name]["evaluate"]
    code = 0 if before["sound"] else 1
    agree(said("evaluate", name, code=code), before)
    if expected := SAID[name].get("predict"):
        agree(said("predict", name, expected[0]["text"], code=code), expected)


@pytest.mark.parametrize("name", sorted(SAID.keys() - {"start"}))
def test_an_old_run_resumes_with_the_losses_that_it_had(house, name, unchecked):
    unresumed = Path(shutil.copytree(name, "unresumed"))
    shutil.rmtree(Path(name, "checkpoints", "step-12"))
    resumed_losses_agree(Path(name), read_record(Path(name)), unresumed)


STUDIED = ("study", "arms", "comparisons", "configs", "fingerprints")
TIMES = {"seconds", "tokens_per_second", "peak_memory_bytes"}


def timeless(results):
    """Of the results of a study, what neither the time nor the machine decides."""
    kept = {name: results[name] for name in STUDIED}
    for arm in kept["arms"]:
        arm["metrics"] = {name: value for name, value in arm["metrics"].items() if name not in TIMES}
    return kept


def test_an_old_study_resumes_without_training_what_is_finished(house):
    before = timeless(json.loads(Path("study/results.json").read_text()))
    finished = {file: file.read_bytes() for file in sorted(house.glob("study/runs/[dlz]*/*/metrics.jsonl"))}
    assert len(finished) == 6
    command = ["run", "small.json", "--out", "study", "--resume", "--jobs", "1"]
    assert CliRunner().invoke(app, command).exit_code == 1  # the broken arm fails again
    assert {file: file.read_bytes() for file in finished} == finished
    now = json.loads(Path("study/results.json").read_text())
    for arm in before["arms"]:  # which were counted with the most tokens that a tokenizer might have
        records = sorted(house.glob(f"study/runs/{arm['name']}/*/run.json"))
        record = read_record(records[0].parent) if arm["status"] != "failed" else None
        tokens = record["tokenizer_identity"]["vocabulary"] if record else 0
        arm["flops_per_token"] = training_flops(record, tokens) if record else None
    agree(timeless(now), before)
    assert [arm["status"] for arm in now["arms"]] == ["finished", "finished", "invalid", "failed"]
