"""Metrics against scikit-learn, and their intervals against simulation."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics as sk

from attnlab.config.registry import card
from attnlab.metrics import METRICS
from attnlab.metrics.metric import CLUSTER, Examples, freedom_of, mean_of, t_reach, wilson
from tests.metrics.noisy_texts import written


def classified(seed, n=60, classes=4, skill=1.0):
    """Labels of unequal frequency, and the probabilities of a model of some skill."""
    draw = np.random.default_rng(seed)
    label = draw.choice(classes, n, p=draw.dirichlet(np.ones(classes) * 3))
    scores = draw.normal(size=(n, classes))
    scores[np.arange(n), label] += skill
    chances = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    return Examples({"label": label, "probabilities": chances})


def counted(seed, n=50):
    draw = np.random.default_rng(seed)
    targets = draw.integers(0, 30, n)
    nats = draw.gamma(3.0, 1.0, n) * targets
    return Examples({"nats": nats, "targets": targets, "bytes": targets * 5, "words": nats * 0.9})


def chosen_sets(seed, n=40, classes=5):
    draw = np.random.default_rng(seed)
    return Examples({"labels": draw.random((n, classes)) < 0.3, "chances": draw.random((n, classes))})


def numbered(seed, n=40):
    draw = np.random.default_rng(seed)
    number = draw.normal(1e4, 2.0, n)
    return Examples({"number": number, "predicted_number": number + draw.normal(0, 1, n)})


def tagged(seed, n=40, labels=3, tags=7):
    """Sentences with some entities, of which a model finds most, and words with their tags."""
    draw = np.random.default_rng(seed)
    true, extra = draw.poisson(1.5, (n, labels)), draw.poisson(0.4, (n, labels))
    right = draw.binomial(true, 0.7)
    words = draw.poisson(2.0, (n, tags)) + 1
    hits = draw.binomial(words, 0.8)
    return Examples(
        {
            "entities": np.concatenate([right, true, right + extra], 1).astype(float),
            "tag_counts": np.concatenate([hits, words, words], 1).astype(float),
            "invalid": draw.poisson(0.5, n).astype(float),
        }
    )


def ranked(seed, n=40):
    draw = np.random.default_rng(seed)
    return Examples({"rank": 1 + draw.geometric(0.2, n) // 2})


def answered(seed, n=40):
    draw = np.random.default_rng(seed)
    there = draw.random(n) < 0.5
    f1 = np.where(there, draw.random(n), 0.0)
    held = {"margin": draw.normal(size=n), "threshold": np.full(n, 0.1), "span_f1": f1}
    return Examples(held | {"span_exact": f1.round(), "silent": 1.0 - there, "answerable": there})


TAGS = dict.fromkeys(("entities", "tag_counts", "invalid"), tagged)
MADE = (
    {"rank": ranked, "margin": answered, "generated": written}
    | TAGS
    | {
        "nats": counted,
        "words": counted,
        "label": classified,
        "labels": chosen_sets,
        "number": numbered,
    }
)


def examples_for(name, seed):
    return MADE[METRICS[name].needs[0]](seed)


SEEDS = st.integers(0, 10**6)


@settings(max_examples=40, derandomize=True)
@given(SEEDS, st.integers(2, 6))
def test_classes_as_scikit_learn_scores_them(seed, classes):
    found = classified(seed, classes=classes)
    label, said = found["label"], found["probabilities"].argmax(1)
    wanted = {
        "accuracy": sk.accuracy_score(label, said),
        "macro_f1": sk.f1_score(label, said, average="macro"),
        "matthews": sk.matthews_corrcoef(label, said),
    }
    for name, value in wanted.items():
        assert METRICS.build(name).value(found) == pytest.approx(value), name


@settings(max_examples=20, derandomize=True)
@given(SEEDS)
def test_sets_and_numbers_as_scikit_learn_scores_them(seed):
    sets = chosen_sets(seed)
    said = sets["chances"] > 0.5
    wanted = {
        "exact_sets": sk.accuracy_score(sets["labels"], said),
        "micro_f1": sk.f1_score(sets["labels"], said, average="micro"),
    }
    for name, value in wanted.items():
        assert METRICS.build(name).value(sets) == pytest.approx(value), name
    numbers = numbered(seed)
    pair = numbers["number"], numbers["predicted_number"]
    wanted = {
        "mean_squared_error": sk.mean_squared_error(*pair),
        "mean_absolute_error": sk.mean_absolute_error(*pair),
        "explained_variance": sk.r2_score(*pair),
    }
    for name, value in wanted.items():
        assert METRICS.build(name).value(numbers) == pytest.approx(value), name


@settings(max_examples=20, derandomize=True)
@given(SEEDS)
def test_correlations_as_scipy_computes_them(seed):
    """With ties, far from 0, and of no correlation where one side is constant."""
    draw = np.random.default_rng(seed)
    number = draw.integers(0, 6, 30) + 1e4
    said = np.round(number + draw.normal(0, 2, 30))
    found = Examples({"number": number, "predicted_number": said})
    assert METRICS.build("pearson").value(found) == pytest.approx(stats.pearsonr(said, number).statistic)
    assert METRICS.build("spearman").value(found) == pytest.approx(stats.spearmanr(said, number).statistic)
    constant = Examples({"number": number, "predicted_number": np.ones(30)})
    assert math.isnan(METRICS.build("spearman").value(constant))


def test_examples_that_share_a_passage_are_left_out_together():
    """Twenty queries that are ten, each asked twice, have the interval of the ten."""
    ten = ranked(5, n=10)
    twice = Examples({"rank": np.tile(ten["rank"], 2), CLUSTER: np.tile(np.arange(10)[::-1], 2)})
    metric = METRICS.build("reciprocal_rank")
    one, other = metric.interval(ten), metric.interval(twice)
    assert (one.low, one.high) == pytest.approx((other.low, other.high)) and other.n == 20
    alone = Examples({"rank": twice["rank"]})
    assert metric.interval(alone).high - metric.interval(alone).low < 0.8 * (one.high - one.low)
    recall = METRICS.build("recall_at_1").interval(twice)
    assert recall.high - recall.low > 0.3
    better = Examples({"rank": np.ones(20, int), CLUSTER: twice[CLUSTER]})
    halves = [Examples({name: x[:10] for name, x in e.columns.items()}) for e in (better, twice)]
    both, once = metric.difference(better, twice), metric.difference(*halves)
    assert (both.low, both.high) == pytest.approx((once.low, once.high))


def test_words_by_hand():
    found = Examples(
        {
            "nats": np.array([6.0, 0.0, 3.0]),
            "targets": np.array([2, 0, 1]),
            "bytes": np.array([8, 0, 4]),
            "words": np.array([4.0, 0.0, 2.0]),
        }
    )
    values = {name: METRICS.build(name).value(found) for name in ("loss", "perplexity", "bits_per_byte")}
    assert values == pytest.approx(
        {"loss": 3.0, "perplexity": math.exp(2), "bits_per_byte": 0.5 / math.log(2)}
    )
    assert METRICS.build("loss").interval(found).n == 2, "a text without a target is no example"


def test_calibration_by_hand():
    right, wrong = [0.9, 0.1], [0.1, 0.9]
    found = Examples({"label": np.zeros(4, int), "probabilities": np.array([right, right, right, wrong])})
    assert METRICS.build("calibration_error").value(found) == pytest.approx(0.9 - 0.75)
    sure = Examples({"label": np.array([0, 1]), "probabilities": np.array([[1.0, 0.0], [0.0, 1.0]])})
    assert METRICS.build("calibration_error").value(sure) == 0


def test_a_model_of_one_class_has_no_correlation_and_an_f1_that_shows_it():
    one = Examples({"label": np.array([0] * 7 + [1] * 3), "probabilities": np.tile([0.8, 0.2], (10, 1))})
    assert METRICS.build("matthews").value(one) == 0
    assert METRICS.build("accuracy").value(one) == 0.7
    assert METRICS.build("macro_f1").value(one) == pytest.approx(14 / 17 / 2)


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_says_what_it_is(name):
    metric = METRICS.build(name)
    assert metric.better in ("lower", "higher") and ":" in card(METRICS, name).summary
    found = examples_for(name, 1)
    assert metric.applies(found)
    assert not metric.applies(Examples({"other": np.ones(3)}))
    assert metric.value(found) == pytest.approx(float(metric.of(metric.parts(found).sum(0))))


@pytest.mark.parametrize("name", METRICS)
def test_influences_are_what_leaving_an_example_out_does(name):
    metric, found = METRICS.build(name), examples_for(name, 2)
    keep = ~np.eye(len(found), dtype=bool)
    left = [metric.value(Examples({c: v[rows] for c, v in found.columns.items()})) for rows in keep]
    n = len(found)
    wanted = math.sqrt((n - 1) / n) * (np.mean(left) - np.array(left))
    assert metric.influences(found) == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("name", [name for name in METRICS if name != "calibration_error"])
def test_intervals_hold_the_truth_as_often_as_they_say(name):
    """Samples of 80 out of 4000 examples. Not of calibration error: |·| makes small ones too large."""
    metric = METRICS.build(name)
    make = MADE[metric.needs[0]]
    whole = make(7, n=4000)
    truth, draw = metric.value(whole), np.random.default_rng(0)
    held = 0
    for _ in range(400):
        rows = draw.choice(4000, 80)
        found = metric.interval(Examples({c: v[rows] for c, v in whole.columns.items()}))
        held += found.low <= truth <= found.high
    assert 0.90 <= held / 400 <= 0.985


def test_wilsons_interval_is_the_one_that_solves_its_equation():
    for right, n in ((0, 10), (3, 10), (10, 10), (620, 1000)):
        low, high = wilson(right, n)
        share = right / n
        for end in (low, high):
            assert abs(share - end) == pytest.approx(1.959964 * math.sqrt(end * (1 - end) / n), abs=1e-6)


def test_students_reach_and_unequal_weights():
    assert t_reach(10, 0.05) == pytest.approx(2.228139, abs=1e-5)
    assert freedom_of(np.ones(11)) == 10
    assert freedom_of(np.array([1.0, 0, 0, 1.0])) == 1, "two that count"


def test_a_metric_of_ones_own_is_a_function_and_a_line():
    def distance(examples):
        """Distance: how far the most probable class is from the right one, as numbers."""
        return np.abs(examples["probabilities"].argmax(1) - examples["label"]).astype(float)

    METRICS.register("distance", mean_of(distance, better="lower", needs=("label", "probabilities")))
    try:
        found = classified(3)
        metric = METRICS.build("distance")
        assert metric.value(found) == pytest.approx(distance(found).mean())
        estimate = metric.interval(found)
        assert estimate.low < estimate.value < estimate.high
        assert card(METRICS, "distance").summary.startswith("Distance: how far")
    finally:
        METRICS.unregister("distance")


def test_columns_of_unequal_length_are_refused():
    with pytest.raises(ValueError, match="equally long"):
        Examples({"a": np.ones(2), "b": np.ones(3)})


def test_all_alike_is_no_certainty():
    """Thirty right of thirty is not a score of 1 without a doubt."""
    label = np.arange(30) % 3
    right = Examples({"label": label, "probabilities": np.eye(3)[label] * 0.9 + 0.1 / 3})
    for name in ("macro_f1", "matthews"):
        found = METRICS.build(name).interval(right)
        assert found.value == 1 and math.isnan(found.low) and math.isnan(found.high), name
    share = METRICS.build("accuracy").interval(right)
    assert (share.low, share.high) == pytest.approx(wilson(30, 30)) and share.low < 0.9
    flags = np.eye(3, dtype=bool)[label]
    sets = Examples({"labels": flags, "chances": flags * 0.8 + 0.1})
    assert all(math.isnan(METRICS.build(name).interval(sets).low) for name in ("exact_sets", "micro_f1"))


@pytest.mark.parametrize("name", METRICS)
def test_no_interval_goes_beyond_what_a_metric_can_be(name):
    """Of two or three examples a straight line would."""
    metric = METRICS.build(name)
    low, high = metric.limits
    for seed in range(40):
        few = MADE[metric.needs[0]](seed, n=3)
        if metric.applies(few):
            found = metric.interval(few)
            assert not found.low < low and not found.high > high
            assert not low > found.value and not found.value > high
