"""One run of a study whose files are damaged is named and left out; the others are compared all the same."""

import json
import shutil

import pytest

from attnlab.studies.resolved import resolve
from attnlab.studies.results import gather
from attnlab.studies.run_measures import WrittenSamples
from attnlab.studies.runner import run_study
from tests.studies.here import here
from tests.studies.small_study import study

QUIET = {"training.evaluate_every": "never", "training.checkpoint_every": 100}


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """The small study, trained here once, without checks and report."""
    place = tmp_path_factory.mktemp("damaged")
    resolved = resolve(study(place, probes=(), sentence="", set=QUIET))
    with pytest.MonkeyPatch.context() as patch, here():
        patch.setattr("attnlab.session.soundness.run_checks", lambda case, names=(): [])
        patch.setattr("attnlab.studies.worker.default_cache", lambda: place / "cache")
        patch.setattr("attnlab.studies.runner.report.write", lambda results, folder: None)
        patch.setattr("attnlab.studies.run_measures.written_samples", lambda trained: WrittenSamples())
        run_study(resolved, place / "study", jobs=1)
    return resolved, place / "study"


def changed(run, change):
    held = json.loads((run / "result.json").read_text())
    change(held)
    (run / "result.json").write_text(json.dumps(held))


def cut(run):
    file = run / "documents.safetensors"
    file.write_bytes(file.read_bytes()[:-40])


def overwritten(run):
    (run / "documents.safetensors").write_bytes(b"\xff" * 400)


def of_other_texts(run):
    """The losses of a sound run with one text less: they come to another value."""
    from safetensors.numpy import load_file, save_file

    file = run / "documents.safetensors"
    save_file({name: column[:-1].copy() for name, column in load_file(file).items()}, file)


def without_losses(run):
    (run / "documents.safetensors").unlink()


def not_json(run):
    (run / "result.json").write_text("{")


def disagreeing(run):
    changed(run, lambda held: held["metrics"].update(loss=held["metrics"]["loss"] + 1))


def weights_that_are_a_number(run):
    changed(run, lambda held: held["initial"].update({next(iter(held["initial"])): 1.5}))


def batches_that_are_a_number(run):
    changed(run, lambda held: held["trace"].update(batches=1.5))


def weights_in_words(run):
    told = {"sentence": "a", "tokens": ["a"], "weights": [[[["much"]]]]}
    changed(run, lambda held: held.update(attention=told))


def a_share_in_words(run):
    changed(run, lambda held: held.update(quality={"repeated_4": "half"}))


def a_probe_without_its_text(run):
    changed(run, lambda held: held.update(probes=[{"loss": 1.0}]))


def a_cut_without_its_share(run):
    changed(run, lambda held: held["truncation"]["train"].pop("tokens_cut_share"))


FAULTS = {
    weights_in_words: "attention.weights[0][0][0][0] is text, not a number",
    a_share_in_words: "quality.repeated_4 is text, not a number",
    a_probe_without_its_text: "there is no text",
    a_cut_without_its_share: "there is no tokens_cut_share",
    weights_that_are_a_number: "is a number, not text",
    batches_that_are_a_number: "trace.batches is a number",
    disagreeing: "disagree",
    cut: "documents.safetensors is damaged",
    overwritten: "documents.safetensors is damaged",
    of_other_texts: "disagree",
    not_json: "result.json is damaged",
    without_losses: "documents.safetensors is gone",
}


@pytest.mark.parametrize("arm", ["dot", "linear"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_damaged_run_is_named_and_the_others_are_compared(ended, tmp_path, fault, arm):
    resolved, folder = ended
    spoilt = shutil.copytree(folder, tmp_path / "study")
    fault(spoilt / "runs" / arm / "seed-1")
    record = {"versions": {}, "threads": 1, "again": ""}
    sound, found = (gather(resolved, place, record=record, tuning=[]).as_json() for place in (folder, spoilt))
    (row,) = found["comparisons"]
    assert row["seeds"] == 1 and sound["comparisons"][0]["seeds"] == 2
    (note,) = [note for note in found["study"]["notes"] if "left out" in note]
    assert note.startswith(f"{arm} with seed 1 is left out, since its files are damaged: ")
    assert FAULTS[fault] in note and str(spoilt / "runs" / arm / "seed-1") in note
    assert not any("left out" in note for note in sound["study"]["notes"])
    states = {(run["arm"], run["seed"]): run["status"] for run in found["runs"]}
    assert [name for name, status in states.items() if status != "finished"] == [(arm, 1)]
