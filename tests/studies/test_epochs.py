"""Train and dev by epoch in a study's report, collapse told first, and verdicts where higher is better."""

import numpy as np
import pytest

from attnlab.documents.plotly_figures import views
from attnlab.evaluation.paired_results import SeedResult
from attnlab.evaluation.statistics import corrected, differences
from attnlab.runs.findings import Finding
from attnlab.runs.metrics_file import read_events
from attnlab.runs.result import RunResult
from attnlab.studies.outcome import StudyFacts, StudyOutcome, learned_nothing
from attnlab.studies.report.sections import by_epoch
from attnlab.studies.report.study_results import StudyResults
from attnlab.studies.runner import RunnableStudy
from attnlab.studies.wording import comparison_sentence, majority_sentence
from tests.studies.here import here
from tests.studies.small_study import study
from tests.training.small_run import for_task, merged, settings
from tests.unchecked import checked_by

ARMS = {
    "fast": {"training.optimizer.learning_rate": 0.02},
    "still": {"training.optimizer.learning_rate": 1e-9},
}


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    folder = tmp_path_factory.mktemp("epochs")
    base = merged(settings(folder), for_task("classification", folder))
    base["training"] |= {"evaluate_every": "epoch", "checkpoint_every": 100}
    asked = study(
        folder,
        base=base,
        arms=ARMS,
        metric="accuracy",
        budget={"epochs": 3.0},
        collapse="result",
        probes=(),
        sentence="",
    )
    with here(), checked_by("majority", "collapse"):
        return RunnableStudy.of(asked).run(folder / "study", jobs=1)


def evaluated(ended, arm):
    return [
        [e for e in read_events(ended.folder / run["folder"] / "metrics.jsonl") if e["event"] == "evaluated"]
        for run in ended.results["runs"]
        if run["arm"] == arm
    ]


def test_the_figure_shows_what_the_runs_measured(ended):
    (figure,) = by_epoch(StudyResults(ended.outcome))
    assert list(figure.controls[0].options) == ["accuracy", "loss"]
    of_accuracy, of_loss = views(figure).values()
    for arm in ARMS:
        runs = evaluated(ended, arm)
        told = {
            "train accuracy": (of_accuracy[0], lambda e: e["scores"]["train_accuracy"]),
            "dev accuracy": (of_accuracy[1], lambda e: e["scores"]["accuracy"]),
            "train loss": (of_loss[0], lambda e: e["scores"]["train_loss"]),
            "dev loss": (of_loss[1], lambda e: e["loss"]),
        }
        for name, (panel, value) in told.items():
            (line,) = [trace for trace in panel["data"] if trace.get("legendgroup") == arm]
            means = [np.mean([value(e) for e in seeds]) for seeds in zip(*runs, strict=True)]
            assert line["x"] == [1, 2, 3] and line["y"] == pytest.approx(means, rel=1e-5), name
            assert "markers" in line["mode"]
            spread = [np.ptp([value(e) for e in seeds]) for seeds in zip(*runs, strict=True)]
            bars = np.add(line["error_y"]["array"], line["error_y"]["arrayminus"])
            assert bars == pytest.approx(spread, rel=1e-4, abs=1e-9)
    ranges = [panel["layout"]["yaxis"]["range"] for panel in of_accuracy]
    assert ranges[0] == ranges[1], "train and dev on one scale"


def test_collapse_is_said_first_with_arms_seeds_and_what_to_try(ended):
    first = "No better than always giving the most frequent label: still (all seeds)."
    assert ended.results["verdict"].startswith(first)
    still = next(arm for arm in ended.results["arms"] if arm["name"] == "still")
    assert still["status"] == "finished" and not ended.faults, "nothing learned is a result here"
    (row,) = ended.results["comparisons"]
    assert row["verdict"] in ("worse", "inconclusive") and row["difference"] < 0
    page = (ended.folder / "report.md").read_text()
    assert page.startswith("# No better than the most frequent label: still. ")
    told = page.split("## Result")[0]
    assert "**still (all seeds):**" in told and "--rates" in told


def finding(check="majority", **facts):
    return Finding(check=check, when="after", outcome="fail", **facts)


def test_seeds_are_named_and_mixed_up_labels_are_no_collapse():
    runs = [
        RunResult(arm="a", seed=0, status="finished"),
        RunResult(arm="a", seed=1, status="finished", checks=(finding(kind="not_better"),)),
        RunResult(arm="a", seed=2, status="finished", checks=(finding("collapse"),)),
        RunResult(arm="b", seed=0, status="invalid", checks=(finding(kind="relabelled"),)),
    ]
    outcome = StudyOutcome(study=StudyFacts(), runs=tuple(runs))
    assert outcome.at_majority == {"a": ([1, 2], 3)}
    assert majority_sentence(outcome.at_majority) == (
        "No better than always giving the most frequent label: a (seeds 1 and 2 of 3)."
    )
    assert not learned_nothing(runs[3])
    assert not StudyOutcome(study=StudyFacts(), runs=tuple(runs[:1])).at_majority


@pytest.mark.parametrize(("shift", "word"), [(0.1, "better"), (-0.1, "worse")])
def test_more_is_better_where_the_metric_says_so(shift, word):
    random = np.random.default_rng(0)
    noise = random.normal(0, 0.005, (2, 5))
    base = [SeedResult(seed, 0.7 + noise[0, seed], None) for seed in range(5)]
    arm = [SeedResult(seed, 0.7 + shift + noise[1, seed], None) for seed in range(5)]
    found = differences({"base": base, "arm": arm}, "base", metric="accuracy", lower_is_better=False)
    (row,) = corrected(found)
    assert row.verdict == word and np.sign(row.difference) == np.sign(shift)
    assert comparison_sentence(row, {}).startswith(
        f"arm is {word} than base: accuracy {'+10.' if shift > 0 else '−9.'}"
    )
    assert " points (95% from " in comparison_sentence(row, {})
