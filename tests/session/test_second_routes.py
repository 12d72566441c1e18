"""Numbers of `attnlab evaluate` that are computed a second time: of long texts, predictions and history."""

import copy
import json
import shutil
from dataclasses import replace

import pytest
import torch

from attnlab.metrics.words import Loss
from attnlab.session import evaluating
from attnlab.session.trained import Trained
from attnlab.tasks import TASKS
from tests.checks.test_recomputed_loss import found, loosened
from tests.session.commands import command
from tests.training.small_run import config, for_task, merged, sentences, train
from tests.unchecked import checked_by


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("routes")
    (folder / "long.txt").write_text(" ".join(sentences(30, seed=9)))
    whole = {"training": {"evaluate_batches": "all"}}
    with checked_by():
        train(config(folder, **whole), folder / "words")
        for task in ("classification", "regression"):
            train(config(folder, **merged(for_task(task, folder), whole)), folder / task)
    return folder


# ---------------------------------------------------------------- long texts in windows
def test_a_long_text_is_scored_again_token_by_token(home):
    result = Trained.at(home / "words").evaluate(on=home / "long.txt")
    assert result.recomputed.kind == "tokens_agree" and result.recomputed.values["tokens"] == 24
    assert {one.outcome for one in result.confirmations if one.check == "recomputed_metrics"} == {"pass"}
    assert "tokens, each after what stands before it alone" in " ".join(str(result).split())


def shifted(model, ids, *, context, plain=evaluating.strided):
    nats = plain(model, ids, context=context)
    return [*nats[1:], nats[0]]


def narrow(model, ids, *, context, plain=evaluating.strided):
    return plain(model, ids, context=context // 3)


def backwards(model, ids, *, context, plain=evaluating.strided):
    return plain(model, ids[:1] + ids[:0:-1], context=context)


FAULTS = {"shifted": shifted, "less context": narrow, "backwards": backwards}


@pytest.mark.parametrize("fault", FAULTS)
def test_nats_that_are_not_those_of_their_tokens_are_named(home, fault, monkeypatch):
    monkeypatch.setattr(evaluating, "strided", FAULTS[fault])
    result = Trained.at(home / "words").evaluate(on=home / "long.txt")
    assert result.failed == ["recomputed_loss"], result.recomputed


def test_a_mean_that_is_not_of_its_tokens_is_named(home, monkeypatch):
    plain = Loss.of
    monkeypatch.setattr(Loss, "of", lambda self, sums: plain(self, sums) * 1.001)
    told = command("evaluate", home / "words", "--on", home / "long.txt")
    assert told.exit_code == 1 and "recomputed" in told.output


# ---------------------------------------------------------------- predictions
def other_unit(task):
    plain = task.in_unit
    task.in_unit = lambda scores: plain(scores) * 1.01
    return task


def reversed_classes(task):
    plain = task.head_outputs
    task.head_outputs = lambda *about: {n: x.flip(-1) for n, x in plain(*about).items()}
    return task


def one_further(name):
    def broken(task):
        plain = task.head_outputs
        task.head_outputs = lambda *about: {n: x + 1 if n == name else x for n, x in plain(*about).items()}
        return task

    return broken


def by_batch(task):
    """A margin that depends on the other rows of its batch."""
    plain = task.head_outputs

    def outputs(*about):
        columns = plain(*about)
        return columns | {"margin": columns["margin"] - columns["margin"].mean()}

    task.head_outputs = outputs
    return task


PREDICTIONS = [
    ("regression", other_unit, "predicted_number"),
    ("classification", reversed_classes, "probabilities"),
    ("multilabel", reversed_classes, "chances"),
    ("answering", one_further("char_start"), "char_start"),
    ("answering", one_further("char_end"), "char_end"),
    ("answering", by_batch, "margin"),
]


@pytest.mark.parametrize(("task", "broken", "column"), PREDICTIONS)
def test_predictions_in_a_batch_that_are_not_those_of_the_row_alone_are_named(task, broken, column):
    about = loosened(task)
    assert found("recomputed_loss", about).outcome == "pass"
    finding = found("recomputed_loss", replace(about, task=broken(copy.copy(about.task))))
    assert (finding.outcome, finding.values["where"]) == ("fail", column), finding.found
    assert "alone" in finding.meaning


def test_evaluate_names_them_too(home, monkeypatch):
    trained = Trained.at(home / "regression")
    assert trained.evaluate().recomputed.outcome == "pass"
    plain = TASKS["regression"].in_unit
    monkeypatch.setattr(TASKS["regression"], "in_unit", lambda self, scores: plain(self, scores) + 0.5)
    finding = Trained.at(home / "regression").evaluate().recomputed
    assert finding.outcome == "fail" and finding.values["where"] == "predicted_number"


# ---------------------------------------------------------------- the history
def of_history(result):
    return next(one for one in result.confirmations if one.kind.endswith("as_in_history"))


@pytest.mark.parametrize("run", ["words", "classification", "regression"])
def test_dev_is_as_in_the_history(home, run):
    finding = of_history(Trained.at(home / run).evaluate())
    assert finding.outcome == "pass" and finding.values["metrics"] >= 1 and finding.number < 1e-4


@pytest.mark.parametrize("part", ["history", "weights"])
def test_numbers_that_the_history_contradicts_are_named(home, tmp_path, part, monkeypatch):
    shutil.copytree(home / "words", tmp_path / "run")
    trained = Trained.at(tmp_path / "run")
    if part == "history":
        file = tmp_path / "run" / "metrics.jsonl"
        events = [json.loads(line) for line in file.read_text().splitlines()]
        for event in events:
            if event["event"] == "evaluated" and event["step"] == trained.step:
                event["loss"] += 0.02
        file.write_text("".join(json.dumps(event) + "\n" for event in events))
    else:
        with torch.no_grad():
            trained.model.trunk.decoder.embedding.tokens.weight *= 1.1
    result = trained.evaluate()
    assert of_history(result).outcome == "fail" and result.failed == ["recomputed_metrics"]
    assert "wrote down" in str(result)
