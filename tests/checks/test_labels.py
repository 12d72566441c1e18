"""Checks of words leave tasks about labels alone, and all others are made of them too."""

import pytest

from attnlab.tasks import TASKS
from tests.checks.cases import case, found

LABELLED = [name for name in TASKS if not TASKS[name].target.of_words]
OF_WORDS = {
    "before": ["visible_targets", "decoding"],
    "evaluation": ["honesty", "samples"],
}
OF_ALL = [
    *("first_loss", "overfit", "targets", "recomputed_loss", "dependency", "invariance"),
    *("accumulation", "fully_masked", "attention", "parameters"),
]


@pytest.mark.parametrize("task", LABELLED)
def test_checks_of_words_are_not_made(task):
    for when, names in OF_WORDS.items():
        about = case(task, when=when)
        assert {name: found(name, about).outcome for name in names} == dict.fromkeys(names, "not applicable")


@pytest.mark.parametrize("task", LABELLED)
def test_other_checks_are_made(task):
    about = case(task)
    wanted = dict.fromkeys(OF_ALL, "pass")
    if (
        about.task.target.compares_batch
    ):  # a loss that depends on the batch has no parts, and no value of knowing nothing
        wanted |= dict.fromkeys(("accumulation", "first_loss"), "not applicable")
    assert {name: found(name, about).outcome for name in OF_ALL} == wanted


def test_each_row_is_one_target():
    scores = {"loss": 1.0, "accuracy": 0.5, "targets": 16}
    assert found("denominators", case("classification", when="evaluation", scores=scores)).outcome == "pass"
    twice = found("denominators", case("classification", when="evaluation", scores=scores | {"targets": 32}))
    assert twice.outcome == "fail" and "32 targets; the rows have 16" in twice.found
