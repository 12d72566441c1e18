"""Files of a run, damaged in every way: each ends in a sentence that names it, and hides no other run."""

import copy
import json
import os
from dataclasses import asdict

import pytest

from attnlab.config.files import load, to_json
from attnlab.config.values import ConfigError
from attnlab.runs.faults import RunError
from attnlab.runs.findings import CHECKS_FILE, Finding, read_findings, save_findings
from attnlab.runs.follower import Follower
from attnlab.runs.metrics_file import METRICS_FILE
from attnlab.runs.record import RECORD, read_record
from attnlab.runs.result import RESULT, AttentionMap, CutText, RunResult, ScoredProbe
from attnlab.runs.summary import StudyRecord, read_summary, runs_in
from attnlab.runs.typed import needed

OTHER = (None, 5, "x", [], {}, [1], {"a": None}, True)
STEP = {"event": "stepped", "step": 3, "loss": 2.0, "seconds": 0.1, "tokens": 9, "progress": 0.5}


def write(folder, record=None):
    """A run's files, as a run leaves them."""
    folder.mkdir(parents=True)
    held = {
        "config": to_json(load("mini-gpt")),
        "seed": 0,
        "status": "finished",
        "versions": {"started": "2026"},
    }
    held |= {
        "best": {"metric": "loss", "value": 2.0, "step": 3},
        "unsound": [],
        "trace": None,
        "initial": None,
    }
    (folder / RECORD).write_text(json.dumps(held | (record or {})))
    evaluated = {"event": "evaluated", "step": 3, "loss": 2.0, "scores": {"perplexity": 7.4}}
    (folder / METRICS_FILE).write_text("".join(json.dumps(e) + "\n" for e in (STEP, evaluated)))
    (folder / RESULT).write_text(json.dumps(RunResult(status="finished", metrics={"loss": 2.0}).as_json()))
    finding = Finding.of_text("", check="dependency", when="before", outcome="pass", seconds=0.1)
    save_findings(folder, [finding])
    return folder


def mutations(value):
    """The same object with one field of another type, missing, or added."""
    for name in value:
        for other in OTHER:
            if other != value[name]:
                yield name, value | {name: other}
        yield name, {key: held for key, held in value.items() if key != name}


@pytest.mark.parametrize("name", [RECORD, RESULT, CHECKS_FILE])
def test_a_field_of_another_type_is_read_or_named(tmp_path, name):
    folder = write(tmp_path / "one")
    whole = json.loads((folder / name).read_text())
    refused = 0
    for _, changed in mutations(whole):
        (folder / name).write_text(json.dumps(changed))
        try:
            json.dumps(read_summary(folder).as_json(), default=str)
        except (ConfigError, RunError) as error:
            assert str(folder) in str(error)
            refused += 1
    assert refused >= 5, "what is damaged is noticed"


@pytest.mark.parametrize("name", [RECORD, RESULT, CHECKS_FILE, METRICS_FILE])
@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe\x00", b"[1, 2]", b"null", b"[" * 9000, b'{"a": ' * 3000, b"NaN"]
)
def test_other_bytes_are_read_or_named_and_the_other_run_is_still_listed(tmp_path, name, content):
    write(tmp_path / "sound")
    damaged = write(tmp_path / "damaged")
    (damaged / name).write_bytes(content)
    found = {summary.result.folder: summary.result for summary in runs_in(tmp_path)}
    assert found[str(tmp_path / "sound")].status == "finished"
    other = found[str(damaged)]
    assert other.status in ("finished", "damaged")
    if name != METRICS_FILE:
        assert other.status == "damaged" and name in str(other.reason)


def test_a_view_goes_on_after_a_damaged_line(tmp_path):
    file = tmp_path / METRICS_FILE
    file.write_bytes(b'\xff\xfe\n{"event": "stepped"}\n5\n' + json.dumps(STEP).encode() + b"\n")
    follower = Follower(tmp_path)
    follower.look()
    assert follower.loss == 2.0 and follower.progress == 0.5


def test_what_is_whole_is_read_as_it_was_written(tmp_path):
    folder = write(tmp_path / "one")
    assert read_summary(folder).result.metrics["perplexity"] == 7.4
    assert [asdict(one)["check"] for one in read_findings(folder)] == ["dependency"]
    assert copy.copy(read_summary(folder)).date == "2026"


@pytest.mark.parametrize("name", [RECORD, METRICS_FILE])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_pipe_or_device_in_the_place_of_a_file_is_told(tmp_path, name, kind):
    """A pipe would be waited for, and /dev/zero read until no memory is left."""
    write(tmp_path / "run")
    (tmp_path / "run" / name).unlink()
    if kind == "pipe":
        os.mkfifo(tmp_path / "run" / name)
    else:
        (tmp_path / "run" / name).symlink_to("/dev/zero")
    with pytest.raises(RunError, match=f"{name} cannot be read: it is a pipe or a device, not a file"):
        read_summary(tmp_path / "run")


def test_what_a_record_must_have_is_known_although_its_annotations_are_read_later():
    assert needed(StudyRecord) == {"study", "identity", "threads", "versions", "again"}
    assert needed(CutText) == set(CutText.__annotations__) and needed(ScoredProbe) == {"text"}
    assert needed(AttentionMap) == needed(RunResult) == frozenset()


WRONG = [{"counts": ["many"]}, {"names": [5]}, {"examples": "all"}, {"mean": None}, {"mean": 10**400}]


@pytest.mark.parametrize("wrong", WRONG)
def test_labels_of_a_run_are_read_against_their_types(tmp_path, wrong):
    """They travel with the model: a count in words ended in a traceback when it was opened."""
    labels = {"kind": "class", "names": ["a", "b"], "counts": [3, 4], "examples": 7, "mean": 0.0}
    assert read_record(write(tmp_path / "sound", {"labels": labels}))["labels"] == labels
    with pytest.raises(RunError, match=rf"run.json is damaged.*labels\.{next(iter(wrong))}"):
        read_record(write(tmp_path / "run", {"labels": labels | wrong}))
