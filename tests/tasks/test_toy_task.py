"""A task that is one class and one line trains, evaluates, predicts, is checked and is compared."""

import json

import numpy as np
import pytest

from attnlab.config.values import ConfigError
from attnlab.metrics import METRICS
from attnlab.runs.findings import read_findings
from attnlab.session.trained import Trained
from attnlab.studies.resolved import resolve
from attnlab.studies.runner import run_study
from attnlab.studies.spec import Quick, Study
from attnlab.tasks import TASKS
from tests.session.commands import answer, command
from tests.studies.here import here
from tests.training.small_run import config, merged, settings, train

NEW = ["the cat sees a dog .", "my sister", "the old man likes the small child on the hill ."]


@pytest.fixture(scope="module", autouse=True)
def registered():
    """By the import, which is late so that tests of all tasks do not meet it."""
    import tests.tasks.vowels  # noqa: F401

    yield
    TASKS.unregister("vowels")
    METRICS.unregister("near")


def vowels_of(text):
    return sum(letter in "aeiou" for letter in text)


def changes():
    """The small run's plain text, which has no labels, letter by letter."""
    return {
        "task": "vowels",
        "data": {
            "tokenizer": {"kind": "character"},
            "encoding": "single",
            "length": 64,
            "dev_share": 0.3,
            "batching": {"kind": "bucketed", "tokens": 1024},
        },
        "model": {"family": "encoder", "layers": 1, "length": 64, "dropout": 0.0},
        "training": {
            "budget": {"steps": 120},
            "evaluate_every": 60,
            "evaluate_batches": "all",
            "optimizer": {"kind": "adamw", "learning_rate": 4e-3},
        },
    }


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vowels")
    return train(config(folder, **changes()), folder / "run")


def test_it_is_listed_with_its_card_and_named_in_errors():
    listed = json.loads(command("list", "tasks", "--json").stdout)
    (mine,) = [one for one in listed if one["name"] == "vowels"]
    assert "how many vowels a text has" in mine["summary"]
    with pytest.raises(ConfigError, match='Did you mean "vowels"'):
        TASKS.resolve("vowel", "task")


def test_it_trains_and_is_checked(run):
    assert run.reason == "budget" and run.unsound == (), run.failures
    outcomes = {one.check: one.outcome for one in read_findings(run.folder)}
    for name in ("targets", "first_loss", "overfit", "recomputed_loss", "invariance", "reload", "majority"):
        assert outcomes[name] == "pass", name


def test_it_evaluates(run):
    told = Trained.at(run.folder).evaluate("dev")
    assert next(iter(told["measures"])) == "mean_squared_error"
    assert told["measures"]["explained_variance"]["value"] > 0.8
    assert told["mistakes"] and all(vowels_of(one["text"]) == one["label"] for one in told["mistakes"])
    near = told["measures"]["near"]
    assert near["interval"][0] < near["value"] < near["interval"][1] and "half a vowel" in near["definition"]


def test_it_predicts(run, tmp_path):
    found = Trained.at(run.folder).predict(NEW)
    counted = [vowels_of(text) for text in NEW]
    assert np.corrcoef([one.answer for one in found], counted)[0, 1] > 0.8
    (tmp_path / "new.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in NEW))
    answer("predict", run.folder, "--data", tmp_path / "new.jsonl", "--out", tmp_path / "p.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert [line["prediction"] for line in lines] == pytest.approx([one.answer for one in found], rel=1e-4)


def test_it_is_compared_in_a_study_by_a_metric_of_its_own(tmp_path, unchecked):
    rates = {"slow": 1e-3, "fast": 4e-3}
    study = Study(
        name="vowels",
        question="Does a higher learning rate help to count?",
        base=merged(settings(tmp_path), changes()),
        arms={arm: {"training.optimizer.learning_rate": rate} for arm, rate in rates.items()},
        metric="near",
        extras="tests.tasks.vowels:Registered",
        seeds=2,
        budget={"steps": 60},
        quick=Quick(seeds=1, budget={"steps": 2}),
    )
    with here():
        ended = run_study(resolve(study), tmp_path / "study", jobs=1)
    (row,) = ended.results["comparisons"]
    assert row["metric"] == "near" and row["documents"] > 10 and row["seeds"] == 2
    means = {
        arm: np.mean([one["metrics"]["near"] for one in ended.results["runs"] if one["arm"] == arm])
        for arm in rates
    }
    assert row["difference"] == pytest.approx(means["fast"] - means["slow"]) and means["fast"] > means["slow"]
    assert row["verdict"] in ("better", "inconclusive")
    assert "right to half a vowel" in (ended.folder / "report.md").read_text()
