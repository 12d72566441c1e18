"""What an evaluation shows: numbers first, definitions apart, and figures that the records bear out."""

import numpy as np
import pytest

from attnlab.documents import html
from attnlab.documents.nodes import Definitions, Figure, Grid, Table
from attnlab.documents.terminal import as_text
from attnlab.evaluation.evaluation_result import DefinedScore, EvaluationResult
from attnlab.metrics import METRICS
from attnlab.metrics.metric import Examples
from attnlab.targets.classes import reliability
from attnlab.targets.report import Confusion, ReliabilityBin, TargetReport


@pytest.fixture
def examples():
    random = np.random.default_rng(0)
    probabilities = random.dirichlet(np.ones(3) * 0.7, 400)
    labels = np.array([random.choice(3, p=0.6 * row + 0.4 / 3) for row in probabilities])
    return Examples({"label": labels, "probabilities": probabilities})


def test_the_reliability_curve_is_that_of_the_calibration_error(examples):
    """The mean distance of its points from the diagonal, by their numbers, is the metric."""
    bins = reliability(examples)
    assert sum(one.n for one in bins) == 400 and len(bins) > 5
    apart = sum(one.n * abs(one.confidence - one.accuracy) for one in bins) / 400
    metric = METRICS["calibration_error"]()
    assert apart == pytest.approx(float(metric.of(metric.parts(examples).sum(0))), rel=1e-12)
    inside = (examples["probabilities"].max(1) > 14 / 15).sum()
    assert bins[-1].n == inside and bins[-1].confidence > 14 / 15


def result():
    scores = {
        "accuracy": DefinedScore(0.4277, "the share that is right", (0.374, 0.483)),
        "macro_f1": DefinedScore(0.301, "the mean over classes", (0.254, 0.349)),
        "targets": DefinedScore(318, "labels that were predicted"),
    }
    report = TargetReport(
        confusion=Confusion(["cat", "dog"], [[45, 10], [0, 7]]),
        reliability=(ReliabilityBin(0.3, 0.4, 50), ReliabilityBin(0.6, 0.5, 4)),
    )
    return EvaluationResult(name="dev", scores=scores, target=report)


def test_numbers_come_first_and_definitions_last():
    nodes = result().document().nodes
    assert isinstance(nodes[0], Table) and isinstance(nodes[-1], Definitions)
    shown = as_text(nodes[0]).replace("\xa0", " ")
    assert "42.8%   37.4% to 48.3%" in shown and "macro F1" in shown and "share that" not in shown
    assert result().document().headline == "Accuracy 42.8% (37.4%\xa0to\xa048.3%) on dev"


def test_a_confusion_is_a_picture_with_its_counts():
    (grid,) = (node for node in result().document().nodes if isinstance(node, Grid))
    assert grid.values == [[45, 10], [0, 7]]
    assert as_text(grid).splitlines()[2].split() == ["0", "cat", "45", "10"]
    page = str(html.block(grid))
    assert all(f">{count}</text>" in page for count in (45, 10, 7)) and "0 cat, 1 dog: 10" in page


def test_the_reliability_figure_has_the_records_points_and_says_which_are_few():
    (figure,) = (node for node in result().document().nodes if isinstance(node, Figure))
    line, diagonal = figure.first.lines
    assert (line.x, line.y) == ([0.3, 0.6], [0.4, 0.5]) and diagonal.x == diagonal.y
    assert "1 of 2 points rest on fewer than 10 predictions" in figure.note
