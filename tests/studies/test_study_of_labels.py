"""A study by accuracy: what models said of each text is kept, paired by seed and text; higher is better."""

from collections import Counter

import numpy as np
import pytest

from attnlab.studies.judgement import DOCUMENTS
from attnlab.studies.report.sections.predictions import confused, reliable
from attnlab.studies.report.study_results import StudyResults
from attnlab.studies.run_measures import read_documents
from attnlab.studies.runner import RunnableStudy
from tests.studies.here import here
from tests.studies.small_study import study
from tests.training.small_run import for_task, merged, settings
from tests.unchecked import checked_by

ARMS = {
    "slow": {"training.optimizer.learning_rate": 1e-6},
    "fast": {"training.optimizer.learning_rate": 0.02},
}


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    folder = tmp_path_factory.mktemp("labels")
    base = merged(settings(folder), for_task("classification", folder))
    base["training"] |= {"checkpoint_every": 50, "evaluate_every": 20}
    allow = dict.fromkeys(ARMS, ("majority", "collapse"))
    asked = study(folder, base=base, arms=ARMS, metric="accuracy", budget={"steps": 60}, allow=allow, seeds=2)
    with here(), checked_by("majority", "collapse"):
        return RunnableStudy.of(asked).run(folder / "study", jobs=1)


def test_accuracy_is_that_of_the_kept_predictions(ended):
    for run in ended.results["runs"]:
        kept = read_documents(ended.folder / run["folder"] / DOCUMENTS).examples
        right = kept["probabilities"].argmax(1) == kept["label"]
        assert run["metrics"]["accuracy"] == pytest.approx(right.mean())
        assert "perplexity" not in run["metrics"] and "train_accuracy" in run["metrics"]


def test_the_comparison_is_paired_and_higher_is_better(ended):
    (row,) = ended.results["comparisons"]
    values = {
        arm: [r["metrics"]["accuracy"] for r in ended.results["runs"] if r["arm"] == arm] for arm in ARMS
    }
    assert row["metric"] == "accuracy" and row["seeds"] == 2
    assert (
        row["difference"] == pytest.approx(np.mean(values["fast"]) - np.mean(values["slow"]))
        and row["difference"] > 0
    )
    kept = read_documents(ended.folder / ended.results["runs"][0]["folder"] / DOCUMENTS)
    assert row["documents"] == len(kept) and row["spread_texts"] > 0
    assert row["verdict"] != "worse"


def test_curves_and_tables_of_the_report_show_it(ended):
    assert all("dev accuracy" in run["extra_curves"] for run in ended.results["runs"])
    told = (ended.folder / "report.md").read_text()
    assert "| accuracy" in told and "share of examples" in told


def test_a_collapsed_arm_is_said_before_any_number_and_the_baselines_are_shown(ended):
    told = (ended.folder / "report.md").read_text()
    notice = next(line for line in told[: told.index("## Result")].splitlines() if "slow (" in line)
    assert "--rates usual" in notice and "most frequent label" in notice
    kept = read_documents(ended.folder / ended.results["runs"][0]["folder"] / DOCUMENTS).examples
    share = np.bincount(kept["label"]).max() / len(kept)
    row = next(line for line in told.splitlines() if line.startswith("| majority"))
    assert f"| all | accuracy | {share:.1%} (n = {len(kept)}) |" in row.replace("\xa0", " ")


def test_confused_classes_and_reliability_are_those_of_the_kept_predictions(ended):
    """Counted again, text by text, over the seeds of each arm."""
    study = StudyResults(ended.outcome)
    ((matrix,), (curve,)) = confused(study), reliable(study)
    for arm, heat in zip(study.arms, matrix.views[""], strict=True):
        kept = [read_documents(ended.folder / run.folder / DOCUMENTS).examples for run in arm.runs]
        pairs = Counter(
            (int(label), int(said))
            for one in kept
            for label, said in zip(one["label"], one["probabilities"].argmax(1), strict=True)
        )
        rows = Counter(label for label, _ in pairs.elements())
        for label, row in enumerate(heat.weights):
            for said, share in enumerate(row):
                if rows[label]:
                    assert share == pytest.approx(pairs[label, said] / rows[label], abs=1e-4)
                else:
                    assert share is None
        line = next((line for line in curve.views[""][0].lines if line.name == arm.name), None)
        sure = np.concatenate([one["probabilities"].max(1) for one in kept])
        right = np.concatenate([one["probabilities"].argmax(1) == one["label"] for one in kept])
        bins = np.ceil(sure * 15)
        full = [bins == place for place in np.unique(bins) if sum(bins == place) >= 10]
        expected = [(sure[own].mean(), right[own].mean()) for own in full]
        drawn = list(zip(line.x, line.y, strict=True)) if line else []
        assert np.allclose(drawn, expected)
