"""What is predicted is one object: its labels, its plain loss, its report. A person's own is enough."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from attnlab.data.example import Example
from attnlab.data.labels import Labels
from attnlab.metrics.metric import Examples
from attnlab.runs.findings import Outcome, read_findings
from attnlab.runs.record import read_record
from attnlab.session.trained import Trained
from attnlab.targets import TARGETS
from attnlab.targets.numbers import NumberTarget
from attnlab.targets.report import MajorityShare
from attnlab.tasks import TASKS
from attnlab.tasks.regression import Regression
from tests.training.small_run import config, for_task, train


def test_every_task_predicts_what_is_in_the_table():
    used = {name: TASKS[name].target.name for name in TASKS}
    assert set(used.values()) == TARGETS.keys()
    assert all(TARGETS[name].name == name and TARGETS[name].draft().kind == name for name in TARGETS)


@pytest.mark.parametrize(
    ("name", "scores", "row", "wanted"),
    [
        ("class", [1.0, 2.0, 0.5], {"targets": 1}, math.log(sum(map(math.exp, (1, 2, 0.5)))) - 2),
        (
            "classes",
            [0.5, -1.0],
            {"targets": torch.tensor([1, 0])},
            math.log1p(math.exp(-0.5)) + math.log1p(math.exp(-1)),
        ),
        ("number", [0.25], {"targets": 1.5}, 1.25**2),
    ],
)
def test_plain_losses_are_those_of_their_formulas(name, scores, row, wanted):
    found = TARGETS[name].plain_loss(torch.tensor(scores, dtype=torch.float64), row)
    assert float(found) == pytest.approx(wanted)


def test_the_uncertainty_of_a_target_is_what_knowing_nothing_costs():
    nothing, all_told = [0] * 4, [0, 1, 2, 3]
    for name, targets, wanted in (
        ("class", torch.tensor([0, 0, 1, 1]), math.log(2)),
        ("classes", torch.tensor([[0, 1], [0, 1], [1, 1], [1, 1]]), math.log(2)),
        ("number", torch.tensor([-1.0, 1.0, -1.0, 1.0]), 1.0),
        ("answer", torch.tensor([[0, 0], [0, 0], [3, 4], [3, 5]]), math.log(2) + 1.5 * math.log(2)),
    ):
        assert TARGETS[name].uncertainty(targets, nothing) == pytest.approx(wanted), name
        assert TARGETS[name].uncertainty(targets, all_told) == 0.0, name


def test_the_most_frequent_class_is_one_number_everywhere():
    """In the report, in the baseline, and in the check."""

    class Task:
        labels = Labels("class", ("a", "b"), (1, 1), 2)

        def label_of(self, example):
            return example.label

        def predictions(self, said, texts):
            return [type("Said", (), {"answer": "a", "confidence": 0.5})() for _ in texts]

    truth, said = [0, 1, 1, 1], np.array([[0.9, 0.1]] * 4)
    texts = [Example(f"text {n}", label="ab"[label]) for n, label in enumerate(truth)]
    examples = Examples({"label": np.array(truth), "probabilities": said, "nats": np.ones(4)})
    report = TARGETS["class"].report(Task(), texts, examples)
    (baseline,) = TARGETS["class"].baselines(Task(), texts)
    majority = TARGETS["class"].majority(examples, Task.labels)
    assert report.majority == MajorityShare("b", 0.75) and baseline.value == 0.75
    assert (majority.values["label"], majority.values["share"]) == ("b", 0.75)
    assert majority.outcome is Outcome.FAIL and len(report.mistakes) == 3
    assert [one.recall for one in report.classes] == [1.0, 0.0]


class Lengths(NumberTarget):
    """Numbers of words, whose most frequent one is reported as well."""

    name = "lengths"

    def report(self, task, texts, examples):
        values, counts = np.unique(examples["number"], return_counts=True)
        most = MajorityShare(f"{values[counts.argmax()]:g} words", float(counts.max() / len(examples)))
        return replace(super().report(task, texts, examples), majority=most, classes=())


class CountingWords(Regression):
    """Counting words: each text has as many as it has."""

    target = Lengths()

    def label_of(self, example):
        return len(example.text.split())


def test_a_target_of_ones_own_trains_is_checked_and_is_reported(tmp_path):
    TASKS.register("counting_words", CountingWords)
    try:
        changes = for_task("regression", tmp_path) | {"task": "counting_words"}
        run = train(config(tmp_path, **changes), tmp_path / "run", allow=["inputs_matter", "majority"])
        assert read_record(run.folder)["labels"]["kind"] == "lengths"
        outcomes = {one.check: one.outcome for one in read_findings(run.folder)}
        assert {outcomes[name] for name in ("targets", "overfit", "recomputed_loss", "reload")} == {"pass"}
        told = Trained.at(run.folder).evaluate("dev")
        assert told["majority"]["label"].endswith(" words") and 0 < told["majority"]["share"] < 1
        assert told["measures"]["targets"]["definition"] == "labels that were predicted"
    finally:
        TASKS.unregister("counting_words")
