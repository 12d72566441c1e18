"""Copies of a model to be asked: as deepcopy makes them, or with some of very many layers."""

import copy
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch import nn

from attnlab.checks.check import run_checks
from attnlab.checks.measure import measure_model, worst_leak
from attnlab.checks.paths import paths_of
from attnlab.model.assemble import build_model
from attnlab.model.isolation import DEEPEST, copy_of, sample_of, sampled_layers, undisturbed
from tests.checks.cases import case
from tests.checks.faults import VOCABULARY, Leaky, next_token, small

IDS = torch.arange(7)[None]


class Counting(nn.Module):
    """Holds what a module may hold beside parameters."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.seen, self.again = inner, [], {"inner": inner}

    def forward(self, x, *rest):
        self.seen.append(len(x))
        return self.inner(x, *rest)


class Kept(nn.Linear):
    """Says itself how it is copied."""

    def __deepcopy__(self, memo):
        return self


def held(model):
    """A model in which something of every kind is held."""
    residual = model.trunk.decoder.blocks[0].residuals[1]
    residual.inner = Counting(residual.inner)
    return model.eval()


def test_a_copy_has_the_same_weights_in_memory_of_its_own():
    model = held(small())
    model(IDS)
    copied, plain = copy_of(model), copy.deepcopy(model)
    assert [name for name, _ in copied.named_modules()] == [name for name, _ in plain.named_modules()]
    for (name, own), (other, given) in zip(
        copied.state_dict().items(), model.state_dict().items(), strict=True
    ):
        assert name == other and torch.equal(own, given) and own.data_ptr() != given.data_ptr()
    assert torch.equal(copied(IDS), model(IDS))
    inner = copied.trunk.decoder.blocks[0].residuals[1].inner
    assert inner.seen == [1, 1]  # the call before the copy, and its own
    assert inner.again["inner"] is inner.inner  # what is held twice is one in the copy, too
    assert copied.training == model.training is False


def test_tied_tables_stay_tied_in_a_copy():
    model = small(output="language_model(tied=true)")
    copied = copy_of(model)
    assert len([*copied.parameters()]) < len([*copied.state_dict()])  # a table has two names
    assert sum(p.numel() for p in copied.parameters()) == sum(p.numel() for p in model.parameters())


def test_hooks_are_copied_and_a_modules_own_way_is_kept():
    model = small()
    residual = model.trunk.decoder.blocks[0].residuals[1]
    residual.inner = Kept(model.trunk.width, model.trunk.width)
    residual.register_forward_hook(lambda module, inputs, output: output * 2)
    copied = copy_of(model).trunk.decoder.blocks[0].residuals[1]
    assert copied.inner is residual.inner
    assert len(copied._forward_hooks) == 1 and copied._forward_hooks is not residual._forward_hooks


def test_a_shallow_model_is_its_own_sample():
    model = small()
    assert sampled_layers(model) is None
    assert torch.equal(sample_of(model).eval()(IDS), model.eval()(IDS))


@pytest.fixture(scope="module")
def deep():
    return small(layers=DEEPEST + 50)


def test_a_sample_keeps_names_and_both_ends_and_copies_nothing_else(deep):
    assert sampled_layers(deep) == (100, 150)
    names = [name for name, _ in sample_of(deep).trunk.decoder.blocks.named_children()]
    assert len(set(names)) == DEEPEST
    assert names[0] == "0" and names[-1] == "149"
    assert max(int(b) - int(a) for a, b in pairwise(names)) == 2
    own = sample_of(deep).get_parameter("trunk.decoder.blocks.149.residuals.0.norm.weight")
    assert own is not deep.get_parameter("trunk.decoder.blocks.149.residuals.0.norm.weight")


def test_a_leak_in_a_sampled_layer_has_the_name_that_it_has_in_the_model(deep):
    leaking = copy_of(deep)
    residual = leaking.trunk.decoder.blocks[149].residuals[1]
    residual.inner = Leaky(residual.inner, next_token)
    model = sample_of(leaking).double()
    path = next(paths_of(model, None, VOCABULARY, length=6, whole=8))
    found = worst_leak(model, measure_model(model, path, VOCABULARY), VOCABULARY)
    assert "decoder.blocks.149.residuals.1.inner (Leaky)" in found.origin.module


def test_a_model_that_is_asked_keeps_the_modes_of_its_parts():
    model = small().train()
    model.trunk.decoder.blocks[0].eval()
    before = [module.training for module in model.modules()]
    with undisturbed(model) as asked:
        assert not any(module.training for module in asked.modules())
    assert [module.training for module in model.modules()] == before


def test_findings_about_a_sample_say_so_and_others_do_not():
    about = case("causal")
    settings = replace(about.config.model, layers=DEEPEST + 1)
    model = build_model(settings.with_tokenizer(about.dataset.tokenizer.size))
    config = replace(about.config, model=settings)
    asked = ["invariance", "decoding", "first_loss"]
    told = {one.check: one for one in run_checks(replace(about, model=model, config=config), asked)}
    assert {one.outcome for one in told.values()} == {"pass"}
    ends = {name: one.found.endswith("(in 100 of 101 layers)") for name, one in told.items()}
    assert ends == {"invariance": True, "decoding": True, "first_loss": False}
    assert "layers" not in run_checks(about, ["invariance"])[0].found
