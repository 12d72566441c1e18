"""Which checkpoint a run keeps as its best on dev."""

from __future__ import annotations

import math
from dataclasses import replace

from attnlab.evaluation.evaluator import Evaluation
from attnlab.metrics import METRICS
from attnlab.metrics.metric import is_of_texts
from attnlab.training.budget import State


def judged(state: State, evaluation: Evaluation, metric: str) -> State:
    """The state after an evaluation of its step, which may now be the one that is kept.

    A loss is kept where it is the lowest. A score over so many texts is kept unless it is more than one
    standard error worse than the very best so far: few texts cannot tell the two apart, and of such
    checkpoints the later has learned longer, at lower rates.
    """
    if metric != "loss" and metric not in evaluation.scores:
        return state  # texts were not written this time, and nothing is known
    score, is_better = evaluation.score(metric), METRICS[metric].is_better
    if state.top_score is None or math.isnan(state.top_score) or is_better(score, state.top_score):
        error = standard_error(evaluation, metric)
        state = replace(state, top_step=state.step, top_score=score, top_error=error)
    if state.top_step == state.step or tied(score, state, metric):
        return replace(state, best_step=state.step, best_score=score, since_best=0)
    return replace(state, since_best=state.since_best + 1)


def standard_error(evaluation: Evaluation, metric: str) -> float:
    """Of a score; 0 where it is exact enough to go by it alone, or unknown."""
    built = METRICS.build(metric)
    examples = evaluation.texts if is_of_texts(built) else evaluation.examples
    if metric == "loss" or examples is None:
        return 0.0
    error = built.standard_error(examples)
    return error if math.isfinite(error) else 0.0


def tied(score: float, state: State, metric: str) -> bool:
    """Whether a score cannot be told from the very best one."""
    assert state.top_score is not None
    return metric != "loss" and abs(score - state.top_score) <= state.top_error
