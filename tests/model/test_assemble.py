"""From settings to a model: what a setting switches, and nothing else."""

import pytest
import torch

from attnlab.config.files import identity, load
from attnlab.config.schema import BIASED
from attnlab.config.values import ConfigError
from attnlab.model.assemble import build_model

BIASES = {
    "query_key_value": ("projections.query.bias", "projections.key.bias", "projections.value.bias"),
    "attention_output": ("inner.output.bias",),
    "feedforward": ("up.bias", "down.bias"),
    "norm": ("norm.bias", "final.bias"),
}
"""How the names of each part's biases end."""
SMALL = {"model.width": 16, "model.layers": 2, "model.vocabulary": 20, "model.family": "encoder_decoder"}


def settings(bias):
    return load(set=SMALL | {"model.bias": bias})


def biases_of(bias):
    model = build_model(settings(bias).model, device="meta")
    return {name for name, _ in model.named_parameters() if name.endswith("bias")}


def test_biases_are_switched_part_by_part():
    everything = biases_of(True)
    assert biases_of(False) == set()
    assert set(BIASES) == set(BIASED)
    for part, ends in BIASES.items():
        assert biases_of([part]) == {name for name in everything if name.endswith(ends)} != set()
    assert everything == set.union(*(biases_of([part]) for part in BIASED))


def test_biases_are_one_setting_however_written():
    assert identity(settings(True)) == identity(settings(list(reversed(BIASED))))
    assert identity(settings(False)) == identity(settings([]))
    assert identity(settings(["norm", "feedforward"])) == identity(settings(["feedforward", "norm", "norm"]))
    assert settings(["norm"]).model.bias == ("norm",)


def test_other_biases_leave_the_weights_that_both_have_as_they_are():
    some, all_of_them = (build_model(settings(bias).model, seed=3) for bias in (["norm"], True))
    known = dict(all_of_them.named_parameters())
    assert all(torch.equal(value, known[name]) for name, value in some.named_parameters())


@pytest.mark.parametrize("bias", ["query_key_value", ["qkv"], [True], 1])
def test_an_unknown_part_is_refused_with_those_that_there_are(bias):
    with pytest.raises(ConfigError, match=f"model.bias takes true or false or .*{', '.join(BIASED)}"):
        settings(bias)
