"""A check never raises: what it cannot ask is a finding that names it; and alarms that were false."""

import dataclasses

import numpy as np
import pytest
import torch

from attnlab.checks.check import run_checks
from attnlab.data.rows import Rows
from attnlab.runs.findings import read_findings
from attnlab.targets.predictions import collapse
from attnlab.targets.relabelling import Predictions
from tests.checks.cases import case, config, found, of
from tests.training.small_run import set_up, train
from tests.unchecked import checked_by


class Fragile(torch.nn.Module):
    """A part of somebody's own that refuses rows of nothing but padding, and rows of one token."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x, *rest, **named):
        if len(x) > 1 and x.shape[1] == 8:
            raise RuntimeError("a row of nothing\nsecond line")
        return self.inner(x, *rest, **named)


def broken(about):
    residual = about.model.trunk.decoder.blocks[0].residuals[1]
    residual.inner = Fragile(residual.inner)
    return about


def test_a_model_that_raises_in_a_check_is_a_finding_that_names_it():
    findings = {one.check: one for one in run_checks(broken(case()))}
    finding = findings["fully_masked"]
    assert finding.outcome == "warn" and finding.kind == "raised"
    assert "RuntimeError: a row of nothing" in finding.found and "second line" not in finding.found
    assert "test_never_raises.py" in finding.found and "/" not in finding.values["place"]
    assert finding.sentence.startswith("The check fully_masked warns: ")
    assert findings["targets"].outcome == "pass"  # the others go on


@pytest.mark.parametrize("check", ["fully_masked", "visible_targets", "overfit", "attention"])
def test_a_run_goes_on_past_a_check_that_raises(tmp_path, monkeypatch, check):
    from attnlab.checks import CHECKS

    def fails(self, case):
        raise IndexError("list index out of range")

    monkeypatch.setattr(CHECKS[check], "run", fails)
    with checked_by(check):
        train(config(training={"budget": {"steps": 2}, "evaluate_every": "never"}), tmp_path / "run")
    assert {(one.check, one.outcome, one.kind) for one in read_findings(tmp_path / "run")} == {
        (check, "warn", "raised")
    }


@pytest.mark.parametrize("shift", [5, 30, -60])
def test_answers_that_point_outside_of_their_row_are_named(shift):
    about = case("answering")
    dataset, rows = about.dataset, about.dataset.rows("train")
    part = {name: np.array(column) for name, column in rows.parts[0].items()}
    has = part["start"] > 0
    part["start"], part["end"] = (np.where(has, part[name] + shift, 0) for name in ("start", "end"))
    moved = type(dataset)(dataset.settings, reader=dataset.reader)
    moved._rows = {"train": Rows([part], fingerprint=""), "dev": dataset.rows("dev")}
    moved.tokenizer = dataset.tokenizer
    finding = found("answers", dataclasses.replace(about, dataset=moved))
    assert finding.outcome == "fail" and finding.kind == "misplaced"


# ---------------------------------------------------------------- alarms that were false
@pytest.mark.parametrize("length", [20, 24, 40])
def test_questions_of_which_none_is_whole_in_a_few_lines_are_checked(length):
    encoding = {"kind": "question", "overlap": 4, "question_length": 8}
    about = of(set_up(config("answering", data={"length": length, "encoding": encoding})))
    assert found("recomputed_loss", about).outcome == "pass"


@pytest.mark.parametrize("pooling", ["last", "mean", "first"])
@pytest.mark.parametrize("task", ["classification", "multilabel", "regression"])
def test_the_first_loss_of_one_pooled_vector_is_no_alarm(task, pooling):
    output = {"kind": "classification", "pooling": pooling}
    for seed in range(4):
        changes = {"family": "decoder" if pooling == "last" else "encoder", "output": output}
        assert found("first_loss", of(set_up(config(task, seed=seed, model=changes)))).outcome == "pass"


def test_labels_of_which_nearly_all_are_one_are_no_leak():
    """With equal scores for all rows, a frequent label is predicted well by luck."""
    about = case("classification")
    with torch.no_grad():
        about.model.head.scores.weight.zero_()
        about.model.head.scores.bias.copy_(torch.tensor([3.0, 0, 0, 0, 0]))

    def one_label(batch, seed, plain=about.task.prepare):
        prepared = plain(batch, seed)
        return dataclasses.replace(prepared, targets=torch.zeros_like(prepared.targets))

    about.task.prepare = one_label
    try:
        assert found("first_loss", about).outcome == "pass"
    finally:
        del about.task.prepare


SETS = [["a"], ["b"], ["a", "b"], ["a", "c"], ["b", "c"], ["a", "b", "c"], ["c"], []] * 20


def named(sets):
    return [" + ".join(one) or "none" for one in sets]


def of_sets(said):
    return collapse(Predictions(named(SETS), named(said), sets=(SETS, said)))


def test_several_labels_are_counted_one_by_one():
    each = [[one for one in labels if one != "c"] for labels in SETS]
    assert of_sets(SETS).outcome == "pass" and of_sets(SETS).values["classes"] == 3
    assert of_sets([["a"], ["b"], ["c"]] * 53 + [["a"]]).outcome == "pass"  # no set of two, all classes
    never = of_sets(each)
    assert never.outcome == "warn" and [name for name, _ in never.values["never"]] == ["c"]
    assert of_sets([["a", "b"]] * len(SETS)).kind == "one_class"
    assert of_sets([[]] * len(SETS)).outcome == "fail"
