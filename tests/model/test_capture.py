"""What is captured is what flows, what is patched is changed, and afterwards the model is as it was."""

import pytest
import torch

import attnlab as lab
from attnlab.config.values import ConfigError
from attnlab.model.attention import ATTENTION
from attnlab.model.attention.rule import spread
from attnlab.model.combinations import examples
from attnlab.model.contracts.small_models import loosen
from attnlab.model.tokens import Tokens

SIZES = {"vocabulary": 23, "length": 16, "width": 16, "heads": 4, "layers": 2}
IDS = torch.stack([torch.randperm(23, generator=torch.Generator().manual_seed(row))[:9] for row in range(2)])
REAL = torch.tensor([[0, 0, 1, 1, 1, 1, 1, 1, 1], [1] * 9]).bool()


def decoder(**settings):
    model = lab.decoder(**SIZES | {"positions": "rotary"} | settings).double().eval()
    loosen(model)
    return model


def left_alone(model):
    """Whether nothing is attached to any module."""
    hooks = [m for m in model.modules() if m._forward_hooks or m._forward_pre_hooks or "attend" in vars(m)]
    return not hooks and model.taps is None


@pytest.mark.parametrize("choice", examples(ATTENTION), ids=str)
@torch.no_grad()
def test_weights_times_values_are_what_heads_read_and_looking_changes_no_bit(choice):
    model = decoder(attention=choice, projections="grouped(shared=2)")
    tokens = Tokens.of(9, real=REAL)
    plain = model(IDS, tokens)
    with lab.capture(model, "layers.*.attention.*", "layers.*.heads") as seen:
        looked = model(IDS, tokens)
    assert torch.equal(plain, looked) and left_alone(model)
    for layer in range(2):
        weights, values = seen[f"layers.{layer}.attention.weights"], seen[f"layers.{layer}.attention.values"]
        assert weights.shape == (2, 4, 9, 9) and values.shape == (2, 2, 9, 4)
        real = REAL[:, None, :, None]
        read = weights @ spread(values, 4)
        torch.testing.assert_close(read * real, seen[f"layers.{layer}.heads"] * real)


@pytest.mark.parametrize("choice", examples(ATTENTION), ids=str)
@torch.no_grad()
def test_with_a_cache_the_weights_are_those_of_the_whole_text(choice):
    """Also where the past is only summed up (linear), and after the rows of a batch changed places."""
    model = decoder(attention=choice, positions="none")
    with lab.capture(model, "layers.1.attention.weights") as seen:
        model(IDS)
    whole = seen["layers.1.attention.weights"]
    cache = model.trunk.cache()
    with lab.capture(model, "layers.1.attention.weights") as seen:
        model(IDS[:, :4], cache=cache)
        cache.select(torch.tensor([1, 0]))
        for place in range(4, 9):
            model(IDS.flip(0)[:, place : place + 1], cache=cache)
    steps = seen.every("layers.1.attention.weights")
    assert len(steps) == 6
    for place, weights in zip(range(4, 9), steps[1:], strict=True):
        expected = whole.flip(0)[:, :, place]
        held = weights.shape[-1]  # a window keeps the last keys alone
        torch.testing.assert_close(weights[:, :, 0], expected[..., place + 1 - held : place + 1])


@torch.no_grad()
def test_a_cache_that_sums_up_its_keys_must_begin_inside_the_block():
    model = decoder(attention="linear")
    cache = model.trunk.cache()
    model(IDS[:, :4], cache=cache)
    with (
        pytest.raises(ConfigError, match="begun outside the block"),
        lab.capture(model, "*.*.attention.weights"),
    ):
        model(IDS[:, 4:5], cache=cache)
    assert left_alone(model)


@torch.no_grad()
def test_a_head_set_to_zero_is_its_columns_of_the_output_map_set_to_zero():
    model, by_hand = decoder(), decoder()
    by_hand.trunk.main.attentions()[1].output.weight[:, 2 * 4 : 3 * 4] = 0
    plain = model(IDS)
    with lab.patch(model, {"layers.1.heads.2": 0}):
        patched = model(IDS)
    torch.testing.assert_close(patched, by_hand(IDS))
    assert not torch.allclose(patched, plain)
    assert torch.equal(model(IDS), plain) and left_alone(model)


@torch.no_grad()
def test_patched_weights_are_what_values_are_read_with():
    model = decoder(layers=1)
    with lab.capture(model, "layers.0.attention.values") as seen:
        model(IDS)
    mean = seen["layers.0.attention.values"].mean(2, keepdim=True).expand(-1, -1, 9, -1)
    with (
        lab.patch(model, {"layers.0.attention.weights": 1 / 9}),
        lab.capture(model, "layers.0.heads") as read,
    ):
        model(IDS)
    torch.testing.assert_close(read["layers.0.heads"], mean)


def in_place(weights):
    weights[:, 1] = 0
    return weights


@torch.no_grad()
def test_a_function_may_write_into_what_it_is_given():
    model = decoder()
    with lab.patch(model, {"layers.0.attention.weights": in_place}):
        written = model(IDS)
    with lab.patch(model, {"layers.0.heads.1": 0}):
        torch.testing.assert_close(written, model(IDS))


@torch.no_grad()
def test_keys_that_were_changed_stay_so_in_the_cache():
    model = decoder()

    def halved(keys):
        return keys / 2

    with lab.patch(model, {"layers.0.attention.keys": halved}):
        whole, cache = model(IDS), model.trunk.cache()
        steps = torch.cat([model(IDS[:, place : place + 1], cache=cache) for place in range(9)], 1)
    torch.testing.assert_close(steps, whole)


@torch.no_grad()
def test_captured_is_what_flowed_on_whichever_block_is_the_inner_one():
    model = decoder()
    with lab.capture(model, "layers.0.output") as outer, lab.patch(model, {"layers.0.output": 2.0}):
        model(IDS)
    with lab.patch(model, {"layers.0.output": 2.0}), lab.capture(model, "layers.1.input") as inner:
        model(IDS)
    assert bool((outer["layers.0.output"] == 2).all() and (inner["layers.1.input"] == 2).all())


def test_gradients_flow_through_what_is_captured():
    model = decoder()
    with lab.capture(model, "embedding") as seen:
        out = model(IDS)[0, 4].sum()
    (gradient,) = torch.autograd.grad(out, seen["embedding"])
    assert bool(gradient[0, :5].abs().sum(-1).min() > 0) and not gradient[0, 5:].any()


@torch.no_grad()
def test_an_encoder_decoder_names_its_sides_and_cross_attention():
    model = lab.encoder_decoder(**SIZES | {"positions": "none"}).double().eval()
    loosen(model)
    with lab.capture(model, "encoder.layers.0.attention.weights", "decoder.*.1.cross_attention.*") as seen:
        plain = model(IDS, source=IDS[:, :5])
    assert seen["decoder.layers.1.cross_attention.weights"].shape == (2, 4, 9, 5)
    assert seen["encoder.layers.0.attention.weights"].shape == (2, 4, 5, 5)
    with lab.patch(model, {"decoder.layers.*.cross_heads": 0}):
        one = model(IDS, source=IDS[:, :5])
        other = model(IDS, source=IDS[:, 4:])
    torch.testing.assert_close(one, other)  # nothing is left of the source
    assert not torch.allclose(one, plain)


@torch.no_grad()
def test_an_adapters_keys_before_the_text_are_looked_at_too():
    model = decoder()
    lab.attach(model, lab.choice("adapters", "prefix", tokens=3))
    with lab.capture(model, "layers.0.attention.weights") as seen:
        model(IDS)
    weights = seen["layers.0.attention.weights"]
    assert weights.shape == (2, 4, 9, 12)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 4, 9).double())


@torch.no_grad()
def test_an_error_inside_the_block_leaves_the_model_as_it_was():
    model = decoder()
    plain = model(IDS)
    wrong = {"layers.1.heads.2": torch.zeros(3, 3)}
    with pytest.raises(ConfigError, match=r"shape \(3, 3\), and .* \(2, 9, 4\)"), lab.patch(model, wrong):
        model(IDS)
    assert torch.equal(model(IDS), plain) and left_alone(model)


def test_a_misspelt_place_is_answered_with_the_places_there_are():
    model = decoder()
    with pytest.raises(ConfigError) as told, lab.capture(model, "layers.1.head.2"):
        pass
    assert "Did you mean layers.1.heads.2?" in str(told.value)
    assert "layers.N.attention.weights" in str(told.value) and "N from 0 to 1 and M from 0 to 3" in str(
        told.value
    )
    with pytest.raises(ConfigError, match="no place"), lab.patch(model, {"layers.2.output": 0}):
        pass
    assert left_alone(model)


def test_what_did_not_flow_is_said():
    model = decoder()
    with lab.capture(model, "final") as seen:
        pass
    with pytest.raises(ConfigError, match="run the model inside the block"):
        seen["final"]
    with pytest.raises(ConfigError, match="was not captured"):
        seen["embedding"]
