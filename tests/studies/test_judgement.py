"""What may not stand side by side: other text, tokens, order, measure."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from attnlab.config.values import ConfigError
from attnlab.evaluation.comparability import Basis, comparability, unspelt
from attnlab.evaluation.comparison import Comparison
from attnlab.evaluation.spread import Spread
from attnlab.metrics.measures import measures
from attnlab.runs.findings import Finding
from attnlab.runs.reason import Reason
from attnlab.runs.result import RunResult
from attnlab.runs.summary import read_summary, runs_in
from attnlab.studies.judgement import comparable, comparisons, estimate
from attnlab.studies.side_by_side import side_by_side
from tests.studies.records import arm, comparison, verdict_of
from tests.studies.small_study import study

SAME = {
    "text": "t",
    "data": {"train": "a", "dev": "b"},
    "tokenizer": "w",
    "order": "o",
    "task": {"kind": "causal"},
}


MEASURED = {"loss": 3.0, "targets": 100, "bits_per_byte": 1.0}


def unequal(one, other, *, metric, changed=()):
    bases = [Basis.of_fingerprints(prints, metrics=MEASURED) for prints in (one, other)]
    found = comparability(*bases, metric=metric, changed=changed)
    return [str(reason) for reason in (*found.reasons, *found.doubts)]


def run(arm, seed, loss, **changes):
    fingerprints = SAME | {"order": f"o{seed}"} | changes
    metrics = {"loss": loss, "bits_per_byte": loss / 3, "seconds": 1.0}
    return RunResult(
        arm=arm,
        seed=seed,
        status="finished",
        folder=f"runs/{arm}/seed-{seed}",
        metrics=metrics,
        fingerprints=fingerprints,
    )


def test_equals_are_equal_and_each_difference_is_named():
    assert unequal(SAME, dict(SAME), metric="loss") == []
    for change, metric, words in (
        ({"tokenizer": "x", "data": {"train": "c", "dev": "d"}}, "loss", "tokenizers differ"),
        ({"data": {"train": "a", "dev": "d"}}, "loss", "different dev examples"),
        ({"text": "u", "tokenizer": "x", "data": {"dev": "d"}}, "bits_per_byte", "different dev examples"),
        ({"data": {"train": "c", "dev": "b"}}, "loss", "trained on different examples"),
        ({"order": "p"}, "loss", "another order"),
        ({"task": {"kind": "masked"}}, "loss", "tasks differ"),
        ({"data": None}, "loss", "different dev examples"),
    ):
        assert any(words in reason for reason in unequal(SAME, SAME | change, metric=metric)), change


def test_bits_per_byte_survives_another_tokenizer_where_the_arm_changes_it_on_purpose():
    other = SAME | {"tokenizer": "x", "data": {"train": "c", "dev": "d"}, "order": "p"}
    changed = ["data.tokenizer"]
    assert unequal(SAME, other, metric="bits_per_byte", changed=changed) == []
    assert unequal(SAME, other, metric="loss", changed=changed) != []


def test_an_arm_that_was_judged_on_other_text_is_not_compared(tmp_path):
    given = study(
        tmp_path, arms={"a": {}, "b": {"model.heads": 1}, "c": {"model.layers": 1}}, metric="seconds"
    )
    runs = [run(arm, seed, 2.0 + seed) for arm in "ab" for seed in (0, 1)]
    runs += [run("c", seed, 1.0, data={"train": "a", "dev": "other"}) for seed in (0, 1)]
    rows, notes = comparisons(given, runs, tmp_path, measures())
    assert [row.arm for row in rows] == ["b"]
    said = "c is not compared with a: they were judged on different dev examples."
    assert [*map(str, notes)] == [said]
    assert verdict_of(given, [arm("c")], rows, notes).endswith(said), "the verdict says why"


def test_a_baseline_that_ended_alone_is_not_called_unfinished(tmp_path):
    """`attnlab run --only BASELINE`."""
    given = study(tmp_path, arms={"a": {}, "b": {"model.heads": 1}})
    told = [verdict_of(given, [arm("a", state)], []) for state in ("finished", "missing")]
    assert told[0] == "No verdict yet: a ended, with nothing to be compared with."
    assert told[1] == "No verdict yet: no run has ended."


def test_an_arm_with_another_tokenizer_is_compared_by_bits_per_byte(tmp_path):
    arms = {"a": {}, "b": {"model.heads": 1}, "c": {"data.tokenizer": "character"}}
    given = study(tmp_path, arms=arms)
    other = {"tokenizer": "x", "data": {"train": "c", "dev": "d"}, "order": "p"}
    runs = [run(arm, seed, 2.0 + seed) for arm in "ab" for seed in (0, 1)]
    runs += [run("c", seed, 1.0 + seed, **other) for seed in (0, 1)]
    rows, notes = comparisons(given, runs, tmp_path, measures())
    assert [(row.arm, row.metric) for row in rows] == [("b", "loss"), ("c", "bits_per_byte")]
    assert rows[1].difference == pytest.approx(-1 / 3)
    assert "tokenizers differ" in str(notes[0])
    assert str(notes[1]).endswith("comparable across tokenizers: c.")


def test_bits_per_byte_of_texts_that_were_cut_differently_are_not_compared():
    one = {"loss": 5.0, "targets": 1000, "bits_per_byte": 2.0}
    assert list(unspelt(one, {"loss": 2.5, "targets": 2000, "bits_per_byte": 2.0})) == []
    (reason,) = unspelt(one, {"loss": 2.5, "targets": 1600, "bits_per_byte": 2.0})
    assert "cut to different lengths (3,607 and 2,885 bytes were scored)" in str(reason)


def test_bits_per_byte_do_not_survive_unknown_words(tmp_path):
    """Their bytes count, but not a letter was predicted: not in a study, nor in `attnlab compare`."""
    given = study(tmp_path, arms={"a": {}, "c": {"data.tokenizer": "character"}})
    other = {"tokenizer": "x", "data": {"train": "c", "dev": "d"}, "order": "p"}
    runs = [run("a", seed, 2.0 + seed) for seed in (0, 1)]
    runs += [run("c", seed, 1.0 + seed, **other) for seed in (0, 1)]
    runs[0].metrics["unknown_share"] = 0.183
    rows, notes = comparisons(given, runs, tmp_path, measures())
    assert rows == [] and "18.3% of the targets are unknown words" in str(notes[1])
    given = study(tmp_path, arms={"a": {}, "b": {"model.heads": 1}}, metric="bits_per_byte")
    rows, _ = comparisons(given, [*runs[:2], run("b", 0, 1.0), run("b", 1, 2.0)], tmp_path, measures())
    assert [row.arm for row in rows] == ["b"], "with one tokenizer the same words are unknown to both"
    one = folder_of(tmp_path / "one", 2.0)
    (one / "result.json").write_text(json.dumps({"metrics": {"unknown_share": 0.183}}))
    tokens = folder_of(tmp_path / "tokens", 1.0, tokenizer="x", data={"train": "c", "dev": "d"})
    found = side_by_side([one, tokens])
    assert "bits_per_byte" not in found.measures and any("18.3%" in note for note in map(str, found.notes))


def test_survivors_of_a_failing_arm_are_not_compared(tmp_path):
    given = study(tmp_path, metric="seconds")
    runs = [run("dot", 0, 2.0), run("dot", 1, 2.0), run("linear", 0, 1.0)]
    runs += [replace(run("linear", 1, 0.0), status="failed", reason=Reason.error("Step 3: nan."), metrics={})]
    arms, notes = comparable(given, runs)
    said = "linear: 1 of 2 runs failed. The rest are a biased sample"
    assert list(arms) == ["dot"] and str(notes["linear"]).startswith(said)


def test_a_half_finished_study_compares_the_seeds_that_all_arms_have(tmp_path):
    given = study(tmp_path, metric="seconds", seeds=3)
    runs = [run(arm, seed, 2.0) for seed in (0, 1) for arm in ("dot", "linear")] + [run("dot", 2, 2.0)]
    rows, _ = comparisons(given, runs, tmp_path, measures())
    assert rows[0].seeds == 2


def test_an_unsound_arm_is_invalid_in_rows_and_verdict(tmp_path):
    given = study(tmp_path, metric="seconds")
    runs = [run("dot", 0, 2.0), replace(run("linear", 0, 1.0), status="invalid", unsound=("dependency",))]
    rows, _ = comparisons(given, runs, tmp_path, measures())
    assert rows[0].verdict == "invalid"
    assert "linear compared with dot (baseline): invalid: dependency failed" in verdict_of(given, [], rows)
    arms = [
        arm(name, scores={"token_by_token_loss": estimate([value])}, unsound=unsound)
        for name, value, unsound in (("dot", 6.0964, ()), ("linear", 6.3951, ("dependency", "honesty")))
    ]
    assert verdict_of(given, arms, rows) == (
        "linear is invalid: it sees future tokens (checks dependency, honesty). "
        "Scored without them its loss is 6.395, worse than dot with 6.096."
    )


def test_an_interval_that_a_second_computation_contradicts_is_invalid(tmp_path, monkeypatch):
    given = study(tmp_path, metric="seconds")
    runs = [run("dot", seed, 2.0) for seed in range(4)]
    runs += [replace(r, arm="linear", metrics={"seconds": 0.9 + 0.01 * r.seed}) for r in runs]
    assert comparisons(given, runs, tmp_path, measures())[0][0].verdict == "better"
    plain = Spread.half_width
    monkeypatch.setattr(Spread, "half_width", lambda spread, *about: 0.8 * plain(spread, *about))
    (row,), _ = comparisons(given, runs, tmp_path, measures())
    assert row.verdict == "invalid"
    said = verdict_of(given, [], [row])
    assert "invalid" in said and "computed a second time from the runs it is -0.085 (-0.1055" in said


def test_an_arm_that_leaks_is_also_compared_by_the_loss_that_a_leak_cannot_lower(tmp_path):
    given = study(tmp_path, metric="seconds", seeds=2)
    alone = {"dot": (6.0, 6.2), "linear": (6.5, 6.9)}
    runs = [
        replace(
            made := run(arm, seed, 2.0), metrics={**made.metrics, "token_by_token_loss": alone[arm][seed]}
        )
        for seed in (0, 1)
        for arm in alone
    ]
    runs = [replace(one, unsound=("dependency",) if one.arm == "linear" else ()) for one in runs]
    rows, _ = comparisons(given, runs, tmp_path, measures())
    found = rows[0].as_json()["without_leak"]
    assert found["difference"] == pytest.approx(0.6) and found["seeds"] == 2
    t = 12.706  # Student's, one degree of freedom, 95%
    assert found["high"] - found["low"] == pytest.approx(2 * t * 0.1, rel=1e-3)
    sound = [replace(one, unsound=()) for one in runs]
    (row,), _ = comparisons(given, sound, tmp_path, measures())
    assert row.without_leak is None and "without_leak" not in row.as_json()


def test_a_reason_is_told_in_full_with_the_arm_and_is_not_cut_for_the_verdict(tmp_path):
    given = study(tmp_path, metric="seconds")
    reason = "The check dependency failed: output 3 moves by 0.7 when input 5 changes. Mend it."
    failed = arm("linear", "failed", Reason.error(reason))
    assert verdict_of(given, [failed], []) == "linear: all runs failed. No verdict yet."
    assert failed.as_json()["reason"] == reason


def test_many_comparisons_are_one_sentence_and_stand_in_a_table(tmp_path):
    arms = {"base": {}} | {f"arm-{n}": {"model.heads": n + 1} for n in range(9)}
    given = study(tmp_path, arms=arms)
    rows = [
        comparison(name, "base", "better" if n < 7 else "inconclusive", low=-0.2, high=-0.1)
        for n, name in enumerate(list(arms)[1:])
    ]
    said = verdict_of(given, map(arm, arms), rows)
    assert said == (
        "9 comparisons with base by loss: 7 better (arm-0, arm-1, arm-2, arm-3, arm-4, arm-5, arm-6), "
        "2 inconclusive (arm-7, arm-8)."
    )


def test_perplexity_over_seeds_is_that_of_the_mean_loss():
    found = estimate([math.exp(9.0), math.exp(9.4)], of="token_by_token_perplexity")
    assert found.value == pytest.approx(math.exp(9.2))
    assert found.low == pytest.approx(math.exp(estimate([9.0, 9.4]).low))


def test_nothing_takes_less_than_no_time():
    assert estimate([1.0, 9.0]).low < 0
    found = estimate([1.0, 9.0], of="seconds")
    assert (found.value, found.low) == (5.0, 0.0) and found.high > 9


@pytest.mark.parametrize("of", ["loss", "train_loss", "token_by_token_loss", "bits_per_byte"])
def test_no_loss_is_below_0_and_no_perplexity_below_1(of):
    assert estimate([0.1, 0.9]).low < 0
    found = estimate([0.1, 0.9], of=of)
    assert (found.value, found.low) == (0.5, 0.0) and found.high > 4
    perplexity = estimate([math.exp(0.1), math.exp(0.9)], of="perplexity")
    assert (perplexity.value, perplexity.low) == (pytest.approx(math.exp(0.5)), 1.0)
    assert estimate([-0.1, 0.9], of="leak").low < 0, "a difference may be"


def test_one_seed_has_no_interval():
    found = estimate([1.0])
    assert (found.value, found.n) == (1.0, 1) and math.isnan(found.low) and math.isnan(found.high)
    assert math.isnan(estimate([1.0, float("inf")]).value)


# ---------------------------------------------------------------- attnlab runs, attnlab compare
def folder_of(place: Path, loss: float, **changes):
    """A run's folder, as far as a listing reads it."""
    place.mkdir(parents=True)
    training = {"evaluate_batches": "all"}
    record = {
        "config": {"task": {"kind": "causal"}, "training": training, "seed": 0},
        "seed": 0,
        "status": "finished",
        "versions": {"started": "2026-01-01T00:00:00"},
        **{name: SAME[name] for name in ("text", "data", "tokenizer", "order")},
    }
    (place / "run.json").write_text(json.dumps(record | changes))
    events = [
        {
            "event": "stepped",
            "step": 5,
            "seconds": 1.5,
            "loss": loss,
            "gradient": 1.0,
            "tokens": 9,
            "progress": 1.0,
        },
        {"event": "evaluated", "step": 5, "loss": loss, "scores": {"bits_per_byte": loss / 3}},
    ]
    (place / "metrics.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    return place


def test_runs_are_listed_with_their_state(tmp_path):
    folder_of(tmp_path / "one", 2.0)
    folder_of(tmp_path / "two", 1.0, sound=False, unsound=["dependency"], status="interrupted")
    first, second = runs_in(tmp_path)
    run, other = first.result, second.result
    assert (first.name, run.steps, run.metrics["loss"], run.sound) == ("one", 5, 2.0, True)
    assert (other.status, other.sound, other.unsound) == ("interrupted", False, ("dependency",))
    assert read_summary(tmp_path / "one").result.metrics["seconds"] == 1.5


def test_compare_refuses_other_dev_text_and_withholds_what_counts_tokens(tmp_path):
    one = folder_of(tmp_path / "one", 2.0)
    other = folder_of(tmp_path / "other", 2.0, data={"train": "a", "dev": "z"})
    with pytest.raises(ConfigError, match="judged on different dev examples"):
        side_by_side([one, other])
    tokens = folder_of(tmp_path / "tokens", 1.0, tokenizer="x", data={"train": "c", "dev": "d"})
    found = side_by_side([one, tokens])
    assert "loss" not in found.measures and "bits_per_byte" in found.measures
    assert any("tokenizers differ" in note for note in map(str, found.notes))
    order = folder_of(tmp_path / "order", 1.0, order="p", sound=False, unsound=["dependency"])
    found = side_by_side([one, order])
    assert "loss" in found.measures
    assert any(
        note.startswith("Not a fair comparison: ") and "another order" in note
        for note in map(str, found.notes)
    )
    assert any("is invalid" in note for note in map(str, found.notes))
    traced = [
        folder_of(tmp_path / name, 1.0, trace={"batches": {"1": "a", "2": mark}})
        for name, mark in (("fed", "b"), ("fed-otherwise", "c"))
    ]
    assert not any("not fed" in note for note in map(str, side_by_side([one, traced[0]]).notes))
    found = side_by_side(traced)
    assert any(
        "they were not fed the same batches (batch 2 or one before" in note for note in map(str, found.notes)
    )


def test_an_interval_over_seeds_stays_within_what_a_measure_can_be():
    """Two seeds at 0.5 and 0.9 have a t interval of 0.7 ± 2.54."""
    apart = [0.5, 0.9]
    for name, (low, high) in {
        "accuracy": (0.0, 1.0),
        "train_accuracy": (0.0, 1.0),
        "matthews": (-1.0, 1.0),
        "seconds": (0.0, 3.2412),
        "loss": (0.0, 3.2412),
        "bits_per_byte": (0.0, 3.2412),
    }.items():
        found = estimate(apart, of=name)
        assert (found.value, found.n) == (pytest.approx(0.7), 2)
        assert (found.low, found.high) == pytest.approx((low, high), abs=1e-3), name


def unlearned(loss, unigram):
    """That a run's model knows no more than counts of its training text."""
    values = {"loss": loss, "unigram": unigram, "bigram": 5.0, "targets": 900, "low": 0.2, "high": 0.4}
    return Finding(
        check="learned",
        when="evaluation",
        outcome="warn",
        kind="not_better",
        number=loss - unigram,
        values=values,
    )


@pytest.mark.parametrize("short", ["b", "ab"])
def test_arms_that_know_no_more_than_word_counts_get_no_verdict(tmp_path, short):
    given = study(tmp_path, arms={"a": {}, "b": {"model.heads": 1}})
    losses = {("a", 0): 7.4, ("a", 1): 7.402, ("b", 0): 7.4499, ("b", 1): 7.4523}
    runs = [
        replace(run(arm, seed, loss), checks=(unlearned(loss, 7.15),) if arm in short else ())
        for (arm, seed), loss in losses.items()
    ]
    (row,), _ = comparisons(given, runs, tmp_path, measures())
    assert row.verdict == "not trained long enough" and not row.claims
    assert Comparison.of_json(json.loads(json.dumps(row.as_json()))).verdict is row.verdict
    said = verdict_of(given, map(arm, "ab"), [row])
    assert said.startswith("b compared with a (baseline): not trained long enough: ")
    for name, loss in (("a", "7.401"), ("b", "7.451")):
        assert (f"the loss of {name}, {loss}, is not below 7.150" in said) == (name in short)
    (trained,), _ = comparisons(given, [replace(one, checks=()) for one in runs], tmp_path, measures())
    assert trained.verdict == "worse"
    (timed,), _ = comparisons(replace(given, metric="seconds"), runs, tmp_path, measures())
    assert timed.verdict != "not trained long enough"  # what a step costs may be compared all the same


def test_one_seed_that_has_not_learned_is_named(tmp_path):
    given = study(tmp_path, arms={"a": {}, "b": {"model.heads": 1}})
    runs = [run(arm, seed, 6.0 + 0.001 * seed) for arm in "ab" for seed in (0, 1, 2)]
    runs[4] = replace(runs[4], checks=(unlearned(7.3, 7.15),))
    (row,), _ = comparisons(given, runs, tmp_path, measures())
    assert "the loss of b (seed 1 of 3), 7.300, is not below 7.150" in row.words
