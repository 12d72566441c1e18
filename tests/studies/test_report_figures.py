"""What figures show, against the records: each number by a plain second computation."""

import copy
import math
from statistics import fmean

import pytest

from attnlab.documents import plotly_figures, svg
from attnlab.documents.nodes import Axis, Figure, Level, Line, Lines
from attnlab.metrics.metric import Estimate
from attnlab.studies.builtin.learning_rates import RATES, ByRate
from attnlab.studies.outcome import ArmOutcome, StudyFacts, StudyOutcome
from attnlab.studies.report.sections.attention import attention
from attnlab.studies.report.sections.curves import by_epoch, curves
from attnlab.studies.report.sections.own import figures
from attnlab.studies.report.sections.paired import paired
from attnlab.studies.report.sections.predictions import texts_alone
from attnlab.studies.report.sections.tradeoff import tradeoff
from attnlab.studies.report.study_results import StudyResults
from tests.studies import results as made


def study(results):
    return StudyResults(StudyOutcome.of_json(results))


def lines_of(nodes, view="0,0", panel=0):
    """The lines of a figure by their names; several where single seeds are drawn."""
    (figure,) = nodes
    assert isinstance(figure, Figure)
    by_name: dict[str, list[Line]] = {}
    for line in figure.views[view][panel].lines:
        by_name.setdefault(line.name, []).append(line)
    return by_name


def losses(results, arm, step):
    """The dev losses of an arm's seeds at a step."""
    runs = [run for run in results["runs"] if run["arm"] == arm and "dev_curve" in run]
    points = [dict(zip(run["dev_curve"]["step"], run["dev_curve"]["loss"], strict=True)) for run in runs]
    return [by_step.get(step) for by_step in points]


def test_a_training_curve_is_the_mean_of_all_seeds_wherever_it_is_a_mean():
    results = made.five_arms()
    cut = next(run for run in results["runs"] if run["arm"] == "linear" and run["seed"] == 3)
    cut["dev_curve"] = {key: values[:4] for key, values in cut["dev_curve"].items()}  # which ended early
    for arm, drawn in lines_of(curves(study(results))).items():
        mean = next(line for line in drawn if not line.thin)
        for step, value, low, high in zip(mean.x, mean.y, mean.low, mean.high, strict=True):
            seeds = losses(results, arm, step)
            assert len(seeds) == 5 and None not in seeds, "every seed has a point"
            assert value == pytest.approx(fmean(seeds)) and (low, high) == (min(seeds), max(seeds))
    linear = lines_of(curves(study(results)))["linear"]
    assert max(linear[0].x) == 800 and len(linear) == 1 + 4
    for seed, line in zip((0, 1, 2, 4), linear[1:], strict=True):
        own = [losses(results, "linear", step)[seed] for step in line.x]
        assert line.thin and line.low is None and list(line.y) == own


def note_of(nodes):
    return str(nodes[0].note)


def test_bands_are_promised_only_where_there_are_some():
    results = made.two_arms(seeds=3)
    assert "bands" in note_of(curves(study(results))) and "one seed" not in note_of(curves(study(results)))
    results["runs"] = [run for run in results["runs"] if run["arm"] == "dot" or run["seed"] == 0]
    assert "additive: one seed, the spread is unknown." in note_of(curves(study(results)))
    assert "bands" not in note_of(curves(study(made.one_seed()))).lower()


def test_a_curve_that_lies_under_another_is_told():
    results = made.five_arms()
    assert "lie on one another" not in note_of(curves(study(results)))
    for run in results["runs"]:
        if run["arm"] == "additive":
            twin = next(one for one in results["runs"] if one["arm"] == "dot" and one["seed"] == run["seed"])
            run["dev_curve"] = copy.deepcopy(twin["dev_curve"])
    assert "Lines that lie on one another: dot and additive." in note_of(curves(study(results)))


def test_with_fewer_than_two_dev_points_the_training_loss_is_shown_first():
    results = made.two_arms(seeds=2)
    assert curves(study(results))[0].controls[0].options[0] == "dev loss"
    for run in results["runs"]:
        run["dev_curve"] = {key: values[:1] for key, values in run["dev_curve"].items()}
    assert curves(study(results))[0].controls[0].options[0] != "dev loss"


def test_a_difference_while_training_is_paired_by_seed():
    results = made.five_arms()
    results["runs"] = [r for r in results["runs"] if not (r["arm"] == "dot" and r["seed"] == 1)]
    baseline = {seed: place for place, seed in enumerate((0, 2, 3, 4))}
    for arm, (line,) in lines_of(paired(study(results)), "0").items():
        assert arm != "dot"
        for step, value, low, high in zip(line.x, line.y, line.low, line.high, strict=True):
            own, other = losses(results, arm, step), losses(results, "dot", step)
            gaps = [own[seed] - other[place] for seed, place in baseline.items()]
            assert value == pytest.approx(fmean(gaps)) and (low, high) == (min(gaps), max(gaps))
    (figure,) = paired(study(results))
    low, high = figure.views["0"][0].y.span
    assert low < -0.02 < high and low > -0.3, "an invalid arm does not set the scale"


def test_quality_against_cost_shows_the_arms_own_estimates():
    results = made.five_arms()
    drawn = lines_of(tradeoff(study(results)), "0")
    assert {*drawn} == {"dot", "additive", "linear"}, "not what is invalid or failed"
    for arm in results["arms"]:
        if arm["name"] in drawn:
            (line,), scores = drawn[arm["name"]], arm["metrics"]
            assert line.x == [scores["seconds"]["value"]] and line.y == [scores["loss"]["value"]]
            assert (line.low, line.high) == ([scores["loss"]["low"]], [scores["loss"]["high"]])
            assert (line.x_low, line.x_high) == ([scores["seconds"]["low"]], [scores["seconds"]["high"]])


def labelled():
    """A study by accuracy, with curves of it by epoch and what the majority gives."""
    results = made.two_arms(seeds=2)
    results["study"]["metric"] = "accuracy"
    base = {"n": 318, "interval": None, "definition": "always the most frequent"}
    for run in results["runs"]:
        places = {"step": [10, 20], "epoch": [1.0, 2.0], "tokens": [10, 20], "seconds": [1.0, 2.0]}
        run["extra_curves"] = {f"{s} accuracy": places | {"value": [0.5, 0.6]} for s in ("train", "dev")}
        run["baselines"] = [{"name": "majority", "value": 0.1918, "metric": "accuracy", **base}]
        run["baselines"] += [{"name": "word frequencies", "value": 6.4, "metric": "loss", **base}]
    for arm in results["arms"]:
        arm["metrics"]["accuracy"] = {"value": 0.6, "low": 0.5, "high": 0.7, "n": 2}
    line = {"name": "dot", "x": [1, 2], "y": [0.5, 0.6]}
    results["figures"] = [{"title": "By rate", "x": "rate", "y": "accuracy", "series": [line]}]
    return results


def test_what_needs_no_training_is_a_line_in_every_figure_of_its_metric():
    results = labelled()
    shown = study(results)
    (curve,), (epochs,), (cost,), (own,) = curves(shown), by_epoch(shown), tradeoff(shown), figures(shown)
    majority = [Level("majority 19.2%", 0.1918)]
    options = list(curve.controls[0].options)
    assert curve.views[f"{options.index('dev accuracy')},0"][0].levels == majority
    assert curve.views[f"{options.index('dev loss')},0"][0].levels == [Level("word frequencies 6.400", 6.4)]
    assert not curve.views[f"{options.index('train loss')},0"][0].levels
    train, dev = epochs.views["0"]
    assert dev.levels == majority and not train.levels
    assert cost.views["0"][0].levels == majority and own.views[""][0].levels == majority
    layout = plotly_figures.lines(dev)["layout"]
    assert [(s["y0"], s["y1"], s["line"]["dash"]) for s in layout["shapes"]] == [(0.1918, 0.1918, "dash")]
    assert layout["annotations"][0]["text"] == "majority 19.2%" and layout["yaxis"]["tickformat"] == ",.0%"


def test_no_line_goes_through_a_learning_rate_that_was_not_run(tmp_path):
    names = [name for name in RATES if name != "3e-4"]
    scores = {"accuracy": Estimate(0.5, 0.4, 0.6, 3)}
    arms = [ArmOutcome(name=f"{name}-2-epochs", learning_rate=RATES[name], scores=scores) for name in names]
    outcome = StudyOutcome(study=StudyFacts(metric="accuracy"), arms=tuple(arms))
    (series,) = ByRate().summarise(outcome, tmp_path).figures[0]["series"]
    assert math.isnan(dict(zip(series["x"], series["y"], strict=True))[RATES["3e-4"]])
    line = Line("2 epochs", series["x"], series["y"])
    chart = Lines([line], Axis(log=True), Axis())
    assert [len(part) for part in svg.Plane.of(chart, 704, 368, names=True).stretches(line)] == [2, 2]
    (trace,) = plotly_figures.lines(chart)["data"]
    assert trace["y"][2] is None and "connectgaps" not in trace


def test_a_budget_is_told_by_the_arms_that_have_it():
    results = made.two_arms()
    results["study"]["budget"] = {"epochs": 10}
    for arm, epochs in zip(results["arms"], (2, 8), strict=True):
        arm["budget"] = {"epochs": epochs}
    assert study(results).budget == "2 epochs (dot), 8 epochs (additive)"
    results["arms"][1]["budget"] = {"epochs": 2}
    assert study(results).budget == "2 epochs"
    del results["arms"][1]["budget"]
    assert study(results).budget == "2 epochs (dot), 10 epochs (additive)"


def test_logarithmic_axes_read_powers_of_ten():
    chart = Lines([Line("a", [1, 1e3, 1e6], [1e-6, 1.0, 1e4])], Axis(log=True), Axis(log=True))
    layout = plotly_figures.lines(chart)["layout"]
    assert {"10³", "10⁶"} <= {*layout["xaxis"]["ticktext"]} and "10⁻⁴" in layout["yaxis"]["ticktext"]
    assert "10³" in svg.curves(chart) and "10⁻⁴" in svg.curves(chart) and "1,000" not in svg.curves(chart)


def test_arms_that_are_invalid_or_failed_use_up_no_colour():
    inks = {arm.name: arm.ink for arm in study(made.many_arms()).arms}
    grey = {"zero", "argmax", "zero-with-rotary-positions"}
    assert {name for name, ink in inks.items() if ink.dash == "dot"} == grey
    others = [(ink.colour, ink.dash) for name, ink in inks.items() if name not in grey]
    assert len(set(others)) == len(others) == 11 and others[:2] == [
        ("var(--arm-0)", "solid"),
        ("var(--arm-1)", "solid"),
    ]


def test_a_point_of_a_text_is_its_two_losses_by_the_first_seed():
    results = made.five_arms(seeds=2)
    for run in results["runs"]:
        leak = 0.7 if run["arm"] == "zero" else 0.0
        run["texts_alone"] = [[5.0 + run["seed"], 5.0 + run["seed"]], [4.0, 4.0 + leak]]
    (figure,) = texts_alone(study(results))
    (chart,) = figure.views[""]
    points = {line.name: list(zip(line.x, line.y, strict=True)) for line in chart.lines}
    assert points["dot"] == [(5.0, 5.0), (4.0, 4.0)] and points["zero"] == [(5.0, 5.0), (4.0, 4.7)]
    assert chart.diagonal and all(line.dots for line in chart.lines)
    (diagonal,) = plotly_figures.lines(chart)["layout"]["shapes"]
    assert diagonal["x0"] == diagonal["y0"] == 4.0 and diagonal["x1"] == diagonal["y1"] == 5.0


def test_a_pair_that_the_mask_forbids_is_not_a_weight_of_zero():
    results = made.five_arms(seeds=2)
    weights = results["attention"]["arms"]["dot"]
    size = len(results["attention"]["tokens"])
    weights[0][0][5][2] = 0.0  # a weight that the model chose
    causal = [[int(key <= query) for key in range(size)] for query in range(size)]
    results["attention"]["allowed"] = {"dot": causal}
    (_, figure) = attention(study(results))
    assert [control.options[0] for control in figure.controls] == ["0", "0"], "layers and heads count from 0"
    dot = figure.views["0,0"][0]
    assert dot.weights[5][2] == 0.0
    empty = [(q, k) for q in range(size) for k in range(size) if dot.weights[q][k] is None]
    assert empty == [(q, k) for q in range(size) for k in range(size) if k > q]
    (strokes,) = plotly_figures.heatmap(dot)["layout"]["shapes"]
    assert strokes["path"].count("M") == len(empty) and "M0.5,0.5L1.5,-0.5" in strokes["path"]


def test_arms_whose_steps_differ_are_paired_by_epoch_and_shares_in_points():
    results = labelled()
    for run in results["runs"]:
        own = run["extra_curves"]["dev accuracy"]
        if run["arm"] == "additive":
            run["extra_curves"]["dev accuracy"] = own | {"step": [7, 14], "value": [0.55, 0.62]}
        run["dev_curve"] = {}
    lines = lines_of(paired(study(results)), "0")
    assert lines["additive"][0].x == [1.0, 2.0] and lines["additive"][0].y == pytest.approx([5.0, 2.0])
    assert "in points" in paired(study(results))[0].views["0"][0].y.title
