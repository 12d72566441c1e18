"""What moves, what is tied and what is counted: faults put there on purpose, and healthy runs."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn

from attnlab.checks.parameters import untied
from attnlab.config.files import ready_configs
from attnlab.model.adapters import ADAPTERS
from attnlab.session.trained import Trained
from attnlab.tasks import TASKS
from attnlab.training.optimizers import OPTIMIZERS
from tests.checks.cases import case, config, found, of
from tests.checks.test_false_alarms import setup_of
from tests.training.small_run import set_up, train

QUICK = {"budget": {"steps": 25}, "evaluate_every": "never", "checkpoint_every": 25}
UP = "trunk.decoder.blocks.0.residuals.1.inner.part.up.weight"
QUERY = "trunk.decoder.blocks.1.residuals.0.inner.projections.query.weight"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("moved") / "run"
    run = train(config(training=QUICK), folder)
    return of(run.session, when="after", folder=folder, step=25)


def changed(about, name, change):
    """The case with one parameter as if training had made this of it."""
    model = copy.deepcopy(about.model)
    first = dict(about.initial().named_parameters())[name].detach()
    with torch.no_grad():
        own = dict(model.named_parameters())[name]
        own.copy_(change(first, own))
    return replace(about, model=model)


def test_a_healthy_run_passes(trained):
    for name in ("moved", "parameters"):
        assert found(name, trained).outcome == "pass", found(name, trained).found


@pytest.mark.parametrize("decay", [1e-4, 1e-3, 0.2])
@pytest.mark.parametrize("name", [UP, QUERY])
def test_what_only_decayed_is_told(trained, name, decay):
    finding = found("moved", changed(trained, name, lambda first, own: first * (1 - decay)))
    assert finding.outcome == "warn" and name in finding.found and "weight decay alone" in finding.found


@pytest.mark.parametrize("name", [UP, "trunk.decoder.blocks.0.residuals.0.inner.output.bias"])
def test_what_moved_far_less_than_the_others_is_told(trained, name):
    finding = found("moved", changed(trained, name, lambda first, own: first + (own - first) * 1e-4))
    assert finding.outcome == "warn" and name in finding.found and "less than the median" in finding.found


def test_what_moved_somewhat_less_is_not(trained):
    slower = changed(trained, UP, lambda first, own: first + (own - first) * 0.02)
    assert found("moved", slower).outcome == "pass"


def taught(setup, steps=25, optimizers=None):
    """A case after some steps of the run's own optimizer, without all that a run does besides."""
    about = of(setup, when="after", step=steps)
    optimizers = optimizers or OPTIMIZERS.build(setup.config.training.optimizer).make(setup.model)
    loader = setup.dataset.loader("train", seed=0)
    plan = loader.plan(0)
    for step in range(steps):
        prepared = setup.task.prepare(loader.load(plan, step % len(plan)), step)
        setup.task.loss(setup.model, prepared).mean.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    return about


def test_a_group_with_a_tiny_learning_rate_is_told():
    setup = set_up(config())
    slow = list(setup.model.trunk.decoder.blocks[0].parameters())
    others = [p for p in setup.model.parameters() if all(p is not one for one in slow)]
    groups = [{"params": slow, "lr": 1e-8}, {"params": others, "lr": 1e-3}]
    finding = found("moved", taught(setup, optimizers=[torch.optim.AdamW(groups, weight_decay=0.0)]))
    assert finding.outcome == "warn" and "blocks.0" in finding.found and "blocks.1" not in finding.found


def test_a_layer_that_no_gradient_reaches_only_decays_and_is_told():
    setup = set_up(config())
    layer = setup.model.trunk.decoder.blocks[0].residuals[1].inner
    for parameter in layer.parameters():
        parameter.register_hook(torch.zeros_like)
    finding = found("moved", taught(setup))
    assert finding.outcome == "warn" and "residuals.1.inner" in finding.found


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize("task", TASKS)
def test_healthy_runs_of_every_task_are_quiet(task, optimizer):
    finding = found("moved", taught(set_up(config(task, training={"optimizer": optimizer}))))
    assert finding.outcome == "pass", finding.found


@pytest.mark.parametrize("name", ready_configs())
def test_healthy_runs_of_ready_configs_are_quiet(name):
    finding = found("moved", taught(setup_of(name, **{"model.width": 32, "model.layers": 2}), steps=8))
    assert finding.outcome == "pass", finding.found


@pytest.mark.parametrize("attention", ["argmax", "linear", "group"])
def test_rules_that_teach_some_parameters_nothing_are_quiet(attention):
    cross = "dot" if attention == "group" else attention
    setup = set_up(config("seq2seq", model={"attention": attention, "cross_attention": cross}))
    finding = found("moved", taught(setup))
    assert finding.outcome == "pass", finding.found


# parameters


@pytest.mark.parametrize("task", TASKS)
def test_parameters_are_tied_and_counted_before_training(task):
    assert found("parameters", case(task)).outcome == "pass"


def copied_weight(model):
    head = model.head
    head.table = copy.deepcopy(head.table)


def assigned_parameter(model):
    """As load_state_dict(assign=True) does, one name after another."""
    model.head.table = nn.Embedding(*model.head.table.weight.shape)
    model.head.table.weight = nn.Parameter(model.trunk.main.embedding.tokens.weight.detach().clone())


def moved_data(model):
    table = nn.Embedding(*model.head.table.weight.shape)
    table.weight.data = model.head.table.weight.data.double().float()
    model.trunk.main.embedding.tokens = table


@pytest.mark.parametrize("fault", [copied_weight, assigned_parameter, moved_data])
@pytest.mark.parametrize("task", ["causal", "seq2seq"])
def test_a_lost_tie_is_named(fault, task):
    about = case(task)
    fault(about.model)
    finding = found("parameters", about)
    assert finding.outcome == "fail" and "head.table" in finding.found and "in memory" in finding.found


def test_a_tie_between_encoder_and_decoder_that_is_lost_is_named():
    about = case("seq2seq")
    encoder = about.model.trunk.encoder
    encoder.embedding.tokens = copy.deepcopy(encoder.embedding.tokens)
    assert "encoder.embedding.tokens" in found("parameters", about).found


def test_a_tie_that_loading_loses_is_named(trained, monkeypatch):
    from attnlab.checks import parameters

    plain = parameters.load_weights

    def untying(model, weights):
        plain(model, weights)
        copied_weight(model)

    monkeypatch.setattr(parameters, "load_weights", untying)
    finding = found("parameters", trained)
    assert finding.outcome == "fail" and "after loading" in finding.found


def test_an_opened_run_is_tied(trained):
    assert untied(Trained.at(trained.folder).model) == []


def test_an_untied_head_is_counted_as_one():
    assert (
        found("parameters", of(set_up(config(model={"output": "language_model(tied=false)"})))).outcome
        == "pass"
    )


def test_parameters_that_no_closed_form_names_are_told():
    about = case()
    about.model.trunk.decoder.extra = nn.Linear(16, 16)
    finding = found("parameters", about)
    assert finding.outcome == "warn" and finding.number == 16 * 16 + 16


@pytest.mark.parametrize("name", [UP, QUERY])
def test_frozen_parameters_without_an_adapter_are_named(name):
    about = case()
    dict(about.model.named_parameters())[name].requires_grad_(False)
    finding = found("parameters", about)
    assert finding.outcome == "warn" and name in finding.found and "no adapter" in finding.found


def test_frozen_parameters_under_an_adapter_are_as_they_should_be():
    about = case()
    ADAPTERS.build("lora(rank=2)").attach(about.model)
    assert found("parameters", about).outcome == "pass"
