"""Statistics against scipy and against the slow way; verdicts, and what is refused."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

from attnlab.evaluation.documents import DocumentLosses
from attnlab.evaluation.spread import Spread, error_over_texts, influences_of, spread_between
from attnlab.evaluation.statistics import (
    SeedResult,
    compare,
    holm,
    loss_interval,
    mean_of_seeds,
    smallest_difference,
    spread_of,
)
from tests.evaluation.simulated import World

A = [3.10, 3.05, 3.12, 3.08, 3.02]
B = [3.00, 2.99, 3.05, 3.01, 2.98]


def scalars(values):
    return [SeedResult(seed, value) for seed, value in enumerate(values)]


def study(seed=0, world=None, **effects):
    return (world or World()).study(np.random.default_rng(seed), **effects)


def only(arms, metric="loss", **options):
    (found,) = compare(arms, "baseline", metric=metric, **options)
    return found


def test_a_mean_is_scipys():
    found = mean_of_seeds(A)
    low, high = stats.t.interval(0.95, 4, np.mean(A), stats.sem(A))
    assert (found.value, found.low, found.high, found.n) == pytest.approx((np.mean(A), low, high, 5))
    one = mean_of_seeds([3.0])
    assert one.value == 3.0 and math.isnan(one.low) and math.isnan(one.high)


def test_without_texts_it_is_the_paired_t_test():
    found = only({"baseline": scalars(B), "arm": scalars(A)}, "seconds")
    theirs = stats.ttest_rel(A, B)
    interval = theirs.confidence_interval()
    assert (found.p, found.low, found.high) == pytest.approx((theirs.pvalue, interval.low, interval.high))
    assert found.difference == pytest.approx(0.068) and found.documents == 0
    assert found.verdict == "worse"
    assert found.words == "worse: seconds +0.068 (95% from +0.041 to +0.095), p = 0.0022"


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    assert holm([0.2]) == pytest.approx([0.2]) and len(holm([])) == 0


@pytest.mark.parametrize("seeds", [3, 5, 10])
@pytest.mark.parametrize("comparisons", [1, 3])
def test_the_smallest_difference_is_that_of_the_noncentral_t(seeds, comparisons):
    found = smallest_difference(Spread(0.3), seeds=seeds, comparisons=comparisons)
    critical = stats.t.isf(0.025 / comparisons, seeds - 1)
    assert stats.nct.sf(critical, seeds - 1, found / 0.3 * math.sqrt(seeds)) == pytest.approx(0.8, abs=1e-3)
    assert math.isnan(smallest_difference(Spread(0.3), seeds=1))


def test_p_is_where_the_interval_reaches_zero():
    spread = Spread(0.02, 0.01, 50)
    for difference in (0.001, -0.02, 0.1):
        p = spread.p(difference, 5)
        assert spread.half_width(5, 1 - p) == pytest.approx(abs(difference))
    assert spread.p(1e6, 5) == 1e-15


OF_WORDS = ("loss", "perplexity", "bits_per_byte")


def columns(documents):
    return documents.nats, documents.targets, documents.bytes


@pytest.mark.parametrize("metric", OF_WORDS)
def test_influences_are_what_leaving_out_each_text_does(metric):
    documents = study()["baseline"][0].documents
    n, without = len(documents), []
    for text in range(n):
        rest = [np.delete(column, text) for column in columns(documents)]
        without.append(getattr(DocumentLosses(*rest), metric))
    variance = (n - 1) / n * sum((w - np.mean(without)) ** 2 for w in without)
    (u,) = influences_of([documents], metric)
    assert (u**2).sum() == pytest.approx(variance)
    # and that is what resampling texts gives
    rng = np.random.default_rng(0)
    drawn = [rng.integers(n, size=n) for _ in range(4000)]
    again = [getattr(DocumentLosses(*(c[d] for c in columns(documents))), metric) for d in drawn]
    assert np.std(again) == pytest.approx(math.sqrt(variance), rel=0.12)
    if metric != "perplexity":
        interval = loss_interval(documents, metric)
        freedom = documents.targets.sum() ** 2 / (documents.targets**2).sum() - 1
        assert interval.high - interval.value == pytest.approx(
            stats.t.isf(0.025, freedom) * math.sqrt(variance)
        )


def test_perplexity_has_the_interval_of_the_loss():
    documents = study()["baseline"][0].documents
    loss, perplexity = loss_interval(documents), loss_interval(documents, "perplexity")
    assert math.log(perplexity.low) == pytest.approx(loss.low)
    assert math.log(perplexity.high) == pytest.approx(loss.high)
    assert perplexity.value == documents.perplexity


def test_the_variance_over_texts_is_that_of_a_two_way_table():
    """Mean squares by hand: what texts share over seeds, without what they do not."""
    u = np.random.default_rng(0).normal(size=(5, 30))
    u += np.random.default_rng(1).normal(size=30)
    u -= u.mean(1, keepdims=True)
    texts, rest = 0.0, 0.0
    for d in range(30):
        texts += 5 * np.mean(u[:, d]) ** 2 / 29
        rest += sum((u[s, d] - np.mean(u[:, d])) ** 2 for s in range(5)) / (29 * 4)
    wanted = (texts - rest) / (5 * 30)
    scale = math.sqrt(29 * 30)  # influences are deviations of a mean of 30, as the jackknife scales them
    assert float(error_over_texts(u / scale)) ** 2 == pytest.approx(wanted)


def test_pairs_are_by_seed_and_by_text():
    arms = study(arm=0.02)
    found = only(arms)
    turned = only({"baseline": arms["baseline"][::-1], "arm": arms["arm"]})
    assert (turned.low, turned.high) == (found.low, found.high)
    shifted = [dataclasses.replace(r, seed=(r.seed + 1) % 5) for r in arms["arm"]]
    assert only({"baseline": arms["baseline"], "arm": shifted}).spread.seeds != found.spread.seeds
    # another order of the texts breaks the pairs: what is easy for both no longer cancels
    order = np.random.default_rng(0).permutation(40)
    mixed = [
        SeedResult(r.seed, r.value, DocumentLosses(*(c[order] for c in columns(r.documents))))
        for r in arms["arm"]
    ]
    assert only({"baseline": arms["baseline"], "arm": mixed}).spread.texts > 3 * found.spread.texts


@pytest.mark.parametrize("metric", OF_WORDS)
def test_every_ratio_is_compared(metric):
    arms = {
        name: [SeedResult(r.seed, getattr(r.documents, metric), r.documents) for r in results]
        for name, results in study(arm=-0.2).items()
    }
    found = only(arms, metric)
    assert found.verdict == "better" and found.documents == 40 and found.seeds == 5
    assert found.low < found.difference < found.high < 0
    loss = spread_of(study(arm=-0.2)["arm"], study(arm=-0.2)["baseline"], metric="loss")
    if metric != "perplexity":  # whose difference is larger on hard texts, so these add to it
        scale = {"loss": 1.0, "bits_per_byte": 0.25 / math.log(2)}[metric]
        assert found.spread.texts == pytest.approx(loss.texts * scale)
        assert found.spread.seeds == pytest.approx(loss.seeds * scale)


def test_the_side_that_is_better_is_the_metrics_own():
    arms = {"baseline": scalars(B), "arm": scalars(A)}
    assert only(arms, "accuracy", lower_is_better=False).verdict == "better"
    assert only(arms, "seconds").verdict == "worse"


def test_identical_is_equal_to_the_bit():
    arms = study()
    arms["same"] = [dataclasses.replace(r) for r in arms["baseline"]]
    found = only(arms)
    assert found.verdict == "identical" and (found.low, found.high, found.p) == (0, 0, 1)
    assert found.words == "identical: every text's loss is bit-identical in 5 seeds"
    held = arms["same"][2].documents
    nats = held.nats * (1 + 1e-15 * np.arange(40))
    moved = DocumentLosses(nats, held.targets, held.bytes)
    arms["same"][2] = SeedResult(2, moved.loss, moved)
    assert only(arms).words.startswith("no difference larger than 0.01: ")
    one = {"baseline": scalars([3.0]), "arm": scalars([3.0])}
    assert only(one, "seconds").words == "identical: seconds is bit-identical in 1 seed"


def test_identical_arms_are_not_corrected_for():
    arms = {"baseline": scalars(B), "arm": scalars(A)}
    alone = only(arms, "seconds")
    both = compare(arms | {"same": scalars(B)}, "baseline", metric="seconds")
    assert both[0].p_corrected == alone.p_corrected == alone.p and both[1].verdict == "identical"


@pytest.mark.parametrize("effect", [0.0, 0.5])
def test_one_seed_never_says_better_or_worse(effect):
    found = only(study(world=World(seeds=1), arm=effect))
    assert found.verdict == "inconclusive" and math.isnan(found.low) and math.isnan(found.p)
    assert math.isnan(found.smallest)
    assert "one seed, so seed noise is unknown" in found.words
    assert "over 40 texts for these two models only" in found.words
    plain = only({"baseline": scalars([1.0]), "arm": scalars([2.0])}, "seconds")
    assert plain.words == "inconclusive: one seed, so seed noise is unknown; seconds +1.00"


def test_a_difference_without_spread_is_not_taken_for_certain():
    few = only({"baseline": scalars([1.0] * 3), "arm": scalars([2.0] * 3)}, "accuracy")
    assert few.p == 0.25 and few.verdict == "inconclusive" and math.isnan(few.high)
    assert "the same in all 3 seeds, so there is no spread to test it against" in few.words
    many = only({"baseline": scalars([1.0] * 7), "arm": scalars([2.0] * 7)}, "seconds")
    assert many.verdict == "worse"


def test_an_invalid_arm_gets_its_numbers_and_no_claim():
    arms = study(leaky=-1.0, good=-0.3, other=0.0)
    alone = compare({k: v for k, v in arms.items() if k != "leaky"}, "baseline", metric="loss")
    found = compare(arms, "baseline", metric="loss", invalid={"leaky": ["dependency"]})
    assert found[0].verdict == "invalid" and found[0].difference == pytest.approx(-1, abs=0.1)
    assert found[0].words.startswith("invalid: dependency failed, so the difference in loss (−")
    assert [c.words for c in found[1:]] == [c.words for c in alone]
    bad_base = compare(arms, "baseline", metric="loss", invalid={"baseline": ["dependency"]})
    assert {c.verdict for c in bad_base} == {"invalid"}


def test_what_correction_takes_away_is_said():
    arms = {"baseline": scalars(B)}
    arms |= {"arm": scalars(np.add(B, [0.01, 0.04, 0.05, 0.02, 0.03]))}
    alone = only(arms, "seconds")
    assert alone.verdict == "worse" and alone.p == pytest.approx(0.0133, abs=1e-4)
    noise = {f"{n}": scalars(np.add(B, np.roll([0.3, -0.3, 0.2, -0.2, 0.1], n))) for n in range(4)}
    found = compare(arms | noise, "baseline", metric="seconds")[0]
    assert found.verdict == "inconclusive" and found.p_corrected == pytest.approx(5 * alone.p)
    assert "p = 0.013 before correction, not significant among 5 comparisons" in found.words


def test_the_margin_decides_what_is_no_difference():
    arms = study(world=World(by_seed=0.001, by_text=0.001, rest=0.001), arm=0.005)
    found = only(arms)
    assert found.verdict == "worse" and found.words.endswith(
        "; smaller than 0.01, the smallest difference that matters"
    )
    wide = study(seed=3, world=World(by_seed=0.02), arm=0.0)
    assert only(wide).verdict == "inconclusive"
    assert only(wide, margin=0.2).verdict == "no difference"
    assert only(wide, margin=0.2).words.startswith("no difference larger than 0.2: ")
    with pytest.raises(ValueError, match="margin is -1"):
        only(wide, margin=-1)


def test_one_text_says_nothing_of_others():
    documents = DocumentLosses(np.array([30.0]), np.array([10]), np.array([50]))
    assert math.isnan(loss_interval(documents).low) and loss_interval(documents).value == 3.0
    values = np.array([0.1, 0.2, 0.15])
    assert spread_between(values, [documents] * 3, [documents] * 3, "loss") == Spread(values.std(ddof=1))


def test_a_row_is_what_a_table_shows():
    row = only(study(arm=-0.3)).as_json()
    assert row["verdict"] == "better" and row["arm"] == "arm" and row["words"].startswith("better: loss −0.2")
    assert all(isinstance(value, str | int | float | list | None) for value in row.values())
    assert row["spread_seeds"] > 0 and row["spread_texts"] > 0
    assert only(study(world=World(seeds=1), arm=0.1)).as_json()["low"] is None


def test_what_cannot_be_paired_is_refused():
    good = study(arm=0.0)
    with pytest.raises(
        ValueError, match=r'"arm" has seeds 0, 1, 2 and 3, the baseline "baseline" has 0, 1, 2'
    ):
        only(good | {"arm": good["arm"][:4]})
    with pytest.raises(ValueError, match="has seeds 0, 1, 2, 3 and 9"):
        only(good | {"arm": [*good["arm"][:4], dataclasses.replace(good["arm"][4], seed=9)]})
    with pytest.raises(ValueError, match="needs seeds, each once; it has 0 and 0"):
        only({"baseline": [SeedResult(0, 1.0)] * 2, "arm": [SeedResult(0, 1.0)] * 2}, "seconds")
    for bad in (math.nan, math.inf):
        with pytest.raises(ValueError, match=r'of the seeds of "arm" must be finite'):
            only({"baseline": scalars(B), "arm": scalars([*A[:4], bad])}, "seconds")
        with pytest.raises(ValueError, match="must be finite"):
            mean_of_seeds([1.0, bad])
    with pytest.raises(ValueError, match="not judged on the same texts: 30 and 40 of them"):
        only(good | {"arm": study(world=World(texts=30))["baseline"]})
    with pytest.raises(ValueError, match="40 and none of them"):
        only(good | {"arm": scalars(A)})
    with pytest.raises(ValueError, match="its texts come to"):
        only(good | {"arm": [dataclasses.replace(r, value=r.value + 0.1) for r in good["arm"]]})
    with pytest.raises(ValueError, match='The baseline "other" is not among the arms: baseline, arm'):
        compare(good, "other", metric="loss")
    with pytest.raises(
        ValueError, match='"seconds" is not a metric of these texts; those are loss, perplexity'
    ):
        loss_interval(good["arm"][0].documents, "seconds")
