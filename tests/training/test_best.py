"""Which checkpoint is kept: the last that dev's rows cannot tell from the best."""

import math

import numpy as np
import pytest

from attnlab.evaluation.evaluator import Evaluation
from attnlab.metrics.metric import Examples
from attnlab.runs.events import Evaluated
from attnlab.session.run_display import evaluated_line
from attnlab.training.best import judged
from attnlab.training.budget import State


def accuracy(right, n):
    """An evaluation in which so many of n texts were right."""
    label = np.zeros(n, np.int64)
    columns = {"label": label, "prediction": np.where(np.arange(n) < right, 0, 1)}
    columns["probabilities"] = np.stack([np.arange(n) < right, np.arange(n) >= right], 1).astype(float)
    return Evaluation(0.5, {"accuracy": right / n}, Examples(columns))


def loss(value):
    return Evaluation(value, {}, Examples({}))


def state_after(evaluations, metric):
    state = State()
    for step, evaluation in enumerate(evaluations, 1):
        state = judged(State(**vars(state) | {"step": step}), evaluation, metric)
    return state


def kept_plainly(counts, n):
    """By the binomial formula, over the whole history."""
    kept = top = 0
    for step, right in enumerate(counts):
        top = step if right > counts[top] else top
        share = counts[top] / n
        error = math.sqrt(share * (1 - share) / (n - 1))
        kept = step if counts[top] / n - right / n <= error else kept
    return kept + 1


@pytest.mark.parametrize("n", [20, 136, 2000])
@pytest.mark.parametrize("seed", range(6))
def test_the_last_within_one_standard_error_of_the_best_is_kept(n, seed):
    counts = np.random.default_rng(seed).integers(int(0.7 * n), int(0.9 * n), 8).tolist()
    state = state_after([accuracy(count, n) for count in counts], "accuracy")
    assert state.best_step == kept_plainly(counts, n)
    assert state.best_score == counts[state.best_step - 1] / n
    assert state.top_score == max(counts) / n and state.top_step == counts.index(max(counts)) + 1


def test_few_rows_keep_the_later_checkpoint_and_many_the_better():
    """112 and 110 of 136 are one result; 1,647 and 1,500 of 2,000 are two."""
    assert state_after([accuracy(112, 136), accuracy(110, 136)], "accuracy").best_step == 2
    worse = state_after([accuracy(1647, 2000), accuracy(1500, 2000)], "accuracy")
    assert worse.best_step == 1 and worse.since_best == 1


def test_small_losses_do_not_drift_away_from_the_best():
    """Each is within an error of the one before, and the last is not of the best."""
    falling = [accuracy(count, 100) for count in (90, 88, 86, 84)]
    assert state_after(falling, "accuracy").best_step == 2


def test_a_loss_is_kept_where_it_is_the_lowest_and_the_first_of_equals():
    state = state_after([loss(3.0), loss(2.5), loss(2.5), loss(2.5001)], "loss")
    assert (state.best_step, state.since_best) == (2, 2)


def test_a_score_that_is_no_number_is_no_best():
    nothing = Evaluation(0.5, {"accuracy": math.nan}, accuracy(1, 2).examples)
    assert state_after([nothing, accuracy(8, 10)], "accuracy").best_step == 2
    assert state_after([accuracy(8, 10), nothing], "accuracy").best_step == 1


def test_a_checkpoint_of_before_goes_on_with_its_best():
    state = State.of({"step": 9, "best_step": 4, "best_score": 0.8})
    assert (state.top_step, state.top_score) == (4, 0.8)


def test_the_mark_stands_behind_the_score_that_decides():
    event = {"step": 36, "loss": 0.5, "seconds": 1.0, "scores": {"accuracy": 0.8, "macro_f1": 0.7}}
    best = evaluated_line(Evaluated(**event, best=True, kept=True), "accuracy")
    assert best == "step 36: dev loss 0.5000, accuracy 0.8 (best), macro_f1 0.7"
    tied = evaluated_line(Evaluated(**event, best=False, kept=True), "accuracy")
    assert "accuracy 0.8 (as good as the best)," in tied
    assert "dev loss 0.5000 (best)" in evaluated_line(Evaluated(**event, best=True, kept=True), "loss")
