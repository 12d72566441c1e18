"""Intervals over seeds and of paired differences a second time: quiet for healthy ones, and faults named."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtri

import attnlab.evaluation.paired_results as paired_results
import attnlab.evaluation.spread as spread
from attnlab.checks.plain_differences import unconfirmed_difference, unconfirmed_mean
from attnlab.evaluation.documents import DocumentLosses
from attnlab.evaluation.statistics import SeedResult, compare, mean_of_seeds
from attnlab.metrics import METRICS
from attnlab.studies.judgement import estimate
from tests.evaluation.simulated import World

ANY = (-math.inf, math.inf)


def classified(random, *, n, skill, clusters=0):
    """What a classifier of three classes says of n texts, right with this chance."""
    labels = np.arange(n) % 3
    right = random.random(n) < skill
    guess = np.where(right, labels, (labels + 1) % 3)
    probabilities = np.full((n, 3), 0.1)
    probabilities[np.arange(n), guess] = 0.8
    said = {"label": labels, "probabilities": probabilities}
    said |= {"cluster": np.arange(n) % clusters} if clusters else {}
    return DocumentLosses(random.gamma(2.0, size=n), np.ones(n), np.zeros(n), said=said)


def of_classes(metric, *, seeds=4, n=300, clusters=0, seed=0):
    """Two arms that classify the same texts, one a little better."""
    random = np.random.default_rng(seed)
    arms = {}
    for arm, skill in (("baseline", 0.6), ("arm", 0.7)):
        documents = [classified(random, n=n, skill=skill, clusters=clusters) for _ in range(seeds)]
        built = METRICS.build(metric)
        arms[arm] = [SeedResult(s, built.value(d.examples), d) for s, d in enumerate(documents)]
    return arms


def doubt(arms, metric):
    (comparison,) = compare(arms, "baseline", metric=metric)
    return unconfirmed_difference(comparison, arms["arm"], arms["baseline"])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("metric", ["loss", "perplexity", "bits_per_byte"])
def test_differences_of_losses_are_confirmed(seed, metric):
    world = World(seeds=2 + seed % 4, texts=(8, 40, 400, 3000)[seed % 4])
    arms = world.study(np.random.default_rng(seed), arm=0.01)
    built = METRICS.build(metric)
    arms = {
        name: [SeedResult(r.seed, built.value(r.documents.examples), r.documents) for r in results]
        for name, results in arms.items()
    }
    assert doubt(arms, metric) is None


@pytest.mark.parametrize("metric", ["accuracy", "macro_f1", "matthews", "calibration_error"])
@pytest.mark.parametrize(
    "shape", [{"n": 30}, {"n": 300}, {"seeds": 2}, {"seeds": 1}, {"clusters": 12}, {"clusters": 5}]
)
def test_differences_of_classifiers_are_confirmed(metric, shape):
    assert doubt(of_classes(metric, **shape), metric) is None


def test_without_texts_it_is_the_t_interval_of_scipy():
    a, b = [3.10, 3.05, 3.12, 3.08], [3.00, 2.99, 3.05, 3.01]
    arms = {"baseline": [SeedResult(*x) for x in enumerate(b)], "arm": [SeedResult(*x) for x in enumerate(a)]}
    assert doubt(arms, "seconds") is None
    (comparison,) = compare(arms, "baseline", metric="seconds")
    theirs = stats.ttest_rel(a, b).confidence_interval()
    for factor, quiet in ((1.05, True), (1.2, False), (0.85, False)):
        half = (theirs.high - theirs.low) / 2 * factor
        other = dataclasses.replace(
            comparison, low=comparison.difference - half, high=comparison.difference + half
        )
        assert (unconfirmed_difference(other, arms["arm"], arms["baseline"]) is None) == quiet


def spread_with(**changes):
    """The spread of a difference with a wrong part, given by a function of what it should be."""
    plain = spread.spread_between

    def wrong(differences, *texts):
        right = plain(differences, *texts)
        return dataclasses.replace(
            right, **{name: made(right, differences) for name, made in changes.items()}
        )

    return paired_results, "spread_between", wrong


BY_SEED, BY_TEXT = World(seeds=4, texts=300, by_seed=0.3), World(seeds=4, texts=300, by_seed=0.0, by_text=0.8)
FAULTS = {
    "a normal's quantile": (BY_SEED, (spread, "t_reach", lambda freedom, missing: -ndtri(missing / 2))),
    "a deviation by n": (BY_SEED, spread_with(seeds=lambda right, differences: float(differences.std()))),
    "an error for a deviation": (BY_SEED, spread_with(seeds=lambda right, differences: right.seeds / 2)),
    "no texts": (BY_TEXT, spread_with(texts=lambda right, differences: 0.0)),
    "texts of every seed added": (BY_TEXT, (spread, "error_over_texts", lambda u: np.sqrt((u**2).sum()))),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_interval_is_named(fault, monkeypatch):
    world, patch = FAULTS[fault]
    arms = world.study(np.random.default_rng(3), arm=0.02)
    assert doubt(arms, "loss") is None
    monkeypatch.setattr(*patch)
    reason = doubt(arms, "loss")
    assert reason is not None and "computed a second time" in str(reason)


def test_seeds_that_are_paired_with_others_are_named():
    base, arm = ([SeedResult(*each) for each in enumerate(v)] for v in ([1.0, 2, 3, 4], [1.1, 2.2, 3.1, 4.2]))
    turned = [dataclasses.replace(result, seed=3 - result.seed) for result in base]
    (comparison,) = compare({"baseline": turned, "arm": arm}, "baseline", metric="seconds")
    assert unconfirmed_difference(comparison, arm, turned) is None
    assert unconfirmed_difference(comparison, arm, base) is not None


def test_a_p_value_that_contradicts_its_interval_is_named():
    arms = World(seeds=5, texts=300).study(np.random.default_rng(1), arm=0.2)
    (comparison,) = compare(arms, "baseline", metric="loss")
    assert comparison.p < 0.05
    wrong = dataclasses.replace(comparison, p=0.3)
    assert unconfirmed_difference(wrong, arms["arm"], arms["baseline"]) is not None


# ---------------------------------------------------------------- means
@pytest.mark.parametrize("values", [[3.1], [3.1, 3.3], [3.1, 3.3, 2.9, 3.0, 3.2]])
def test_means_are_confirmed(values):
    about = {"measure": "loss", "arm": "a", "limits": ANY}
    estimate = mean_of_seeds(values)
    assert unconfirmed_mean(values, estimate, **about) is None
    half = 0.8 * (estimate.high - estimate.value)
    narrow = dataclasses.replace(estimate, low=estimate.value - half, high=estimate.value + half)
    assert (unconfirmed_mean(values, narrow, **about) is None) == (len(values) == 1)
    moved = dataclasses.replace(estimate, value=estimate.value + 0.01)
    assert "the mean loss of a" in str(unconfirmed_mean(values, moved, **about))


def test_ends_stop_at_what_a_measure_can_be():
    values = [0.99, 0.9]
    estimate = dataclasses.replace(mean_of_seeds(values), high=1.0, low=0.3728)
    about = {"measure": "accuracy", "arm": "a", "limits": (0.0, 1.0)}
    assert unconfirmed_mean(values, estimate, **about) is None
    assert unconfirmed_mean(values, dataclasses.replace(estimate, high=0.96), **about) is not None


def test_perplexity_over_seeds_is_confirmed_as_that_of_the_mean_loss():
    values = [10.0, 12.0, 11.0]
    about = {"measure": "perplexity", "arm": "a", "limits": (0.0, math.inf)}
    assert unconfirmed_mean(values, estimate(values, of="perplexity"), **about) is None
    assert unconfirmed_mean(values, mean_of_seeds(values), **about) is not None
