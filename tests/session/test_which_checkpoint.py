"""One rule for what is opened: the checkpoint that was best on dev, and it is said."""

import json
import re

from attnlab.runs.findings import read_findings
from attnlab.runs.record import read_record
from attnlab.session.trained import Trained
from tests.session.adapted import RATE, asked, train_and_spoil
from tests.session.commands import answer, command
from tests.unchecked import checked_by


def test_the_best_is_opened_scored_and_named(home, tmp_path, unchecked):
    train_and_spoil(asked(home, set=[RATE, "training.budget.epochs=8"]), tmp_path / "run")
    record = read_record(tmp_path / "run")
    best, last = record["best"]["step"], record["step"]
    assert record["reason"] == "patience", "three evaluations that are worse than the best beyond its error"
    assert (
        Trained.at(tmp_path / "run").step == best and Trained.at(tmp_path / "run", which="last").step == last
    )
    told = answer("evaluate", tmp_path / "run")
    assert told["step"] == best and told["checkpoint"] == f"step {best}, the best on dev"
    assert accuracy_of(told) == record["best"]["value"]
    assert f"The model of step {best}, the best on dev." in command("evaluate", tmp_path / "run").output
    place = tmp_path / "run" / "checkpoints" / f"step-{last}"
    assert answer("evaluate", place)["checkpoint"] == f"step {last}", "a checkpoint that is named is that one"


def test_a_comparison_speaks_of_the_checkpoint_that_is_evaluated(home, tmp_path, unchecked):
    run = tmp_path / "run"
    train_and_spoil(asked(home, set=[RATE, "training.budget.epochs=4"]), run)
    best, last = read_record(run)["best"], read_record(run)["step"]
    compared = answer("compare", run, run)["runs"][0]
    assert compared["scored_step"] == best["step"] < last
    assert compared["measures"]["accuracy"] == best["value"] == accuracy_of(answer("evaluate", run))
    table = command("compare", run, run).output
    assert re.search(rf"scored at step\W+{best['step']}\b", table), table


def accuracy_of(told):
    return told["split"]["measures"]["accuracy"]["value"]


def test_what_is_found_of_the_best_checkpoint_bears_its_step(home, tmp_path):
    with checked_by("majority", "collapse", "bag_of_words", "moved"):
        ended = train_and_spoil(asked(home, set=[RATE, "training.budget.epochs=4"]), tmp_path / "run")
    events = map(json.loads, (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
    scored = {one["step"]: one["scores"]["accuracy"] for one in events if one["event"] == "evaluated"}
    found = {one.check: one for one in read_findings(tmp_path / "run") if one.when == "after"}
    assert found["moved"].step == ended.state.step
    for check, value in (("majority", "accuracy"), ("bag_of_words", "model")):
        assert found[check].step == ended.state.best_step < ended.state.step
        assert found[check].values[value] == scored[found[check].step]
    assert found["collapse"].step == ended.state.best_step
