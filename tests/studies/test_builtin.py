"""What the built-in studies measure beside the common numbers, against cases made by hand."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from attnlab.config.schema import ModelSettings
from attnlab.config.values import Choice, ConfigError
from attnlab.data.corpora.synthetic import PairRecall
from attnlab.data.dataset import Dataset
from attnlab.evaluation.comparability import Basis, comparability
from attnlab.evaluation.paired_results import SeedResult
from attnlab.evaluation.perplexity import pseudo_losses, token_losses
from attnlab.evaluation.statistics import corrected, differences, holm
from attnlab.model.assemble import build_model
from attnlab.runs.result import RunResult
from attnlab.studies.builtin import (
    batching,
    builtin,
    long_context,
    positions,
    recall,
    recipe,
    sizes,
    tasks,
)
from attnlab.studies.resolved import resolve
from attnlab.studies.runner import run_study
from attnlab.studies.study_files import adjusted, load_study, study_of
from tests.studies.here import here
from tests.studies.records import arm as ended
from tests.studies.records import comparison, verdict_of
from tests.studies.small_study import study
from tests.training.small_run import settings


# ---------------------------------------------------------------- overrides
@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("batching", "data.batching=packed", "every arm of batching sets it itself"),
        ("transfer", "training.budget.steps=4", "every arm of transfer sets it itself"),
        ("long-context", "model.attention=dot", "every arm of long-context sets it itself"),
        ("tasks", "task=causal", "every arm of tasks sets it itself"),
        ("sizes", "model.width=64", "every arm of sizes sets it itself"),
        ("recall", "model.heads=3", 'Arm "dot" of recall: .*not divisible by model.heads 3'),
        ("recipe", "model.vocabulry=10", 'Arm "gpt2" of recipe: .*Did you mean "vocabulary"'),
        ("positions", "data.length=50", 'Arm "sinusoidal" of positions: data.length 50 is more than'),
    ],
)
def test_a_bad_override_is_answered(name, change, sentence):
    with pytest.raises(ConfigError, match=sentence):
        resolve(adjusted(load_study(name), set=[change]))


def test_more_pairs_than_keys_are_refused_when_the_text_is_made():
    asked = resolve(adjusted(load_study("recall"), set=["data.corpus.pairs=40"]))
    with pytest.raises(ValueError, match="at least 40 keys"):
        Dataset(asked.configs["dot"].data)


# ---------------------------------------------------------------- long-context
def test_slope_is_the_power_over_the_longer_half():
    x = [2.0**n for n in range(8)]
    assert long_context.slope(x, [5 * v**1.7 for v in x]) == pytest.approx(1.7)
    bent = [v if v < 16 else v**2 / 16 for v in x]
    assert long_context.slope(x, bent) == pytest.approx(2.0)


def test_lengths_double_up_to_the_models():
    assert long_context.lengths_up_to(4096) == [256, 512, 1024, 2048, 4096]
    assert long_context.lengths_up_to(3000)[-1] == 2048
    assert long_context.lengths_up_to(100) == [256, 512, 1024]  # a slope needs three


def test_operations_grow_as_theory_says_and_held_weights_by_the_square():
    asked = builtin("long-context").quickly()
    lengths = [256, 512, 1024]
    for arm in asked.arms:
        counted = [long_context.operations_of(asked.config(arm).model, n) for n in lengths]
        assert long_context.slope(lengths, counted) == pytest.approx(long_context.THEORY[arm], abs=0.01), arm
    held = {
        rule: [long_context.kept_bytes(ModelSettings(**tiny(rule)), n) for n in lengths]
        for rule in ("dot", "dot(softcap=50.0)")
    }
    assert long_context.slope(lengths, held["dot"]) == pytest.approx(1, abs=0.01)
    assert long_context.slope(lengths, held["dot(softcap=50.0)"]) == pytest.approx(2, abs=0.05)
    assert held["dot(softcap=50.0)"][-1] >= 2 * 1024**2 * 4  # 2 heads of float32 weights, once at the least


def tiny(rule="dot", **changes):
    kind, _, option = rule.partition("(softcap=")
    options = {"softcap": float(option[:-1])} if option else {}
    sizes_ = {"vocabulary": 20, "length": 12, "width": 8, "layers": 1, "heads": 2}
    return sizes_ | {"attention": Choice(kind, options)} | changes


# ---------------------------------------------------------------- batching
@pytest.mark.parametrize(
    "kind",
    ["padded(batch_size=5)", "longest_first(batch_size=5)", "bucketed(tokens=64)", "packed(batch_size=3)"],
)
def test_waste_is_that_of_the_batches_a_run_gets(tmp_path, kind):
    from attnlab.config.files import load
    from attnlab.config.streams import stream_seed

    config = load(settings(tmp_path), set={"data.batching": kind})
    dataset = Dataset(config.data)
    found = batching.padding_of(dataset, config.data.batching, seed=3)
    batches = list(dataset.loader("train", seed=stream_seed(3, "data")))
    tokens, places = sum(b.tokens for b in batches), sum(b.places for b in batches)
    assert found["waste"] == pytest.approx(1 - tokens / places)
    assert found["tokens_per_step"] == pytest.approx(tokens / len(batches))


def test_larger_batches_change_rows_and_tokens_alone():
    choice = Choice("bucketed", {"tokens": 670, "rows": "unlimited", "step": 4})
    assert batching.sized(choice, 2).options == {"tokens": 1340, "rows": "unlimited", "step": 4}
    assert batching.sized(Choice("packed", {"batch_size": 2}), 0.25).options == {"batch_size": 1}


# ---------------------------------------------------------------- recall
def test_every_value_of_the_answer_went_with_its_key():
    task = PairRecall(pairs=5, fewest=2, keys=9, values=4, examples=40)
    numbers = set()
    for number in range(40):
        question, answer = task.item(number)
        shown = dict(zip(question[:-1:2], question[1:-1:2], strict=True))
        assert question[-1] == ":" and dict(zip(answer[::2], answer[1::2], strict=True)) == shown
        numbers.add(len(shown))
    assert numbers == {2, 3, 4, 5}
    with pytest.raises(ValueError, match="no more of the fewest than of the most"):
        PairRecall(pairs=2, fewest=3)


def test_accuracy_counts_values_alone():
    """START k v : SEP | k v STOP, and one of two pairs; keys are never counted, right or wrong."""
    one = ([1, 10, 20, 5, 4, 10, 20, 2], 5)
    two = ([1, 10, 20, 11, 21, 5, 4, 11, 21, 10, 20, 2], 7)
    right = [F.pad(torch.tensor(ids[1:]), (0, 1)).tolist() for ids, _ in (one, two)]
    assert recall.counted(right, [one, two]) == {1: (1, 1), 2: (2, 2)}
    wrong_value = [*right[1][:7], 99, *right[1][8:]]  # what follows the first key of the answer
    wrong_key = [*right[1][:8], 99, *right[1][9:]]
    assert recall.counted([wrong_value], [two]) == {2: (1, 2)}
    assert recall.counted([wrong_key], [two]) == {2: (2, 2)}


def test_rows_of_the_recall_study_have_the_form_that_is_counted():
    asked = adjusted(load_study("recall"), set=["data.corpus.examples=60", "data.dev_share=0.5"])
    dataset = Dataset(asked.config("dot").data)
    held, tokenizer = dataset.rows("dev"), dataset.tokenizer
    ids, source = held.ragged("ids", 0).tolist(), int(held.scalars("source")[0])
    words = [tokenizer.token(token) for token in ids]
    values = words[source + 1 : -1 : 2]
    assert values and all(word.startswith("v") for word in values)
    assert all(word.startswith("k") for word in words[source:-1:2])


def test_an_arm_at_the_level_of_guessing_is_said_not_to_have_learned():
    guess = [1.0, 0.5]
    lines = [{"name": "dot", "y": [1.0, 1.0]}, {"name": "linear", "y": [0.9, 0.5]}]
    lines[0]["y"] = [1.2, 1.2]
    assert [note.values["arm"] for note in recall.unlearned(lines, guess)] == ["linear"]


# ---------------------------------------------------------------- tasks
def test_hidden_words_are_scored_as_the_usual_losses_score_them():

    row, place = [1, 7, 8, 9, 10, 2], 3
    decoder = build_model(ModelSettings(**tiny()))
    found = tasks.answered(decoder, [(row, place)], mask=None)
    usual = token_losses(decoder, torch.tensor([row]))[0]
    assert found["hidden_loss"] == pytest.approx(float(usual[place - 1]), rel=1e-5)
    encoder = build_model(ModelSettings(**tiny(family="encoder", mask=Choice("bidirectional"))))
    found = tasks.answered(encoder, [(row, place), (row, 2)], mask=5)
    pseudo = pseudo_losses(encoder, row, mask=5)
    assert found["hidden_loss"] == pytest.approx((pseudo[place] + pseudo[2]) / 2, rel=1e-5)
    assert found["hidden_words"] == 2


def test_hidden_words_are_ordinary_and_the_same_every_time():
    special = [token < 5 for token in range(20)]
    rows = [[1, 6, 7, 8, 9, 2], [1, 6, 7, 2], [1, 6, 0, 7, 8, 9, 10, 2]]
    asked = tasks.questions(rows, special, seed=0)
    assert [ids for ids, _ in asked] == [rows[0], rows[2]]  # the second has too few words
    assert all(not special[ids[place]] and 0 < place < len(ids) - 1 for ids, place in asked)
    assert asked == tasks.questions(rows, special, seed=0)


def test_tasks_keep_their_own_losses_apart_but_not_what_is_measured_alike():
    prints = {"tokenizer": "t", "text": "x", "data": {"train": "a", "dev": "d"}}
    one, other = (Basis.of_fingerprints(prints | {"task": task}) for task in ("causal", "masked"))
    own = tasks.HiddenWords.metrics
    for metric in ("loss", "perplexity", "bits_per_byte", "train_loss"):
        assert "their tasks differ" in str(comparability(one, other, metric=metric, own=own).reasons[0])
    for metric in ("hidden_loss", "hidden_accuracy", "seconds", "tokens_per_second"):
        assert comparability(one, other, metric=metric, own=own).reasons == []


# ---------------------------------------------------------------- recipe
FAST = {"step": [10, 20], "tokens": [100, 200], "seconds": [2.0, 4.0], "loss": [6.0, 4.0]}
SLOW = {"step": [10, 20], "tokens": [100, 200], "seconds": [3.0, 6.0], "loss": [7.0, 5.0]}


def test_time_to_a_loss_is_read_off_between_evaluations():
    assert recipe.reached(FAST, 5.0, "seconds") == pytest.approx(3.0)
    assert recipe.reached(FAST, 4.5, "step") == pytest.approx(17.5)
    assert recipe.reached(FAST, 6.5, "seconds") == 2.0  # there at the first evaluation
    assert recipe.reached(FAST, 3.0, "seconds") is None
    assert recipe.reached({}, 3.0, "seconds") is None


def test_times_to_where_the_baseline_ended():
    arms = {
        "gpt2": [RunResult(seed=0, dev_curve=SLOW), RunResult(seed=1, dev_curve=FAST)],
        "modern": [RunResult(seed=0, dev_curve=FAST), RunResult(seed=1, dev_curve=SLOW)],
    }
    rows, notes = recipe.times_to_loss(arms, "gpt2")
    assert rows[1] == [0, 5.0, "modern", pytest.approx(15.0), pytest.approx(150.0), pytest.approx(3.0), 2.0]
    assert rows[3][3:] == [None, None, None, None]  # seed 1: SLOW never comes to 4
    assert "2.00 times as fast" in str(notes[0]) and "1 of 2 seeds reached it" in str(notes[0])
    drawn = recipe.times(arms)["series"]
    assert drawn[0]["x"][0] == 6.0 and drawn[0]["x"][-1] == 5.0
    assert drawn[0]["high"][-1] == pytest.approx(6.0) and drawn[0]["low"][-1] == pytest.approx(3.0)


# ---------------------------------------------------------------- sizes
def test_baselines_of_their_own_are_corrected_together():
    random = np.random.default_rng(0)

    def seeds(level):
        return [SeedResult(seed, level + random.normal(0, 0.01), None) for seed in range(5)]

    arms = {"a": seeds(1.0), "x": seeds(1.02), "b": seeds(2.0), "y": seeds(2.1)}
    first = differences({"a": arms["a"], "x": arms["x"]}, "a", metric="time_slope")
    second = differences({"b": arms["b"], "y": arms["y"]}, "b", metric="time_slope")
    rows = corrected(first + second)
    assert [row.p_corrected for row in rows] == pytest.approx(list(holm([first[0].p, second[0].p])))
    assert [(row.arm, row.baseline) for row in rows] == [("x", "a"), ("y", "b")]


def test_arms_are_set_beside_the_baseline_of_their_own_size():
    asked = builtin("sizes")
    assert asked.baselines == ("dot-48", "dot-96", "dot-192")
    assert asked.baseline_of("linear-192") == "dot-192" and asked.baseline_of("dot-96") == "dot-96"
    assert list(asked.only(["linear-96"]).arms) == ["dot-48", "dot-96", "linear-96"]
    rows = [comparison(f"linear-{width}", f"dot-{width}", "worse") for width in sizes.WIDTHS]
    said = verdict_of(asked, map(ended, asked.arms), rows)
    for width in sizes.WIDTHS[:2]:
        assert f"linear-{width} is worse than dot-{width}: loss +0.20 (95% from" in said
    assert "not compared" not in said


@pytest.mark.parametrize(
    ("against", "sentence"),
    [
        ({"b": "d"}, 'against: there is no "d"'),
        ({"b": "c", "c": "a"}, '"c" is compared with "a", and is itself the baseline of another arm'),
        ({"b": 3}, "against.b"),
    ],
)
def test_baselines_that_cannot_be_are_refused(against, sentence):
    given = {"question": "Why?", "arms": {"a": {}, "b": {}, "c": {}}, "against": against}
    with pytest.raises(ConfigError, match=sentence):
        study_of(given, name="x")


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([(0.1, 0.3, "worse"), (0.2, 0.4, "worse")], "the same at all 2 sizes (worse)."),
        ([(0.1, 0.2, "worse"), (0.3, 0.4, "worse")], "intervals do not all overlap"),
        ([(0.1, 0.2, "worse"), (-0.1, 0.1, "inconclusive")], "not the same at every size"),
        ([(-0.1, 0.2, "inconclusive")] * 2, "At none of the 2 sizes"),
        ([(math.nan, math.nan, "inconclusive")] * 2, "At none of the 2 sizes"),
    ],
)
def test_whether_a_verdict_holds_claims_no_more_than_the_sizes_do(rows, sentence):
    told = [comparison("linear", "dot", word, low=low, high=high) for low, high, word in rows]
    assert sentence in str(sizes.holds(told))


# ---------------------------------------------------------------- positions
def test_places_go_into_stretches_by_where_a_token_stands():
    losses = [[1.0] * 9 + [3.0], [5.0] * 2]  # tokens 2 to 10 and 11; tokens 2 and 3
    assert positions.by_place(losses) == {"10": pytest.approx((9 + 10) / 11), "20": 3.0}


def test_schemes_go_on_beyond_the_trained_length_or_say_why_not(tmp_path):
    arms = {"sinusoidal": {"model.positions": "sinusoidal"}, "learned": {"model.positions": "learned"}}
    extras = "attnlab.studies.builtin.positions:Longer"
    short = {"data.length": 5, "model.length": 5, "data.encoding": "document(long=cut)"}
    given = study(
        tmp_path, arms=arms, set=short, seeds=1, budget={"steps": 2}, extras=extras, sentence="the cat"
    )
    with here():
        results = run_study(resolve(given), tmp_path / "study").results
    runs = {run["arm"]: run for run in results["runs"]}
    assert all(run["status"] == "finished" for run in runs.values()), runs
    assert runs["sinusoidal"]["metrics"]["loss_beyond"] > 0
    assert "positions end at 5" in runs["learned"]["refused"]
    assert "loss_beyond" not in runs["learned"]["metrics"]
    (table,) = results["tables"]
    assert [row[0] for row in table["rows"]] == ["sinusoidal", "learned"]
    assert table["rows"][1][2:7] == [None] * 5 and "positions end at 5" in table["rows"][1][-1]
    assert [s["name"] for s in results["figures"][0]["series"]] == ["sinusoidal"]


def test_a_source_is_given_where_a_mask_asks_for_one(tmp_path):
    """A prefix model has no probability of a whole sentence, but its attention can be drawn."""
    arms = {"causal": {}, "prefix": {"task": "prefix", "model.mask": "prefix"}}
    given = study(tmp_path, arms=arms, seeds=1, budget={"steps": 2}, extras="")
    with here():
        results = run_study(resolve(given), tmp_path / "study").results
    prefix = next(run for run in results["runs"] if run["arm"] == "prefix")
    assert prefix["status"] == "finished", prefix["reason"]
    assert prefix["probes"] == [] and "not compared with causal" in " ".join(results["study"]["notes"])
    weights = np.array(results["attention"]["arms"]["prefix"][0][0])
    half = len(weights) // 2
    assert weights[0, half - 1] > 0 and np.triu(weights, 1)[:, half:].max() == 0
