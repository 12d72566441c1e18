"""Answers that a model can read: later tokens that leak, and targets within what their place may see."""

import copy
from dataclasses import replace

import pytest
import torch

from attnlab.model.losses import IGNORE
from attnlab.model.tokens import Tokens
from tests.checks.cases import WORDS, case, config, found, of
from tests.checks.faults import Leaky, next_token
from tests.training.small_run import set_up

LATER = ("causal", "prefix", "unilm", "seq2seq", "denoising")
"""The tasks that leave some of a text unseen."""


@pytest.mark.parametrize("task", WORDS)
def test_healthy_runs_hide_their_answers(task):
    wanted = "pass" if task in LATER else "not applicable"
    assert found("honesty", case(task)).outcome == wanted
    assert found("visible_targets", case(task)).outcome == "pass"


@pytest.mark.parametrize("task", LATER)
def test_a_model_whose_output_depends_on_the_next_token(task):
    about = case(task)
    about.model.trunk.main.final = Leaky(about.model.trunk.main.final, next_token, size=0.1)
    about.model.train()
    finding = found("honesty", about)
    assert finding.outcome == "fail" and finding.number > 1e-3 and " to " in finding.found
    assert about.model.training


def test_a_small_leak_is_found():
    about = case()
    about.model.trunk.main.final = Leaky(about.model.trunk.main.final, next_token, size=1e-4)
    assert found("honesty", about).outcome == "fail"


def test_zeroed_weights_are_found_once_trained():
    about = of(set_up(config(model={"masking": "zero"})), when="evaluation")
    with torch.no_grad():
        for parameter in about.model.trunk.decoder.blocks.parameters():
            parameter.mul_(3)
        about.model.trunk.decoder.embedding.tokens.weight.mul_(3)
    assert found("honesty", about).outcome == "fail"


def changed(task, change):
    """A case whose task prepares something else."""
    about = case(task)
    spoilt = copy.copy(about.task)
    spoilt.prepare = lambda batch, seed: change(batch, about.task.prepare(batch, seed))
    return replace(about, task=spoilt)


def all_is_source(batch, made):
    return replace(made, tokens=replace(made.tokens, source=torch.ones_like(made.tokens.source)))


def source_one_too_long(batch, made):
    longer = made.tokens.source.clone()
    longer[:, 1:] |= made.tokens.source[:, :-1]
    return replace(made, tokens=replace(made.tokens, source=longer))


@pytest.mark.parametrize("fault", [all_is_source, source_one_too_long])
def test_a_source_that_covers_its_targets(fault):
    about = changed("prefix", fault)
    finding = found("visible_targets", about)
    assert finding.outcome == "fail" and "can be seen by the position that predicts them" in finding.found
    assert found("honesty", about).outcome == "fail", "and the model uses it"


def test_tokens_of_all_of_a_row_marked_as_source_in_rows_that_look_back():
    """UniLM's own marks: what they show is all that a row may see, and no leak."""
    assert found("honesty", changed("unilm", all_is_source)).outcome == "not applicable"


def never_hidden(batch, made):
    return replace(made, ids=torch.where(made.targets == IGNORE, made.ids, made.targets))


@pytest.mark.parametrize("task", ["masked", "span", "unilm"])
def test_tokens_that_were_chosen_and_not_hidden(task):
    # `targets` calls it hidden when anything in the row differs: the first chosen token is
    def all_but_one(batch, made):
        ids = never_hidden(batch, made).ids
        row, place = (made.targets != IGNORE).nonzero()[0]
        ids[row, place] = made.ids[row, place] if made.ids[row, place] != ids[row, place] else 0
        return replace(made, ids=ids)

    finding = found("visible_targets", changed(task, all_but_one))
    assert finding.outcome == "fail" and "the task keeps 10%" in finding.found


def test_a_source_without_holes():
    def whole(batch, made):
        real = None if bool(batch.real.all()) else batch.real
        return replace(made, source=batch.ids, source_tokens=Tokens.of(batch.ids.shape[1], real=real))

    finding = found("visible_targets", changed("denoising", whole))
    assert finding.outcome == "fail" and "the task keeps 70%" in finding.found
