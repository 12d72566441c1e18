"""The mean of a run's last checkpoints: to the bit, on record, and apart from what dev chose."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

import attnlab as lab
from attnlab.config.values import ConfigError
from attnlab.runs.faults import RunError
from attnlab.session.trained import Trained
from tests.session.commands import answer, command
from tests.training.small_run import config, for_task, merged, train
from tests.unchecked import checked_by

KEPT = {"training": {"keep": 3, "checkpoint_every": 4, "budget": {"steps": 18}}}


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept")
    with checked_by("decoding"):
        train(config(folder, **merged(for_task("seq2seq", folder), KEPT)), folder / "run")
    return folder / "run"


def test_weights_are_the_mean_of_the_last_to_the_bit(kept, tmp_path):
    said = answer("average", kept, "--last", 3, "--out", tmp_path / "mean")
    assert said["steps"] == [12, 16, 18]
    files = [load_file(kept / "checkpoints" / f"step-{step}" / "model.safetensors") for step in (12, 16, 18)]
    mean = load_file(tmp_path / "mean" / "checkpoints" / "step-18" / "model.safetensors")
    assert mean.keys() == files[0].keys()
    for name, values in mean.items():
        expected = sum(file[name].astype(np.float64) for file in files) / 3
        assert np.array_equal(values, expected.astype(np.float32)), name
        assert any(not np.array_equal(values, file[name]) for file in files)


def test_the_mean_is_opened_in_place_of_the_best_and_says_so(kept, tmp_path):
    mean = lab.average(kept, tmp_path / "mean", last=2)
    assert mean.checkpoint == "the mean of steps 16 and 18" and "best" not in mean.record
    assert Trained.at(kept).checkpoint != mean.checkpoint
    record = json.loads((tmp_path / "mean" / "run.json").read_text())
    assert record["averaged"] == {"run": str(kept), "steps": [16, 18]}
    own = dict(mean.model.named_parameters())
    halves = [Trained.at(kept / "checkpoints" / f"step-{step}") for step in (16, 18)]
    parts = [dict(half.model.named_parameters()) for half in halves]
    for name, value in own.items():
        assert (value.double() * 2 - parts[0][name].double() - parts[1][name].double()).abs().max() < 1e-6
    assert "the mean of steps 16 and 18" in command("evaluate", tmp_path / "mean").stdout


def test_only_last_checkpoints_count_and_not_one_that_was_kept_as_the_best(kept, tmp_path):
    (kept / "checkpoints" / "step-16").rename(kept / "checkpoints" / "step-1")  # as a best one would be
    try:
        with pytest.raises(ConfigError, match=r"3 last checkpoints \(training.keep is 3\), not 4.*keep=4"):
            lab.average(kept, tmp_path / "mean", last=4)
    finally:
        (kept / "checkpoints" / "step-1").rename(kept / "checkpoints" / "step-16")


def test_a_mean_is_neither_resumed_nor_averaged_again(kept, tmp_path):
    lab.average(kept, tmp_path / "mean", last=2)
    resumed = command("train", "--resume", "--out", tmp_path / "mean")
    assert resumed.exit_code and "nothing to resume" in str(resumed.exception)
    with pytest.raises(ConfigError, match="mean of checkpoints already"):
        lab.average(tmp_path / "mean", tmp_path / "again", last=2)
    with pytest.raises(ConfigError, match="already exists"):
        lab.average(kept, tmp_path / "mean", last=2)


def test_a_damaged_checkpoint_is_not_averaged(kept, tmp_path):
    file = kept / "checkpoints" / "step-16" / "model.safetensors"
    content = file.read_bytes()
    try:
        file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.raises(RunError, match="wrong checksum"):
            lab.average(kept, tmp_path / "mean", last=2)
        assert not (tmp_path / "mean").exists()
    finally:
        file.write_bytes(content)
