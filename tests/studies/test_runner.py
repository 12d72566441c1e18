"""Studies in processes: killed and resumed, one arm failing, one job or two, stopped by a person."""

import fcntl
import json
import os
import signal
import time
from pathlib import Path

import pytest

from attnlab.config.files import config_of
from attnlab.model.assemble import build_model
from attnlab.model.counts import count
from attnlab.runs.metrics_file import read_events
from attnlab.studies.resolved import resolve, to_record
from attnlab.studies.runner import run_study
from attnlab.studies.study_files import GIVEN
from tests.studies.here import here
from tests.studies.small_study import ARMS, numbers, study
from tests.training.small_run import corpus


@pytest.fixture(scope="module")
def base(tmp_path_factory, worker_id):
    """A folder that tests side by side share."""
    own = tmp_path_factory.getbasetemp()
    folder = (own if worker_id == "master" else own.parent) / "small-study"
    folder.mkdir(exist_ok=True)
    with (folder / "corpus.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        corpus(folder)
    return folder


@pytest.fixture(scope="module")
def whole(base):
    """The study that nothing happened to, here: run once however many tests ask for it at once."""
    with (base / "whole.lock").open("w") as held, here():
        fcntl.flock(held, fcntl.LOCK_EX)
        return run_study(resolve(study(base)), base / "whole", jobs=2, resume=True)


def training_flops(record, tokens):
    """Of a token of a run's model, with so many tokens to choose from."""
    config = config_of(record["config"])
    model, length = build_model(config.model.with_tokenizer(tokens), device="meta"), config.data.length
    return 3 * count(model, length=length, source_length=length, batch=1).forward / length


def test_every_arm_and_seed_is_in_the_results(whole):
    results = whole.results
    assert not whole.failed
    assert json.loads((whole.folder / "results.json").read_text()) == results
    order = [(run["seed"], run["arm"]) for run in results["runs"]]
    assert order == [(0, "dot"), (0, "linear"), (1, "dot"), (1, "linear")]
    for run in results["runs"]:
        assert run["status"] == "finished" and run["steps"] == 8
        assert abs(run["metrics"]["leak"]) < 1e-4  # both arms are sound
        last = run["dev_curve"]["loss"][-1]  # dev's first two batches, as the small run evaluates
        assert abs(run["metrics"]["loss"] - last) < 0.2
        record = json.loads((whole.folder / run["folder"] / "run.json").read_text())
        assert run["truncation"] == record["truncation"] and run["truncation"]["dev"]["texts"] > 0
        tokens = record["tokenizer_identity"]["vocabulary"]
        arm = next(arm for arm in results["arms"] if arm["name"] == run["arm"])
        assert arm["flops_per_token"] == training_flops(record, tokens) != training_flops(record, 60)
    assert [c["arm"] for c in results["comparisons"]] == ["linear"]
    first, second = (r["metrics"]["loss"] for r in results["runs"] if r["arm"] == "linear")
    other = [r["metrics"]["loss"] for r in results["runs"] if r["arm"] == "dot"]
    expected = (first + second - sum(other)) / 2
    assert results["comparisons"][0]["difference"] == pytest.approx(expected)
    assert list(results["attention"]["arms"]) == ["dot", "linear"]
    for layers in results["attention"]["arms"].values():
        for row in (row for layer in layers for head in layer for row in head):
            assert sum(row) == pytest.approx(1, abs=2e-3)


def test_a_failing_arm_takes_no_other_down_and_one_job_gives_the_same_numbers(whole, base, tmp_path):
    """Injected: a learning rate at which the weights overflow."""
    arms = {"broken": {"training.optimizer.learning_rate": 1e18, "training.clip": "off"}} | ARMS
    del arms["linear"]
    asked = study(base, arms=arms, baseline="dot", seeds=1)
    ended = run_study(resolve(asked), tmp_path / "study", jobs=1)
    broken, *others = numbers(ended.results)["runs"]
    assert broken["status"] == "failed" and len(ended.failed) == 1
    assert "finite" in ended.failed[0] and ended.failed[0].startswith("broken, seed 0: Step ")
    expected = [run for run in numbers(whole.results)["runs"] if (run["arm"], run["seed"]) == ("dot", 0)]
    assert others == expected
    assert ended.results["verdict"].startswith("broken: all runs failed.")


@pytest.fixture(scope="module")
def file(base):
    """The small study as a file."""
    held = to_record(resolve(study(base)))["study"]
    file = base / "small.json"
    file.write_text(json.dumps({k: v for k, v in held.items() if k not in ("name", *GIVEN)}))
    return file


def wait_for_steps(folder, count):
    """Until a worker has made so many steps."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        for file in folder.glob("runs/*/*/metrics.jsonl"):
            if sum(line["event"] == "stepped" for line in read_events(file)) >= count:
                return
        time.sleep(0.01)
    raise AssertionError("no worker came so far")


def workers_of(folder):
    """The numbers of the processes that hold a run of this study."""
    held = []
    for file in folder.glob("runs/*/*/lock"):
        text = file.read_text().strip()
        if text and Path(f"/proc/{text}").exists():
            held.append(int(text))
    return held


def test_killed_with_its_workers_and_resumed_it_ends_the_same(attnlab, file, base, tmp_path):
    folder = tmp_path / "study"

    def kill(parent):
        wait_for_steps(folder, 3)
        for number in (parent, *workers_of(folder)):
            os.kill(number, signal.SIGKILL)

    words = "run", file, "--out", folder, "--seeds", "1"
    assert attnlab(*words, "--jobs", "2", forks=True, meanwhile=kill).code == -signal.SIGKILL
    assert not (folder / "results.json").exists()
    resumed = attnlab(*words, "--resume", forks=True)
    assert resumed.code == 0, resumed.said
    with here():
        expected = run_study(resolve(study(base, seeds=1)), tmp_path / "untouched")
    assert numbers(json.loads((folder / "results.json").read_text())) == numbers(expected.results)


LONG = "--set", "training.budget.steps=100000", "--only", "dot", "--seeds", "1"


def test_workers_of_a_killed_parent_save_and_leave(attnlab, file, tmp_path):
    folder, workers = tmp_path / "study", []

    def kill(parent):
        wait_for_steps(folder, 3)
        workers.extend(workers_of(folder))
        os.kill(parent, signal.SIGKILL)

    assert attnlab("run", file, "--out", folder, *LONG, forks=True, meanwhile=kill).code == -signal.SIGKILL
    assert workers
    deadline = time.monotonic() + 120
    while any(Path(f"/proc/{number}").exists() for number in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(Path(f"/proc/{number}").exists() for number in workers)
    records = [json.loads(file.read_text()) for file in folder.glob("runs/*/*/run.json")]
    assert any(record["status"] == "interrupted" for record in records)


def test_asked_to_stop_it_saves_and_says_how_to_go_on(attnlab, file, tmp_path):
    folder = tmp_path / "study"

    def interrupt(parent):
        wait_for_steps(folder, 2)
        os.kill(parent, signal.SIGINT)

    stopped = attnlab("run", file, "--out", folder, *LONG, forks=True, meanwhile=interrupt)
    assert stopped.code == 128 + signal.SIGINT, stopped.said
    assert "attnlab run --resume --out" in stopped.said
    results = json.loads((folder / "results.json").read_text())
    assert {run["status"] for run in results["runs"]} == {"missing"}
    assert not workers_of(folder)
