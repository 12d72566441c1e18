"""Everything that can go wrong with a run is answered clearly, and nothing is lost."""

import errno
import fcntl
import json
import os
import sys
from unittest import mock

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from attnlab.config.values import ConfigError
from attnlab.data.tokenizers import TOKENIZERS
from attnlab.explain.superposition import superposition
from attnlab.model.losses import LossSum
from attnlab.model.model import Model
from attnlab.runs import atomic
from attnlab.runs import checkpoints as checkpoint_folders
from attnlab.runs.checkpoints import Checkpoints
from attnlab.runs.faults import RunError
from attnlab.runs.folder import RunFolder
from attnlab.runs.metrics_file import read_events
from attnlab.training.checkpoint import read_checkpoint
from attnlab.training.machine import versions
from tests.training.small_run import config, settings, train

pytestmark = pytest.mark.usefixtures("unchecked")


def weights(folder, step=12):
    return (folder / "checkpoints" / f"step-{step}" / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The weights of a run that nothing happened to."""
    folder = tmp_path_factory.mktemp("whole")
    train(config(folder), folder / "run")
    return weights(folder / "run")


@pytest.mark.parametrize("failing", [3, 6, 11])
def test_a_full_disk_stops_the_run_and_loses_nothing(tmp_path, monkeypatch, whole, failing):
    """The disk is full from the `failing`-th file on, then has room again."""
    written, write = [], atomic.write_bytes

    def full(file, content):
        written.append(file)
        if len(written) >= failing and file.parent.parent.name == "checkpoints":
            file.write_bytes(content[:10])
            raise OSError(errno.ENOSPC, "No space left on device")
        write(file, content)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_folders, "write_bytes", full)
        with pytest.raises(RunError, match=r"No space left on device.*continue with --resume") as error:
            train(config(tmp_path), tmp_path / "run")
    steps = Checkpoints.of(tmp_path / "run").steps()
    said = f"The checkpoint of step {steps[-1]} is whole" if steps else "No checkpoint had been written yet"
    assert said in str(error.value)
    assert not list((tmp_path / "run" / "checkpoints").glob(".*"))  # half a checkpoint takes no room
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["status"] == "failed" and "No space left" in record["error"]
    train(config(tmp_path), tmp_path / "run", resume=True)
    assert weights(tmp_path / "run") == whole


def test_a_disk_that_takes_no_more_is_answered_by_the_command(attnlab, tmp_path, whole):
    """A real limit of the system on the size of files, not one of ours."""
    file = tmp_path / "config.json"
    file.write_text(json.dumps(settings(tmp_path)))
    failed = attnlab("train", file, "--out", tmp_path / "run", inject="file-limit", at=20_000, checked=False)
    assert failed.code == 1 and "File too large" in failed.said and "Traceback" not in failed.said
    resumed = attnlab("train", file, "--out", tmp_path / "run", "--resume", checked=False)
    assert resumed.code == 0, resumed.said
    assert weights(tmp_path / "run") == whole


def test_metrics_that_cannot_be_written_stop_the_run_with_words(tmp_path, monkeypatch):
    from attnlab.runs.metrics_file import MetricsFile

    def full(self, event):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(MetricsFile, "__call__", full)
    with pytest.raises(RunError, match="No space left on device"):
        train(config(tmp_path), tmp_path / "run")


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_read_only_folder_is_refused_before_any_work(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    folder.mkdir(mode=0o500)
    if os.geteuid() == 0:  # root may write everywhere: say what the system says to others
        from pathlib import Path

        def denied(self, content):
            raise PermissionError(errno.EACCES, "Permission denied")

        monkeypatch.setattr(Path, "write_bytes", denied)
    with pytest.raises(RunError, match=r"cannot be kept in .*Permission denied.*--out"):
        train(config(tmp_path), folder)
    assert not (folder / "run.json").exists()


def test_a_file_where_the_folder_should_be(tmp_path):
    (tmp_path / "run").write_text("mine")
    with pytest.raises(RunError, match="cannot be kept"):
        train(config(tmp_path), tmp_path / "run")
    assert (tmp_path / "run").read_text() == "mine"


def test_a_loss_that_is_not_a_number_stops_names_and_keeps(tmp_path, monkeypatch, whole):
    """At step 8 the loss is made NaN: the batch and the state after step 7 are kept, and go on."""
    forward = Model.forward
    calls = []

    def broken(self, *given, **named):
        found = forward(self, *given, **named)
        of_step = self.training and isinstance(found, LossSum)
        calls.append(of_step and found.total.dtype == torch.float32)  # checks ask copies in float64
        if sum(calls) == 8 and calls[-1]:
            part = self.trunk.decoder.blocks[1].residuals[1].inner.part.up.weight
            return type(found)(found.total + (part * float("nan")).sum(), found.count)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(Model, "forward", broken)
        with pytest.raises(RunError) as error:
            train(config(tmp_path), tmp_path / "run")
    said = str(error.value)
    assert "Step 8: the loss is nan" in said
    assert "gradient that is not finite: trunk.decoder.blocks.1.residuals.1.inner.part.up.weight" in said
    assert "the last good state is the checkpoint of step 7" in said
    batch = load_file(tmp_path / "run" / "failed-step-8.safetensors")
    assert batch["0.ids"].shape == batch["0.targets"].shape
    train(
        config(tmp_path), tmp_path / "run", resume=True
    )  # without the fault it goes on, as if none had been
    assert weights(tmp_path / "run") == whole


def test_weights_that_blew_up_are_never_saved_as_good(tmp_path):
    wild = {"optimizer": {"kind": "adamw", "learning_rate": 9e18}, "schedule": "constant", "clip": "off"}
    with pytest.raises(RunError, match=r"Step \d: .*not finite.*lower training.optimizer.learning_rate"):
        train(config(tmp_path, training=wild | {"checkpoint_every": 1}), tmp_path / "run")
    checkpoints = Checkpoints.of(tmp_path / "run")
    for step in checkpoints.steps():
        assert all(
            torch.isfinite(tensor).all() for tensor in read_checkpoint(checkpoints, step).model.values()
        )


def test_a_changed_config_is_refused_with_the_difference(tmp_path):
    train(config(tmp_path), tmp_path / "run")
    changed = config(
        tmp_path, model={"width": 32}, training={"optimizer": {"kind": "adamw", "learning_rate": 0.01}}
    )
    with pytest.raises(ConfigError) as error:
        train(changed, tmp_path / "run", resume=True)
    assert "model.width was 16, now 32" in str(error.value)
    assert "training.optimizer.learning_rate was 0.0005, now 0.01" in str(error.value)


def test_changed_text_is_refused_on_resume(tmp_path):
    settings = config(tmp_path, training={"budget": {"steps": 4}})
    train(settings, tmp_path / "run")
    with (tmp_path / "corpus.txt").open("a") as file:
        file.write("\none more line .")
    with pytest.raises(ConfigError, match="cannot be resumed: the text changed"):
        train(settings, tmp_path / "run", resume=True)


def test_a_folder_with_a_run_is_not_overwritten(tmp_path):
    train(config(tmp_path), tmp_path / "run")
    before = weights(tmp_path / "run")
    with pytest.raises(ConfigError, match=r"already holds a run; continue it with --resume"):
        train(config(tmp_path), tmp_path / "run")
    assert weights(tmp_path / "run") == before


def test_what_failed_before_its_first_step_can_be_begun_anew(tmp_path):
    with pytest.raises(ConfigError, match="not installed: pip install"):
        with_tracker = {"training": {"listeners": ["mlflow"], "budget": {"steps": 2}}}
        with mock.patch.dict(sys.modules, {"mlflow": None}):
            train(config(tmp_path, **with_tracker), tmp_path / "run")
    assert not RunFolder(tmp_path / "run").begun
    run = train(config(tmp_path, training={"budget": {"steps": 2}}), tmp_path / "run")
    assert run.state.step == 2 and RunFolder(tmp_path / "run").begun
    other = train(config(tmp_path, training={"budget": {"steps": 2}}), tmp_path / "other")
    told = [[line["event"] for line in read_events(r.folder / "metrics.jsonl")] for r in (run, other)]
    assert told[0] == told[1]


def test_two_processes_in_one_folder_are_refused(attnlab, tmp_path):
    (tmp_path / "run").mkdir()
    file = tmp_path / "config.json"
    file.write_text(json.dumps(settings(tmp_path)))
    with (tmp_path / "run" / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        held.write("4711")
        held.flush()
        second = attnlab("train", file, "--out", tmp_path / "run", checked=False)
    assert second.code == 1 and "Another process (number 4711) is working in" in second.said
    assert not (tmp_path / "run" / "run.json").exists()
    third = attnlab("train", file, "--out", tmp_path / "run", checked=False)
    assert third.code == 0, third.said  # a lock that nobody holds is none


def damage_byte(folder):
    file = folder / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def damage_length(folder):
    file = folder / "optimizer.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def damage_manifest(folder):
    (folder / "manifest.json").write_text('{"format": 1, "fil')


DAMAGES = {
    "model.safetensors has a wrong checksum": damage_byte,
    "optimizer.safetensors has": damage_length,
    "manifest.json cannot be read": damage_manifest,
    "manifest.json is missing": lambda folder: (folder / "manifest.json").unlink(),
    "state.json is missing": lambda folder: (folder / "state.json").unlink(),
}


@pytest.mark.parametrize("said", DAMAGES)
def test_a_damaged_checkpoint_is_named_set_aside_and_the_one_before_it_used(tmp_path, whole, said):
    train(config(tmp_path), tmp_path / "run")
    last = tmp_path / "run" / "checkpoints" / "step-12"
    DAMAGES[said](last)
    train(config(tmp_path), tmp_path / "run", resume=True)
    warnings = [
        line["message"]
        for line in read_events(tmp_path / "run" / "metrics.jsonl")
        if line["event"] == "warned"
    ]
    assert len(warnings) == 1 and said in warnings[0]
    assert "step 12 is damaged" in warnings[0] and "set aside as damaged-step-12" in warnings[0]
    assert "resumes from step 9" in warnings[0]
    assert (last.parent / "damaged-step-12").is_dir() and weights(tmp_path / "run") == whole


def test_all_checkpoints_damaged_means_from_the_beginning(tmp_path, whole):
    train(config(tmp_path), tmp_path / "run")
    for folder in (tmp_path / "run" / "checkpoints").glob("step-*"):
        damage_byte(folder)
    train(config(tmp_path), tmp_path / "run", resume=True)
    assert weights(tmp_path / "run") == whole


def test_a_finished_run_that_is_resumed_stays_as_it_is(tmp_path, whole):
    train(config(tmp_path), tmp_path / "run")
    lines = [line for line in read_events(tmp_path / "run" / "metrics.jsonl") if line["event"] == "stepped"]
    again = train(config(tmp_path), tmp_path / "run", resume=True)
    assert again.reason == "budget" and weights(tmp_path / "run") == whole
    after = [line for line in read_events(tmp_path / "run" / "metrics.jsonl") if line["event"] == "stepped"]
    assert after == lines


def test_a_budget_in_seconds_says_that_it_does_not_resume_exactly(tmp_path):
    settings = config(tmp_path, training={"budget": {"seconds": 0.05}})
    train(settings, tmp_path / "run")
    train(settings, tmp_path / "run", resume=True)
    lines = read_events(tmp_path / "run" / "metrics.jsonl")
    warned = [line["message"] for line in lines if line["event"] == "warned"]
    assert len(warned) == 1 and "The budget is in seconds" in warned[0]


@pytest.mark.parametrize(
    ("name", "before", "words"),
    [("threads", 64, "threads was 64, now 1"), ("products", "another", "products was another, now ")],
)
def test_another_machine_is_told_since_the_last_bits_may_differ(tmp_path, name, before, words):
    train(config(tmp_path, training={"budget": {"steps": 2}}), tmp_path / "run")
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    record["versions"][name] = before
    (tmp_path / "run" / "run.json").write_text(json.dumps(record))
    train(config(tmp_path, training={"budget": {"steps": 2}}), tmp_path / "run", resume=True)
    lines = read_events(tmp_path / "run" / "metrics.jsonl")
    warned = [line["message"] for line in lines if line["event"] == "warned"]
    assert len(warned) == 1 and words in warned[0]


def writers():
    """What a person's own files are written by."""
    base = np.eye(4)
    return {
        "tokenizer.json": TOKENIZERS.build("character").make(["some words"]).save,
        "page.html": superposition(base[:, :1], base[:, 1:2]).save,
    }


@pytest.mark.parametrize("name", ["tokenizer.json", "page.html"])
def test_on_a_full_disk_the_file_before_stays_and_nothing_beside_it(tmp_path, monkeypatch, name):
    write = writers()[name]
    (tmp_path / name).write_text("before")

    def full(number):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            write(tmp_path / name)
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {name: "before"}
    write(tmp_path / name)
    assert len((tmp_path / name).read_text()) > 100


def test_what_is_no_file_is_written_to_and_not_replaced(tmp_path):
    """/dev/null is still a device afterwards, and a pipe has what was said."""
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    atomic.replace_bytes(tmp_path / "pipe", b"words")
    assert os.read(reader, 99) == b"words" and (tmp_path / "pipe").is_fifo()
    os.close(reader)


def test_what_a_killed_process_was_writing_is_removed_when_the_folder_is_opened(tmp_path):
    """Each kill would leave another, with the number of its process."""
    folder = tmp_path / "run"
    folder.mkdir()
    for name in (".run.json.7", ".run.json.12345", ".keep", ".env.local", "metrics.5"):
        (folder / name).write_text('{"who')
    with RunFolder(folder).opened(config(tmp_path), resume=False, versions=versions()):
        pass
    left = {file.name for file in folder.iterdir()}
    assert {".keep", ".env.local", "metrics.5"} <= left and not {".run.json.7", ".run.json.12345"} & left
