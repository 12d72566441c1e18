"""A metric that is one function and one line is in the list, in `evaluate`, in a study and in its report."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from attnlab.cli import app
from attnlab.metrics import METRICS
from attnlab.session.trained import Trained
from attnlab.studies.runner import RunnableStudy
from tests.studies.here import here
from tests.studies.small_study import study
from tests.unchecked import checked_by

NAME = "easy_texts"


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    arms = {
        "slow": {"training.optimizer.learning_rate": 5e-3},
        "fast": {"training.optimizer.learning_rate": 0.02},
    }
    asked = study(
        folder, arms=arms, metric=NAME, extras="tests.studies.own_metric:Registered", budget={"steps": 40}
    )
    with here(), checked_by():
        ran = RunnableStudy.of(asked).run(folder / "study", jobs=1)
    yield ran
    METRICS.unregister(NAME)


def test_it_is_listed(ended):
    listed = json.loads(CliRunner().invoke(app, ["list", "metrics", "--json"]).stdout)
    (mine,) = [one for one in listed if one["name"] == NAME]
    assert "less than 1.75 nats" in mine["summary"]


def test_it_is_evaluated_with_an_interval_and_its_definition(ended):
    told = Trained.at(ended.folder / "runs" / "fast" / "seed-0").evaluate("dev")["measures"][NAME]
    low, high = told["interval"]
    assert low < told["value"] < high and "less than 1.75 nats" in told["definition"]


def test_a_study_pairs_it_by_seed_and_by_text_and_knows_its_better_side(ended):
    (row,) = ended.results["comparisons"]
    values = {run["arm"]: run["metrics"][NAME] for run in ended.results["runs"] if run["seed"] == 0}
    assert values["fast"] > values["slow"], "more texts are easy for the arm that learns"
    assert row["metric"] == NAME and row["seeds"] == 2 and row["documents"] > 10
    assert row["difference"] > 0 and row["verdict"] in ("better", "inconclusive")
    assert row["spread_texts"] > 0, "the choice of texts is part of the interval"
    defined = {one["name"]: one for one in ended.results["study"]["metrics"]}
    assert defined[NAME]["lower_is_better"] is False
    means = [arm["metrics"][NAME]["value"] for arm in ended.results["arms"]]
    by_hand = [
        np.mean([r["metrics"][NAME] for r in ended.results["runs"] if r["arm"] == a])
        for a in ("slow", "fast")
    ]
    assert means == pytest.approx(by_hand)


def test_the_report_shows_and_defines_it(ended):
    told = (ended.folder / "report.md").read_text()
    assert (
        "easy texts" in told
        and "the share of texts whose words cost less than 1.75 nats each" in told.lower()
    )
    assert "easy texts" in (ended.folder / "report.html").read_text()
