"""The soak: `make test-all`. Its figures are in docs/limits.md; its seeds are here, to repeat it."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from attnlab.runs.metrics_file import read_events
from tests.crash.commands import Commands
from tests.soak.soak import drawn, tally
from tests.training.small_run import merged, settings

SEED, INPUTS = 24, 10_000
KILLS = {"training": 100, "adaptation": 60, "study": 40}


@pytest.mark.slow
def test_ten_thousand_inputs_are_done_or_refused_in_a_sentence(tmp_path):
    found = tally(tmp_path, range(INPUTS), seed=SEED)
    print(found.table())
    assert not found.failures, "\n\n".join(found.failures[:5])
    assert found.succeeded.total() > INPUTS / 10 and found.refused.total() > INPUTS / 10


def test_an_input_is_the_same_each_time(tmp_path):
    """A number is enough to repeat one."""
    kinds = [drawn(SEED, number)[0] for number in range(200)]
    assert kinds == [drawn(SEED, number)[0] for number in range(200)] and len(set(kinds)) >= 8
    assert drawn(SEED, 7)[1].random() == drawn(SEED, 7)[1].random()


# ---------------------------------------------------------------- kills
@pytest.fixture(scope="module")
def attnlab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    commands = Commands(tmp_path_factory.mktemp("commands"))
    yield commands
    commands.close()


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("config")
    few = {"budget": {"steps": 6}, "checkpoint_every": 2, "evaluate_every": 3, "evaluate_batches": 1}
    (folder / "run.json").write_text(json.dumps(merged(settings(folder), {"training": few})))
    return folder / "run.json"


def outcome(folder: Path) -> dict[str, Any]:
    """All that a run leaves which does not tell the time."""
    last = folder / "checkpoints" / "step-6"
    events = [
        {name: value for name, value in event.items() if name != "seconds"}
        for event in read_events(folder / "metrics.jsonl")
        if event["event"] in ("stepped", "evaluated")
    ]
    weights = [(last / f"{name}.safetensors").read_bytes() for name in ("model", "optimizer")]
    return {"weights": weights, "events": events}


def killed_from_outside(attnlab: Commands, argv: tuple[Any, ...], after: Callable[[], float]) -> int:
    """Run a command, and kill it after so many seconds; how it ended."""

    def kill(number: int) -> None:
        time.sleep(after())
        with contextlib.suppress(ProcessLookupError):  # it may be done by then
            os.kill(number, signal.SIGKILL)

    return attnlab(*argv, meanwhile=kill).code


Seen = Callable[[Path], Any]
"""All of a folder's outcome that does not tell the time."""


def killed_until_done(
    attnlab: Commands, argv: tuple[Any, ...], work: Path, kills: int, *, lasts: float, seen: Seen
) -> int:
    """Begin again and again: each time it is killed and resumed until it is done, and compared with one that
    nothing happened to. How many kills hit."""
    expected, pick = seen(work / "whole"), random.Random(kills)
    hits = attempt = 0
    while hits < kills:
        folder, attempt = work / f"attempt-{attempt}", attempt + 1
        given, ended = (*argv, "--out", folder, "--resume"), -signal.SIGKILL
        while ended == -signal.SIGKILL and hits < kills:
            ended = killed_from_outside(attnlab, given, lambda: pick.uniform(0, lasts))
            hits += ended == -signal.SIGKILL
        resumed = attnlab(*given)
        assert resumed.code == 0, resumed.said
        assert seen(folder) == expected
    return hits


def time_of(attnlab: Commands, argv: tuple[Any, ...], work: Path) -> float:
    """How long a command takes here, once its text is tokenised; its outcome is in work/whole."""
    for name in ("first", "whole"):
        began = time.perf_counter()
        ended = attnlab(*argv, "--out", work / name)
        assert ended.code == 0, ended.said
    return time.perf_counter() - began


@pytest.mark.slow
def test_training_that_is_killed_a_hundred_times_ends_as_if_it_had_not(attnlab, config, tmp_path):
    argv, kills = ("train", config), KILLS["training"]
    lasts = time_of(attnlab, argv, tmp_path)
    assert killed_until_done(attnlab, argv, tmp_path, kills, lasts=lasts, seen=outcome) == kills


@pytest.mark.slow
def test_adaptation_that_is_killed_sixty_times_ends_as_if_it_had_not(attnlab, config, tmp_path):
    assert attnlab("train", config, "--out", tmp_path / "start").code == 0
    argv = ("train", config, "--set", f"start={tmp_path / 'start'}", "--set", "adapter=lora(rank=2)")
    lasts, kills = time_of(attnlab, argv, tmp_path), KILLS["adaptation"]
    assert killed_until_done(attnlab, argv, tmp_path, kills, lasts=lasts, seen=outcome) == kills


@pytest.mark.slow
def test_a_study_that_is_killed_forty_times_ends_as_if_it_had_not(attnlab, config, tmp_path):
    """Its own process and its workers die together, again and again, until it is done."""
    file = tmp_path / "question.json"
    arms = {"dot": {}, "linear": {"model.attention": "linear"}}
    held = {"question": "Is it as good?", "base": json.loads(config.read_text()), "seeds": 2, "arms": arms}
    file.write_text(json.dumps(held))
    argv, kills = ("run", file, "--jobs", 2), KILLS["study"]
    lasts = time_of(attnlab, argv, tmp_path)
    assert killed_until_done(attnlab, argv, tmp_path, kills, lasts=lasts, seen=study_outcome) == kills


def study_outcome(folder: Path) -> list[dict[str, Any]]:
    return [outcome(place) for place in sorted((folder / "runs").glob("*/seed-*"))]


# ---------------------------------------------------------------- a clock that jumps
@pytest.mark.parametrize("jump", [-(10.0**9), 10.0**9])
def test_a_clock_that_jumps_changes_no_step(tmp_path, monkeypatch, jump):
    """By the clock of the day nothing is decided: a run over a change of the clock has the same weights."""
    from tests.training.small_run import config as small
    from tests.training.small_run import train

    monkeypatch.setattr("attnlab.session.soundness.run_checks", lambda case, names=(): [])
    changes = {"training": {"budget": {"steps": 6}, "evaluate_every": 3, "checkpoint_every": 2}}
    train(small(tmp_path, **changes), tmp_path / "whole")
    moments, real = iter(range(10**9)), time.time
    monkeypatch.setattr(time, "time", lambda: real() + jump * (next(moments) % 2))
    train(small(tmp_path, **changes), tmp_path / "jumping")
    assert outcome(tmp_path / "jumping") == outcome(tmp_path / "whole")
    seconds = [e["seconds"] for e in read_events(tmp_path / "jumping" / "metrics.jsonl") if "seconds" in e]
    assert seconds and all(0 <= one < 600 for one in seconds)
