"""Scores say of which rows they are, and a number that is not confirmed ends a command with 1."""

import json

import pytest

from attnlab.checks.source import source_of
from attnlab.metrics import classes
from attnlab.metrics.metric import Estimate
from attnlab.session.trained import Trained
from tests.checks.cases import case, found
from tests.session.commands import command
from tests.training.small_run import config, for_task, merged, sentences, train

LONGER = {
    "training": {"budget": {"steps": 30}, "evaluate_every": 10, "optimizer": "adamw(learning_rate=1e-2)"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("confirmed")


@pytest.fixture(scope="module")
def classifier(folder):
    """A trained classifier, with what its checks found."""
    train(config(folder, **merged(for_task("classification", folder), LONGER)), folder / "run")
    return folder / "run"


@pytest.fixture(scope="module")
def allowed(classifier):
    """The options with which an evaluation of it ends with 0, if its numbers are confirmed."""
    return [word for check in Trained.at(classifier).unsound for word in ("--allow", check)]


def copied(run, split, to):
    """The lines of a split in a file of their own."""
    rows = source_of(Trained.at(run).dataset).rows[split]
    values = ({"text": row.text, "verb": row.values["label"]} for row in rows)
    to.write_text("".join(json.dumps(value) + "\n" for value in values))
    return to


def kind_of(result):
    return next(one for one in result.confirmations if one.check == "scored_rows")


@pytest.mark.parametrize(
    ("split", "kind"), [("train", "trained_on"), ("dev", "chosen_on"), ("test", "apart")]
)
def test_a_copy_of_rows_is_known_again(classifier, split, kind, tmp_path):
    file = copied(classifier, split, tmp_path / "other_name.jsonl")
    finding = kind_of(Trained.at(classifier).evaluate(on=file, label="verb"))
    assert finding.kind == kind and (finding.outcome == "pass") == (kind == "apart"), finding
    assert finding.number == (0 if kind == "apart" else 1)


@pytest.mark.parametrize(
    ("split", "kind"), [("train", "train_by_name"), ("dev", "dev_by_name"), ("test", "apart")]
)
def test_splits_are_what_their_names_say(classifier, split, kind):
    result = Trained.at(classifier).evaluate(split)
    assert kind_of(result).kind == kind and kind_of(result).outcome == "pass" and not result.failed
    assert ("the best step" in kind_of(result).found) == (split == "dev")


def test_a_few_trained_rows_among_others_are_named(classifier, tmp_path):
    file = copied(classifier, "test", tmp_path / "mixed.jsonl")
    some = copied(classifier, "train", tmp_path / "train.jsonl").read_text().splitlines()[:3]
    file.write_text(
        file.read_text()
        + "\n".join(some).upper().replace("TEXT", "text").replace("VERB", "verb").lower()
        + "\n"
    )
    finding = kind_of(Trained.at(classifier).evaluate(on=file, label="verb"))
    assert finding.kind == "trained_on" and 0 < finding.number < 0.5


def test_the_command_says_first_that_rows_were_trained_on(classifier, allowed, tmp_path):
    file = copied(classifier, "train", tmp_path / "again.jsonl")
    told = command("evaluate", classifier, "--on", file, "--label", "verb", *allowed)
    assert told.exit_code == 0, told.output
    flat = " ".join(told.output.split())
    assert "rows that the model was trained on" in flat
    assert flat.index("trained on") < flat.index("macro")


def test_plain_text_of_the_training_file_is_known_again(folder):
    train(config(folder), folder / "words")
    trained = Trained.at(folder / "words")
    own, other = folder / "copy.txt", folder / "other.txt"
    own.write_text("\n".join(sentences()))
    other.write_text("zebras eat no garden\nnobody hears zebras\n")
    assert kind_of(trained.evaluate(on=own)).kind == "trained_on"
    assert kind_of(trained.evaluate(on=other)).kind == "apart"


# ---------------------------------------------------------------- exit codes
def narrower(self, examples, level=0.95, plain=classes.MacroF1.interval):
    estimate = plain(self, examples, level)
    ends = (estimate.value + (end - estimate.value) * 2 / 3 for end in (estimate.low, estimate.high))
    return Estimate(estimate.value, *ends, estimate.n, level)


FAULTS = {
    "micro for macro": ("of_counts", lambda self, r, t, s: r.sum(-1) / t.sum(-1) + 0.01),
    "a narrow interval": ("interval", narrower),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("json", [True, False])
def test_a_number_that_is_not_confirmed_ends_with_1(classifier, allowed, fault, json, monkeypatch):
    form = ["--json"] * json
    assert command("evaluate", classifier, *allowed, *form).exit_code == 0
    monkeypatch.setattr(classes.MacroF1, *FAULTS[fault])
    told = command("evaluate", classifier, *allowed, *form)
    assert told.exit_code == 1 and "macro_f1" in told.output.lower()
    assert command("evaluate", classifier, *allowed, "--allow", "recomputed_metrics", *form).exit_code == 0


def test_commands_of_a_run_that_failed_a_check_end_with_1(classifier, monkeypatch):
    monkeypatch.setattr(Trained, "unsound", ["honesty"])
    for words in (["evaluate", classifier], ["predict", classifier, "the cat sees a dog ."]):
        assert command(*words).exit_code == 1
        assert command(*words, "--allow", "honesty").exit_code == 0
    told = command("predict", classifier, "the cat .", "--allow", "honest")
    assert told.exit_code != 0 and "honesty" in told.output


# ---------------------------------------------------------------- the best step
HISTORY = {2: 3.0, 4: 2.5, 6: 2.5, 8: 2.9}


def told_best(tmp_path, best, history=HISTORY):
    events = [
        {"event": "evaluated", "step": s, "loss": x, "scores": {"perplexity": -x}} for s, x in history.items()
    ]
    lines = [json.dumps(event) for event in ({"event": "started", "step": 0}, *events)]
    (tmp_path / "metrics.jsonl").write_text("\n".join([*lines, '{"event": "stepped", "st']))
    return found("best_step", case("causal", when="after", folder=tmp_path, best=best))


def test_the_best_step_is_that_of_the_history(tmp_path):
    assert told_best(tmp_path, (4, 2.5)).outcome == "pass"
    assert told_best(tmp_path, None).outcome == "not applicable"


@pytest.mark.parametrize("best", [(8, 2.9), (2, 3.0), (6, 2.5), (4, 2.4), (8, 2.5)])
def test_another_step_than_the_best_is_named(best, tmp_path):
    finding = told_best(tmp_path, best)
    assert finding.outcome == "fail" and finding.values["step"] == 4


@pytest.mark.parametrize(("best", "outcome"), [((6, 0.81), "pass"), ((4, 0.83), "fail"), ((8, 0.7), "fail")])
def test_of_scores_that_dev_cannot_tell_apart_the_last_must_be_kept(best, outcome, tmp_path):
    """An error of 0.03: step 6 is as good as step 4, step 8 is not."""
    scores = {2: 0.7, 4: 0.83, 6: 0.81, 8: 0.7}
    events = [
        {"event": "evaluated", "step": step, "loss": 0.5, "scores": {"accuracy": score}, "error": 0.03}
        for step, score in scores.items()
    ]
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, events)))
    finding = found("best_step", case("classification", when="after", folder=tmp_path, best=best))
    assert finding.outcome == outcome and finding.values["step"] == 6


def test_a_run_has_its_best_step_confirmed_and_its_examples_looked_at(classifier):
    checks = json.loads((classifier / "checks.json").read_text())["findings"]
    outcomes = {(one["when"], one["check"]): one["outcome"] for one in checks}
    assert outcomes["after", "best_step"] == "pass"
    assert {outcomes["evaluation", "recomputed_metrics"], outcomes["after", "recomputed_metrics"]} == {"pass"}
    assert {outcomes["evaluation", "examples"], outcomes["after", "examples"]} <= {"pass", "warn"}
    assert outcomes["before", "source_rows"] == "pass"
