"""A run that is killed at any instant and resumed ends as one that never was: byte for byte."""

import contextlib
import json
import os
import random
import signal
import time

import pytest

from attnlab.runs.metrics_file import read_events
from tests.training.small_run import for_task, merged, settings

CHANGES = {
    "training": {
        "budget": {"steps": 9},
        "checkpoint_every": 2,
        "evaluate_every": 3,
        "evaluate_batches": 1,
        "optimizer": "muon",
        "accumulate": 2,
    }
}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("config")
    path = folder / "run.json"
    path.write_text(json.dumps(merged(settings(folder), CHANGES)))
    return path


def outcome(folder):
    """All that a run leaves which does not tell the time."""
    last = folder / "checkpoints" / "step-9"
    events = []
    for line in read_events(folder / "metrics.jsonl"):
        if line["event"] in ("stepped", "evaluated"):
            events.append({k: v for k, v in line.items() if k != "seconds"})
    state = json.loads((last / "state.json").read_text())
    state.pop("seconds")
    kept = sorted(entry.name for entry in (folder / "checkpoints").iterdir())
    weights = (last / "model.safetensors").read_bytes(), (last / "optimizer.safetensors").read_bytes()
    return {"weights": weights, "events": events, "state": state, "kept": kept}


@pytest.fixture(scope="module")
def whole(attnlab, file, tmp_path_factory):
    """The run that nothing happened to, and how many instants it has."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    attnlab("train", file, "--out", folder.parent / "first")  # so that the text is tokenised and compared
    ended = attnlab("train", file, "--out", folder, inject="count")
    assert ended.code == 0, ended.said
    found = outcome(folder)
    counts = {name: trail["count"] for name, trail in found["state"]["trace"].items()}
    assert counts == {"batches": 18, "inputs": 18, "draws": 18, "drawn": 18}, (
        "what it was really given is in the state"
    )
    return found, int(ended.said.split("points ")[-1])


@pytest.fixture(scope="module")
def unchecked_points(attnlab, file, whole, tmp_path_factory):
    """How many instants the run has without its checks."""
    folder = tmp_path_factory.mktemp("unchecked") / "run"
    ended = attnlab("train", file, "--out", folder, inject="count", checked=False)
    same(outcome(folder), whole[0])
    return int(ended.said.split("points ")[-1])


def same(found, expected):
    for name, mine in found.items():
        assert mine == expected[name], name


def test_killed_while_an_adapter_is_trained_on_a_start(attnlab, file, tmp_path):
    assert attnlab("train", file, "--out", tmp_path / "start", checked=False).code == 0
    begun = "--set", f"start={tmp_path / 'start'}", "--set", "adapter=lora(rank=2)"
    ended = attnlab("train", file, *begun, "--out", tmp_path / "whole", inject="count", checked=False)
    assert ended.code == 0, ended.said
    expected, points = outcome(tmp_path / "whole"), int(ended.said.split("points ")[-1])
    for at in random.Random(0).sample(range(points // 2, points), 2):
        folder = tmp_path / f"run-{at}"
        killed = attnlab("train", file, *begun, "--out", folder, inject="kill", at=at, checked=False)
        assert killed.code == -signal.SIGKILL
        resumed = attnlab("train", "--out", folder, "--resume", checked=False)
        assert resumed.code == 0, resumed.said
        same(outcome(folder), expected)


def test_killed_while_an_optimizer_of_torch_steps(attnlab, file, tmp_path):
    """Registered in a file of one's own, which the run records and asks for again."""
    (code := tmp_path / "mine.py").write_text(
        "import torch\n"
        "from attnlab.training.optimizers import OPTIMIZERS, from_torch\n"
        'OPTIMIZERS.register("nadam", from_torch(torch.optim.NAdam))\n'
    )
    own = "--import", code
    chosen = "--set", "training.optimizer=nadam(learning_rate=0.01, weight_decay=0.1)"
    ended = attnlab("train", file, *own, *chosen, "--out", tmp_path / "whole", inject="count", checked=False)
    assert ended.code == 0, ended.said
    [record] = json.loads((tmp_path / "whole" / "run.json").read_text())["imports"]
    assert record["file"] == str(code) and record["parts"] == [["optimizers", "nadam"]]
    expected, points = outcome(tmp_path / "whole"), int(ended.said.split("points ")[-1])
    for at in random.Random(0).sample(range(points // 2, points), 2):
        folder = tmp_path / f"run-{at}"
        killed = attnlab("train", file, *own, *chosen, "--out", folder, inject="kill", at=at, checked=False)
        assert killed.code == -signal.SIGKILL
        assert "mine.py" in attnlab("train", "--out", folder, "--resume", checked=False).said
        resumed = attnlab("train", "--out", folder, "--resume", *own, checked=False)
        assert resumed.code == 0, resumed.said
        same(outcome(folder), expected)


@pytest.mark.parametrize("task", ["answering", "tagging", "similarity"])
def test_killed_while_it_learns_to_understand(attnlab, task, tmp_path):
    """Windows, words and vectors: tasks whose evaluation puts several rows together."""
    given = merged(merged(settings(tmp_path), for_task(task, tmp_path)), CHANGES)
    given["training"]["evaluate_batches"] = "all"
    (file := tmp_path / "run.json").write_text(json.dumps(given))
    ended = attnlab("train", file, "--out", tmp_path / "whole", inject="count", checked=False)
    assert "Done after 9 steps" in ended.said, ended.said  # sound or not: it learned little
    expected, points = outcome(tmp_path / "whole"), int(ended.said.split("points ")[-1])
    for at in random.Random(0).sample(range(points // 3, points), 2):
        folder = tmp_path / f"run-{at}"
        assert (
            attnlab("train", file, "--out", folder, inject="kill", at=at, checked=False).code
            == -signal.SIGKILL
        )
        resumed = attnlab("train", "--out", folder, "--resume", checked=False)
        assert resumed.code == ended.code, resumed.said
        same(outcome(folder), expected)


@pytest.mark.parametrize("trunk", ["transformer", "gru(attention=additive)"])
def test_killed_while_it_learns_to_translate(attnlab, trunk, tmp_path):
    """With a vocabulary for each side, and texts that are written and scored on the way."""
    given = merged(merged(settings(tmp_path), for_task("seq2seq", tmp_path)), CHANGES)
    own = {"kind": "word", "vocabulary": 50, "minimum_count": 1}
    given["data"]["target_tokenizer"] = own
    given["model"] |= {"trunk": trunk} | ({} if trunk == "transformer" else {"heads": 4})
    given["training"] |= {"optimizer": "adamw", "generate_every": "evaluation", "generate_examples": 4}
    (file := tmp_path / "run.json").write_text(json.dumps(given))
    ended = attnlab("train", file, "--out", tmp_path / "whole", inject="count", checked=False)
    assert "Done after 9 steps" in ended.said, ended.said
    expected, points = outcome(tmp_path / "whole"), int(ended.said.split("points ")[-1])
    for at in random.Random(0).sample(range(points // 3, points), 2):
        folder = tmp_path / f"run-{at}"
        killed = attnlab("train", file, "--out", folder, inject="kill", at=at, checked=False)
        assert killed.code == -signal.SIGKILL
        resumed = attnlab("train", "--out", folder, "--resume", checked=False)
        assert resumed.code == ended.code, resumed.said
        same(outcome(folder), expected)


@pytest.mark.parametrize("part", range(6))
def test_killed_at_instants_all_over_a_run(attnlab, file, whole, tmp_path, part):
    """Inside steps, saves, renames, half-written files and half-written lines; `test-all` tries them all."""
    expected, points = whole
    assert points > 200
    stretch = range(1 + part * points // 6, 1 + (part + 1) * points // 6)
    for at in random.Random(part).sample(stretch, 2):
        folder = tmp_path / f"run-{at}"
        killed = attnlab("train", file, "--out", folder, inject="kill", at=at)
        assert killed.code == -signal.SIGKILL
        ended = attnlab("train", file, "--out", folder, "--resume")
        assert ended.code == 0, ended.said
        same(outcome(folder), expected)


def test_killed_again_and_again(attnlab, file, whole, unchecked_points, tmp_path):
    """One run that dies ten times, each time a little later."""
    expected, points = whole[0], unchecked_points
    folder, deaths = tmp_path / "run", 0
    pick = random.Random(0)
    while True:
        at = pick.randrange(20, points // 2)
        ended = attnlab("train", file, "--out", folder, "--resume", inject="kill", at=at, checked=False)
        if ended.code == 0:
            break
        assert ended.code == -signal.SIGKILL
        deaths += 1
        assert deaths < 60
    assert deaths >= 2
    same(outcome(folder), expected)


def test_killed_from_outside_at_random_times(attnlab, file, whole, tmp_path):
    expected, _ = whole
    pick = random.Random(1)

    def kill(number):
        """At any time, or soon after a checkpoint was begun."""
        until = time.monotonic() + 60
        while attempt % 2 and not list(folder.glob("checkpoints/*")) and time.monotonic() < until:
            time.sleep(0.001)
        time.sleep(pick.uniform(0.0, 0.05 if attempt % 2 else 0.3))
        with contextlib.suppress(ProcessLookupError):  # a fast machine may be done by then
            os.kill(number, signal.SIGKILL)

    for attempt in range(4):
        folder = tmp_path / f"run-{attempt}"
        assert attnlab("train", file, "--out", folder, meanwhile=kill, checked=False).code in (
            0,
            -signal.SIGKILL,
        )
        ended = attnlab("train", file, "--out", folder, "--resume", checked=False)
        assert ended.code == 0, ended.said
        same(outcome(folder), expected)


@pytest.mark.slow
def test_killed_at_every_instant(attnlab, file, whole, tmp_path):
    expected, points = whole
    for at in range(1, points + 1):
        folder = tmp_path / f"run-{at}"
        assert attnlab("train", file, "--out", folder, inject="kill", at=at).code == -signal.SIGKILL
        assert attnlab("train", file, "--out", folder, "--resume").code == 0
        same(outcome(folder), expected)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_asked_to_stop_it_finishes_the_step_saves_and_says_so(attnlab, file, whole, tmp_path, number):
    expected, _ = whole
    folder = tmp_path / "run"

    def ask(process):
        metrics = folder / "metrics.jsonl"
        while not any(line["event"] == "stepped" for line in read_events(metrics)):
            time.sleep(0.005)
        os.kill(process, number)

    stopped = attnlab("train", file, "--out", folder, meanwhile=ask, checked=False)
    steps = [line["step"] for line in read_events(folder / "metrics.jsonl") if line["event"] == "stepped"]
    assert stopped.code == 128 + number, stopped.said
    assert f"Stopped after step {steps[-1]} as requested; everything is saved." in stopped.said
    assert f"attnlab train --resume --out {folder}" in stopped.said
    assert json.loads((folder / "run.json").read_text())["status"] == "interrupted"
    assert (folder / "checkpoints" / f"step-{steps[-1]}").is_dir() and steps[-1] < 9
    resumed = attnlab("train", "--resume", "--out", folder, checked=False)
    assert resumed.code == 0, resumed.said
    found = outcome(folder)
    assert "step-9" in found.pop("kept")  # and perhaps the one that it stopped at
    same(found, expected)
