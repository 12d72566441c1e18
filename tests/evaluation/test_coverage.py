"""Simulated studies with a known truth: intervals cover as they claim, and error rates hold."""

import itertools

import numpy as np
import pytest
from scipy import stats

from attnlab.evaluation.comparison import Verdict
from attnlab.evaluation.paired_results import SeedResult
from attnlab.evaluation.spread import error_over_texts, half_width
from attnlab.evaluation.statistics import compare, smallest_difference
from attnlab.metrics import METRICS
from attnlab.metrics.metric import freedom_of, jackknife, t_reach
from tests.evaluation.simulated import World

SOURCES = {  # which of the three is how large: seeds, texts, the rest
    "seeds alone": (0.02, 0.0, 0.0),
    "seeds and few differences between texts": (0.02, 0.05, 0.05),
    "as much from seeds as from texts": (0.02, 0.12, 0.05),
    "texts above all": (0.002, 0.3, 0.05),
    "every text its own luck in every seed": (0.0, 0.1, 0.3),
}


def influences(nats, sizes):
    """(…, n) of each text on the loss over all of them."""
    return jackknife(np.stack([nats, sizes], -1), METRICS.build("loss").of)


def world(source, **changes):
    by_seed, by_text, rest = SOURCES[source]
    return World(by_seed=by_seed, by_text=by_text, rest=rest, **changes)


def measured(world, rng, repetitions):
    """Differences (R,S) of two equal arms, and the influences (R,S,n) and sizes (R,n) of their texts."""
    shape = (repetitions,)
    sizes, ease = world.sizes_of_texts(rng, shape), world.ease(rng, shape)
    a, b = (world.arm(rng, sizes, ease) for _ in range(2))
    u = [influences(nats, np.broadcast_to(sizes, nats.shape)) for nats in (a, b)]
    differences = (a - b).sum(-1) / sizes.sum(-1)
    return differences, u[0] - u[1], sizes[:, 0]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("seeds", [2, 3, 5, 10])
def test_intervals_cover_what_they_claim(source, seeds):
    """Never less than the level by more than chance; with few seeds and a mixture rather more than it."""
    rng, repetitions = np.random.default_rng(seeds), 2000
    differences, u, sizes = measured(world(source, seeds=seeds), rng, repetitions)
    half = half_width(differences.std(1, ddof=1), error_over_texts(u), freedom_of(sizes), seeds, 0.05)
    covered = (np.abs(differences.mean(1)) <= half).mean()
    assert 0.935 <= covered <= (0.975 if seeds >= 5 else 0.995), covered


def test_what_is_left_out_shows():
    """The usual shortcuts do not cover: a bootstrap over five seeds, and either source by itself."""
    rng = np.random.default_rng(0)
    differences, _, _ = measured(world("as much from seeds as from texts"), rng, 2000)
    by_seeds = t_reach(4, 0.05) * differences.std(1, ddof=1) / np.sqrt(5)
    assert (np.abs(differences.mean(1)) <= by_seeds).mean() < 0.7
    differences, u, sizes = measured(world("seeds and few differences between texts"), rng, 2000)
    by_texts = t_reach(freedom_of(sizes), 0.05) * np.sqrt((u.mean(1) ** 2).sum(1))
    assert (np.abs(differences.mean(1)) <= by_texts).mean() < 0.88
    alone, *_ = measured(world("seeds alone"), rng, 2000)
    every = np.array(list(itertools.combinations_with_replacement(range(5), 5)))  # all resamples of five
    weight = np.array([stats.multinomial.pmf(np.bincount(r, minlength=5), 5, np.full(5, 0.2)) for r in every])
    means = alone[:, every].mean(-1)
    order = means.argsort(1)
    below = np.take_along_axis(np.broadcast_to(weight, means.shape), order, 1).cumsum(1)
    ranked = np.take_along_axis(means, order, 1)
    low = np.take_along_axis(ranked, (below < 0.025).sum(1)[:, None], 1)[:, 0]
    high = np.take_along_axis(ranked, (below < 0.975).sum(1)[:, None], 1)[:, 0]
    assert ((low <= 0) & (high >= 0)).mean() < 0.88


@pytest.mark.parametrize("count", [1, 2, 4])
def test_arms_without_a_difference_are_seldom_given_one(count):
    """Over all arms of a study together: better or worse is said in at most 5 of 100 studies."""
    rng, repetitions = np.random.default_rng(count), 800 // count
    effects = {f"arm {n}": 0.0 for n in range(count)}
    studies = (world("as much from seeds as from texts").study(rng, **effects) for _ in range(repetitions))
    found = [[c.verdict for c in compare(study, "baseline", metric="loss")] for study in studies]
    assert np.mean([any(v in ("better", "worse") for v in verdicts) for verdicts in found]) <= 0.05
    said = {v.rsplit(" ", 1)[0] for verdicts in found for v in verdicts}
    assert said <= {"better", "worse", "inconclusive", "no difference larger than"}


def scalars(values):
    return [SeedResult(seed, float(value)) for seed, value in enumerate(values)]


def test_the_error_rate_holds_for_plain_numbers():
    """Without texts, four arms: the family-wise error is that of Holm, and without it three times as much."""
    rng, repetitions = np.random.default_rng(0), 1000
    any_said, any_alone = [], []
    for _ in range(repetitions):
        base = rng.normal(100, 1, 5)
        arms = {f"arm {n}": scalars(base + rng.normal(0, 1, 5)) for n in range(4)}
        found = compare({"baseline": scalars(base), **arms}, "baseline", metric="seconds")
        any_said.append(any(c.verdict in ("better", "worse") for c in found))
        any_alone.append(any(c.p < 0.05 for c in found))
    assert 0.02 <= np.mean(any_said) <= 0.064
    assert np.mean(any_alone) > 0.12


@pytest.mark.parametrize(("seeds", "count"), [(3, 1), (5, 1), (5, 3), (10, 2)])
def test_planted_differences_are_found_as_often_as_stated(seeds, count):
    rng, repetitions = np.random.default_rng(seeds), 400
    place = world("seeds and few differences between texts", seeds=seeds, sizes=0.0, texts=60)
    effect = smallest_difference(place.spread, seeds=seeds, comparisons=count)
    effects = {"worse": effect} | {f"equal {n}": 0.0 for n in range(count - 1)}
    verdicts = [
        compare(place.study(rng, **effects), "baseline", metric="loss")[0].verdict for _ in range(repetitions)
    ]
    assert np.mean([v == "worse" for v in verdicts]) == pytest.approx(0.8, abs=0.06)
    assert "better" not in verdicts


def test_the_smallest_difference_is_told_from_the_study_itself():
    """From each study's own spread: on average about the true one."""
    rng = np.random.default_rng(0)
    place = world("seeds and few differences between texts", sizes=0.0)
    found = [compare(place.study(rng, arm=0.0), "baseline", metric="loss")[0].smallest for _ in range(200)]
    assert np.median(found) == pytest.approx(smallest_difference(place.spread, seeds=5), rel=0.15)


def test_no_difference_is_seldom_said_of_one_that_matters():
    """A true difference of the margin is taken for none in at most 1 of 40; none at all, nearly always."""
    rng, repetitions = np.random.default_rng(0), 500
    place = World(by_seed=0.01, by_text=0.02, rest=0.02)

    def share(effect):
        studies = (place.study(rng, arm=effect) for _ in range(repetitions))
        found = (compare(study, "baseline", metric="loss", margin=0.04)[0].verdict for study in studies)
        return np.mean([verdict is Verdict.SAME for verdict in found])

    assert share(0.04) <= 0.04
    assert share(0.0) >= 0.95


@pytest.mark.parametrize(("texts", "least"), [(20, 0.925), (60, 0.935), (300, 0.94)])
def test_a_loss_covers_other_texts_like_these(texts, least):
    """Texts of very unequal length, and the loss of a text falls with its length."""
    rng = np.random.default_rng(texts)

    def drawn(*shape):
        sizes = np.exp(rng.normal(4, 0.8, shape))
        return sizes * (4 - 0.2 * (np.log(sizes) - 4) + rng.normal(0, 0.6, shape)), sizes

    truth = 4 - 0.2 * 0.8**2  # a token is more often of a long text: the mean of log size, weighed by size
    nats, sizes = drawn(3000, texts)
    error = np.sqrt((influences(nats, sizes) ** 2).sum(-1))
    half = t_reach(freedom_of(sizes), 0.05) * error
    covered = (np.abs(nats.sum(-1) / sizes.sum(-1) - truth) <= half).mean()
    assert least <= covered <= 0.965, covered
