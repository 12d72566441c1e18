"""Rows that a start was trained on are known again by their content, in training, `compare` and studies."""

import json
import shutil
from dataclasses import replace

import pytest

from attnlab.checks import trained_text
from attnlab.config.files import to_json
from attnlab.runs.faults import UnsoundError
from attnlab.runs.findings import read_findings
from attnlab.session.session import Session
from attnlab.session.trained import Trained
from attnlab.session.trained_texts import texts_before
from attnlab.studies.judgement import doubtful_arms
from attnlab.studies.outcome import NoteKind
from attnlab.studies.side_by_side import side_by_side
from attnlab.studies.spec import Study
from tests.checks.cases import found, of
from tests.session.commands import command
from tests.training.small_run import config, for_task, labelled, train
from tests.unchecked import checked_by


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A classifier, and a masked model that has read the same lines."""
    folder = tmp_path_factory.mktemp("starts")
    lines = [json.loads(line)["text"] for line in labelled(folder).read_text().splitlines()]
    (folder / "corpus.txt").write_text("\n".join(lines))
    with checked_by("scored_rows"):
        train(config(folder, **for_task("classification", folder)), folder / "classes")
        train(config(folder, **for_task("masked", folder)), folder / "words")
    return folder


def begun_from(home, start, **data):
    """A config of the classifier's task that begins from a run."""
    settings = for_task("classification", home)
    settings["data"] = settings["data"] | {"length": 24} | data
    del settings["model"]
    made = config(home, **settings, start=str(start))
    return replace(made, model=config(home, **for_task("classification", home)).model)


def judged(config):
    session = Session(config)
    return found("scored_rows", of(session, trained_before=tuple(texts_before(config, None))))


def of_rows(result):
    return next(one for one in result.confirmations if one.check == "scored_rows")


def test_the_same_split_is_quiet_and_another_split_fails(home):
    assert judged(begun_from(home, home / "classes")).outcome == "pass"
    finding = judged(begun_from(home, home / "classes", split_seed=7))
    assert (finding.outcome, finding.kind) == ("fail", "trained_before")
    assert finding.number > 0.7 and "classes was trained on" in finding.found


def test_a_run_on_rows_that_its_start_has_learned_stops_before_training(home, tmp_path):
    asked = begun_from(home, home / "classes", split_seed=7)
    with checked_by("scored_rows"):
        with pytest.raises(UnsoundError, match="scored_rows"):
            train(asked, tmp_path / "run")
        ended = train(asked, tmp_path / "other", allow=["scored_rows"])
    assert "scored_rows" in ended.unsound


def test_text_that_was_read_without_labels_is_a_warning(home):
    finding = judged(begun_from(home, home / "words", split_seed=7))
    assert (finding.outcome, finding.kind) == ("warn", "read_before") and finding.number > 0.5


def test_what_the_start_of_a_start_was_trained_on_counts_too(home, tmp_path):
    with checked_by():
        train(begun_from(home, home / "classes"), tmp_path / "second")
    names = [text.name for text in texts_before(begun_from(home, tmp_path / "second"), None)]
    assert names == [str(tmp_path / "second"), str(home / "classes")]


@pytest.fixture
def start(home, tmp_path):
    """The classifier with a copy of its rows, which may be changed."""
    rows = tmp_path / "rows.jsonl"
    shutil.copy(labelled(home), rows)
    data = for_task("classification", home)["data"] | {
        "corpus": {"kind": "files", "path": str(rows), "label": "verb"}
    }
    with checked_by("scored_rows"):
        train(config(home, **for_task("classification", home) | {"data": data}), tmp_path / "start")
    return tmp_path / "start", rows


def change(rows):
    lines = rows.read_text().splitlines()
    rows.write_text("\n".join(reversed(lines[:-3])) + "\n")


@pytest.mark.parametrize(("fault", "why"), [(change, "changed"), (lambda rows: rows.unlink(), "gone")])
def test_rows_that_cannot_be_compared_are_said_to_be(home, start, fault, why):
    folder, rows = start
    fault(rows)
    finding = judged(begun_from(home, folder, split_seed=7))
    assert finding.values["unread"] == [{"name": str(folder), "why": why}]
    assert "rows were not compared: the text that the start" in finding.found


def test_text_that_is_too_large_is_said_to_be(home, monkeypatch):
    asked = begun_from(home, home / "classes", split_seed=7)
    monkeypatch.setattr(trained_text, "LARGEST", 1000)
    assert "too large to be compared (limit 32 MB)" in judged(asked).found
    own = json.dumps({"text": "the cat sees a dog .", "verb": "sees"}) + "\n"
    (home / "own.jsonl").write_text(own)
    trained = Trained.at(home / "classes")
    result = trained.evaluate(on=home / "own.jsonl", label="verb")
    assert of_rows(result).kind == "unknown_rows" and "too large" in str(result)
    assert of_rows(trained.evaluate()).kind == "dev_by_name", "splits are compared as they are read"


def test_evaluate_knows_rows_of_the_start_again(home, tmp_path):
    with checked_by():
        train(begun_from(home, home / "classes", split_seed=7), tmp_path / "run", allow=["scored_rows"])
    result = Trained.at(tmp_path / "run").evaluate("dev")
    assert of_rows(result).kind == "trained_before" and result.failed == ["scored_rows"]


def test_train_compare_and_studies_say_so(home, tmp_path):
    with checked_by("scored_rows"):
        train(begun_from(home, home / "words", split_seed=7), tmp_path / "read")
        train(replace(begun_from(home, home / "words", split_seed=7), seed=1), tmp_path / "again")
    after = [finding for finding in read_findings(tmp_path / "read") if finding.when == "after"]
    assert [(finding.kind, finding.values["chosen"]) for finding in after] == [("read_before", ["step"])]
    comparison = side_by_side([tmp_path / "read", tmp_path / "again"])
    notes = [note for note in comparison.notes if note.kind is NoteKind.KNOWN_ROWS]
    assert len(notes) == 2 and "text that" in str(notes[0]) and "without labels" in str(notes[0])
    arms = {"read": {}, "other": {"training.clip": 2.0}}
    study = Study(question="Is it?", base=to_json(begun_from(home, home / "words")), arms=arms)
    runs = [replace(comparison.runs[0].result, arm="read")]
    _, of_arms = doubtful_arms(study, runs, tmp_path, {})
    assert [note.values["name"] for note in of_arms if note.kind is NoteKind.KNOWN_ROWS] == ["read"]


def test_the_command_says_in_a_line_what_could_not_be_compared(home, start, tmp_path):
    folder, rows = start
    rows.unlink()
    asked = begun_from(home, folder)
    file = tmp_path / "asked.json"
    file.write_text(json.dumps(to_json(asked)))
    with checked_by("scored_rows"):
        told = command("train", file, "--out", tmp_path / "run")
    flat = " ".join(told.output.split())
    assert told.exit_code == 0 and "Rows were not compared: the text that the start" in flat
