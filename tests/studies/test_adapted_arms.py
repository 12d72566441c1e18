"""A study whose arms adapt one start in different ways: an arm for each adapter."""

from pathlib import Path

import pytest

from attnlab.config.values import ConfigError
from attnlab.runs.record import read_record
from attnlab.studies.builtin.adaptation import Methods
from attnlab.studies.outcome import StudyOutcome
from attnlab.studies.resolved import resolve
from attnlab.studies.runner import run_study
from tests.studies.here import here
from tests.studies.records import comparison
from tests.studies.small_study import study
from tests.training.small_run import config, train

ARMS = {"full": {"adapter": "full"}, "lora": {"adapter": "lora(rank=2)"}}


def adapting(folder, **changes):
    return study(folder, set={"start": str(folder / "start"), "data.batching": "padded"}, **changes)


@pytest.fixture
def folder(tmp_path, unchecked):
    train(config(tmp_path, model={"layers": 1}), tmp_path / "start")
    return tmp_path


def test_seeds_that_share_a_start_are_not_taken_for_seeds_without_effect(folder):
    with here():
        done = run_study(resolve(adapting(folder, arms=ARMS)), folder / "study", jobs=1)
    (comparison,) = done.results["comparisons"]
    assert not done.failed and comparison["verdict"] != "invalid", comparison
    for run in done.results["runs"]:
        assert run["status"] == "finished", run["reason"]
        initial = read_record(folder / "study" / run["folder"])["initial"]
        assert all(".lora." in name for name in initial) and bool(initial) == (run["arm"] == "lora")
    one, other = (a for a in done.results["arms"])
    assert other["parameters"] - one["parameters"] == 2 * 2 * (16 + 16), "A and B, of queries and values"


def test_an_arm_that_contradicts_its_start_is_refused_before_any_run(folder):
    arms = {"full": {}, "wide": {"model.width": 32}}
    refused = resolve(adapting(folder, arms=arms)).refused
    assert refused["wide"].startswith("model.width is 32, and in the start")
    with pytest.raises(ConfigError, match=r'Arm "wide" of small: model\.width is 32, and in the start'):
        resolve(adapting(folder, arms=arms, baseline="wide"))


def test_the_table_of_methods_says_what_each_reaches_and_takes():
    metrics = {
        "accuracy": {"value": 0.912345, "low": 0.87, "high": 0.95432, "n": 5},
        "seconds": {"value": 12.3456},
        "peak_memory_bytes": {"value": 4.017e8},
    }
    arm = {"status": "finished", "parameters": 1000, "metrics": metrics}
    results = {
        "study": {"metric": "accuracy", "baseline": "full"},
        "arms": [
            arm | {"name": "full", "tuned_parameters": 1000},
            arm | {"name": "lora", "tuned_parameters": 51},
            arm | {"name": "top", "tuned_parameters": None, "metrics": {}, "status": "failed"},
        ],
        "runs": [],
        "comparisons": [comparison("lora", "full", "worse", metric="accuracy").as_json()],
        "format": 2,
    }
    (found,) = Methods().summarise(StudyOutcome.of_json(results), Path()).tables
    assert [dict(zip(found["columns"], row, strict=True))["against full"] for row in found["rows"]] == [
        *("baseline", "worse", "failed")
    ]
    assert found["rows"][1] == ["lora", 5, 0.9123, 0.87, 0.9543, 51, "5.1%", 12.3, 402, "worse"]
    assert found["rows"][0][6] == "100%" and found["rows"][2][1:9] == [None] * 8
