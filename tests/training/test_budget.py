"""Limits: those that were set last count, and a run says which will end it."""

import pytest

from attnlab.config.files import config_of, load, override_all, to_json
from attnlab.config.schema import Budget
from attnlab.studies.spec import Study
from attnlab.training.budget import expected_end


def limits(config):
    return config.training.budget.limits


def test_limits_that_are_set_take_the_place_of_those_of_the_file():
    assert limits(load("mini-gpt")) == {"epochs": 1.0}
    assert limits(load("mini-gpt", set=["training.budget.steps=300"])) == {"steps": 300}
    both = ["training.budget.steps=300", "training.budget.seconds=60"]
    assert limits(load("mini-gpt", set=both)) == {"steps": 300, "seconds": 60.0}
    assert limits(load("mini-gpt", set={"training.budget": {"tokens": 5}})) == {"tokens": 5}
    more = load("mini-gpt", set=both)
    settings = to_json(more)  # as a run that is repeated or goes on has it
    override_all(settings, [("training.budget.steps", 600)])
    assert limits(config_of(settings)) == {"steps": 600}


def test_a_limit_that_is_taken_away_leaves_the_others():
    settings = to_json(load("mini-gpt", set=["training.budget.steps=300", "training.budget.seconds=60"]))
    override_all(settings, [("training.budget.seconds", "unlimited")])
    assert limits(config_of(settings)) == {"steps": 300}


def test_each_level_of_a_study_counts_alone():
    arms = {"a": {}, "b": {"training.budget.steps": 7}}
    study = Study(question="Why?", arms=arms, budget={"tokens": 100})
    assert limits(study.config("a")) == {"tokens": 100} and limits(study.config("b")) == {"steps": 7}
    changed = study.changed({"training.budget.epochs": 2.0})
    assert limits(changed.config("a")) == {"epochs": 2.0} and limits(changed.config("b")) == {"steps": 7}


@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        ({"steps": 300}, "Ends after 300 steps (0.41 epochs)."),
        ({"epochs": 1.0}, "Ends after 1 epoch (736 steps)."),
        ({"tokens": 5000}, "Ends after 5,000 tokens (about 368 steps, 0.5 epochs)."),
        ({"steps": 300, "epochs": 1.0}, "Ends after 300 steps (0.41 epochs), before 1 epoch (736 steps)."),
        ({"seconds": 60.0}, "Ends after 60 seconds."),
        (
            {"epochs": 1.0, "seconds": 60.0},
            "Ends after 1 epoch (736 steps); or after 60 seconds, if that is sooner.",
        ),
    ],
)
def test_a_run_says_which_limit_will_end_it_and_when(limits, sentence):
    assert expected_end(Budget(**limits), epoch_steps=736, epoch_tokens=10_000) == sentence
