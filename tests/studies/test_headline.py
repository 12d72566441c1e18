"""A study's answer: short whatever the study, and in the same digits wherever it is shown."""

import re

import numpy as np
import pytest

from attnlab.documents import html
from attnlab.documents.nodes import Forest, Notice
from attnlab.studies.headline import MOST
from attnlab.studies.outcome import Note, NoteKind, StudyOutcome
from attnlab.studies.report.page import report
from attnlab.studies.report.sections.result import differences
from attnlab.studies.report.study_results import StudyResults
from tests.studies import results as made
from tests.studies.records import arm, comparison


def outcome(results):
    return StudyOutcome.of_json(results)


def forest_of(results):
    """The first figure of a report."""
    return next(node for node in differences(StudyResults(outcome(results))) if isinstance(node, Forest))


def random_study(random):
    """Any number of arms with names of any length, of every verdict and state."""
    results = made.many_arms(seeds=2)
    kept = random.integers(0, len(results["comparisons"]) + 1)
    results["comparisons"] = results["comparisons"][:kept]
    longer = {one["name"]: one["name"] + "-x" * int(random.integers(0, 120)) for one in results["arms"]}
    for row in [*results["arms"], *results["runs"], *results["comparisons"]]:
        key = "name" if "name" in row else "arm"
        row[key] = longer[row[key]]
    for row in results["comparisons"]:
        row |= {"baseline": longer["dot"], "metric": str(random.choice(["loss", "accuracy"]))}
    results["study"]["baseline"] = longer["dot"]
    return outcome(results)


@pytest.mark.parametrize(
    "kind", ["five_arms", "two_arms", "many_arms", "one_seed", "bare", "hostile", "quick"]
)
def test_a_headline_has_at_most_160_characters(kind):
    headline = outcome(getattr(made, kind)()).headline
    assert 0 < len(headline) <= MOST and headline[-1] in ".…"


def test_a_headline_is_short_whatever_the_study():
    random = np.random.default_rng(5)
    lengths = [len(random_study(random).headline) for _ in range(60)]
    assert max(lengths) <= MOST and min(lengths) > 0


def test_a_headline_names_no_module_and_no_p():
    """An arm whose runs are no evidence, for a reason that names a parameter."""
    path = "trunk.decoder.blocks.0.residuals.0.inner.rule"
    results = made.two_arms()
    weights = {"seed": 0, "differ": 3, "shared": 9, "first": path}
    results["comparisons"][0] |= {"doubts": [{"kind": "other_weights", "values": weights}]}
    study = outcome(results)
    assert study.headline == "additive is invalid: its runs are no evidence."
    assert path in study.verdict, "which has the whole"
    assert not re.search(r"\bp [=<]", outcome(made.two_arms()).headline)


def test_the_fullest_answer_that_fits_is_given():
    assert outcome(made.two_arms()).headline == (
        "additive is better than dot: dev loss −0.0272 (95% from −0.0341 to −0.0203)."
    )
    assert outcome(made.five_arms()).headline == (
        "Better than dot: additive (−0.0272). Worse: linear (+0.0935). Invalid: zero. Failed: argmax."
    )
    many = outcome(made.many_arms()).headline
    assert many.startswith(
        "Better than dot: wide, dot-with-rotary-positions, alibi, additive. Worse: 4 arms."
    )


def test_headline_table_and_figure_have_the_same_digits():
    """Of a share: in points, as exact as its interval, wherever it stands."""
    results = made.two_arms()
    results["study"]["metric"] = "accuracy"
    facts = {"difference": 0.0213, "low": 0.0081, "high": 0.0345, "p": 0.001, "seeds": 5}
    results["comparisons"] = [made.compared("additive", "accuracy", "better", **facts)]
    for one in results["runs"]:
        one["metrics"]["accuracy"] = 0.58
    study = StudyResults(outcome(results))
    assert "accuracy +2.1 points (95% from +0.8 to +3.5)" in study.outcome.headline
    page = html.blocks(differences(study))
    shown = re.findall(r"<data value=\"0.0213\">([^<]*)</data>", page)
    assert shown and set(shown) == {"+2.1 points"}, "of the figure and of the tests behind it"
    (forest,) = [node for node in differences(study) if isinstance(node, Forest)]
    assert f"+2.1 points, {'+0.8 to +3.5'.replace(' ', chr(160))}" in html.forest(forest), "and to be heard"


def test_a_fault_has_one_notice_that_names_its_arms():
    lead = report(StudyResults(outcome(made.many_arms()))).lead
    told = [html.inline(node.part) for node in lead if isinstance(node, Notice) and node.kind == "invalid"]
    assert len(told) == 1 and "zero and zero-with-rotary-positions are invalid." in told[0]


def test_failed_arms_keep_a_row_that_says_why():
    forest = next(
        node for node in differences(StudyResults(outcome(made.many_arms()))) if isinstance(node, Forest)
    )
    rows = {row.name.text: row for row in forest.rows}
    assert {*rows} == {one["name"] for one in made.many_arms()["arms"]} - {"dot"}
    assert (
        rows["argmax"].difference.value is None and rows["argmax"].why == "The loss became NaN at step 412."
    )


def test_each_seed_of_the_forest_is_a_difference_of_two_runs():
    results = made.five_arms()
    forest = forest_of(results)
    loss = {(run["arm"], run["seed"]): run["metrics"]["loss"] for run in results["runs"] if "metrics" in run}
    row = next(row for row in forest.rows if row.name.text == "linear")
    assert list(row.each) == [loss["linear", seed] - loss["dot", seed] for seed in range(5)]
    assert row.detectable == outcome(results).comparison_of("linear").smallest


def test_a_study_that_learned_nothing_says_so_first():
    rows = [comparison("still", "fast", "worse", metric="accuracy", low=-0.8, high=-0.6)]
    study = StudyOutcome(
        study=outcome(made.two_arms()).study,
        arms=(arm("fast"), arm("still")),
        comparisons=tuple(rows),
        notes=(Note(NoteKind.SINGLE_RUNS),),
    )
    study.__dict__["at_majority"] = {"still": ([0, 1], 2)}
    assert study.headline.startswith(
        "No better than the most frequent label: still. still is worse than fast"
    )
