"""Scores by parts, reach by depth, gradients, masked positions and cost: against theory and by hand."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy import stats

import attnlab as lab
from attnlab.config.values import ConfigError
from attnlab.explain import reach_by_depth as reaching
from attnlab.explain.attention_cost import AttentionCost, Grown, attention_cost, exponent
from attnlab.explain.gradient_flow import flow_of, gradient_flow
from attnlab.explain.head_vectors import head_vectors, mean_estimate
from attnlab.explain.masked_tokens_position import masked_positions
from attnlab.explain.reach_by_depth import reach_by_depth
from attnlab.explain.score_decomposition import bias_against_concatenation, score_decomposition
from attnlab.model.attention.argmax import Argmax
from attnlab.model.attention.dot import Dot
from attnlab.model.contracts.small_models import loosen
from attnlab.model.model import hidden_states
from attnlab.model.positions.absolute import sinusoids
from attnlab.model.score_parts import CROSS, score_parts
from attnlab.model.tokens import Tokens
from tests.session.commands import answer, command

IDS = torch.tensor([3, 9, 4, 1, 17, 4])


def model_of(family="encoder", *, loose=True, **settings):
    sizes = {"vocabulary": 64, "length": 32, "width": 16, "heads": 2, "layers": 2}
    model = getattr(lab, family)(**sizes | settings).double().eval()
    if loose:
        loosen(model)
    return model


# ---------------------------------------------------------------- scores
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "concat(part=4)"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"norm": "rms"},
        {"residual": "post", "embedding_norm": True, "token_types": 2},
        {"projections": "grouped(shared=1, query_key_norm=layer)"},
        {"projections": "shared_qk", "attention": "argmax"},
    ],
    ids=str,
)
@torch.no_grad()
def test_parts_add_up_to_the_scores_that_flow(positions, settings):
    """Those of the queries and keys that the model itself forms."""
    model = model_of(positions=positions, **settings)
    found = score_parts(model, IDS)
    with lab.capture(model, "layers.0.attention.*") as seen:
        model(IDS[None])
    q, k = seen["layers.0.attention.queries"], seen["layers.0.attention.keys"]
    scale = 1.0 if "attention" in settings else 8**-0.5
    flowed = scale * q @ k.repeat_interleave(2 // k.shape[1], 1).transpose(-1, -2)
    torch.testing.assert_close(found.scores, flowed[0], rtol=1e-9, atol=1e-9)
    assert found.error < 1e-6
    assert all(float(part.abs().max()) > 1e-6 for part in found.parts.values())


def test_concatenated_positions_cross_unless_projections_are_block_diagonal():
    model = model_of(positions="concat(part=4)")
    found = score_decomposition(model, IDS, [str(i) for i in IDS.tolist()])
    assert all(float(found.found.parts[name].abs().max()) > 1e-3 for name in CROSS)
    assert all(float(found.apart.parts[name].abs().max()) == 0 for name in CROSS)
    assert found.apart.error < 1e-6
    assert score_decomposition(model_of(positions="learned"), IDS, ["w"] * 6).apart is None


def test_a_relative_bias_of_positions_is_concatenation():
    assert bias_against_concatenation() < 1e-12
    waves = sinusoids(torch.arange(40), 16).double()
    product = waves @ waves.T
    for apart in (1, 7, 20):  # it depends on i − j alone
        diagonal = product.diagonal(apart)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), rtol=1e-5, atol=1e-5)


def test_what_has_no_such_parts_is_refused():
    with pytest.raises(ConfigError, match="not in the embedding"):
        score_parts(model_of(positions="rotary"), IDS)
    with pytest.raises(ConfigError, match="no product of query and key"):
        score_parts(model_of(attention="additive"), IDS)
    with pytest.raises(ConfigError, match="no head 2"):
        score_decomposition(model_of(positions="learned"), IDS, ["w"] * 6, head=2)


# ---------------------------------------------------------------- reach
@pytest.mark.parametrize("heads", [1, 2])
def test_argmax_reaches_at_most_heads_plus_one_to_the_depth(heads):
    model = model_of(attention="argmax", heads=heads, layers=3, loose=False)
    found = reach_by_depth(model, 32)
    assert [depth.argmax_bound for depth in found.depths] == [(heads + 1) ** n for n in (1, 2, 3)]
    assert all(depth.most <= depth.bound for depth in found.depths)
    assert found.depths[0].most == heads + 1  # and it is reached
    assert "stays within" in found.summary


def test_softmax_under_a_mask_reaches_what_the_mask_allows():
    window = reach_by_depth(model_of("decoder", mask="causal & window(size=3)", positions="none"), 20)
    assert [(d.most, d.declared) for d in window.depths] == [(3, 3), (5, 5)]
    group = reach_by_depth(model_of(attention="group(groups=4)", positions="none"), 32)
    assert [(d.most, d.declared) for d in group.depths] == [(8, 8), (8, 8)]
    assert reach_by_depth(model_of("decoder"), 20).depths[0].most == 20
    assert window.depths[0].argmax_bound is None


def test_a_layer_that_sees_too_much_is_seen(monkeypatch):
    """Fault injected: the bound is compared, not assumed."""
    model = model_of("decoder", mask="causal & window(size=3)", positions="none")
    monkeypatch.setattr(
        Dot, "forward", lambda self, q, k, v, pairs: (q @ k.transpose(-1, -2)).softmax(-1) @ v
    )
    assert "exceeds the bound at depth 1 and 2" in reach_by_depth(model, 20).summary


# ---------------------------------------------------------------- gradients
def test_argmax_passes_no_gradient_and_softmax_by_hand():
    none = flow_of(Argmax(), 16)
    assert none.queries == none.keys == none.scores == none.entropy == 0 and none.values > 0
    through = flow_of(Argmax(straight_through=True), 16)
    assert through.queries > 0 and through.entropy == 0
    assert flow_of(Dot(16), 16).entropy < math.log(32)


def test_without_the_scale_entropy_and_gradient_fall_with_width():
    found = gradient_flow()
    scaled = [flow.entropy for _, flow, _ in found.widths]
    plain = [flow.entropy for _, _, flow in found.widths]
    assert max(scaled) - min(scaled) < 0.5 and plain == sorted(plain, reverse=True) and plain[-1] < 0.3
    _, with_scale, without = found.widths[-1]
    assert without.scores < 0.01 * with_scale.scores
    by_temperature = [flow.scores for _, flow in found.temperatures]
    assert by_temperature[0] < 1e-6 < max(by_temperature)


# ---------------------------------------------------------------- masked positions
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "relative", "alibi"])
def test_masked_outputs_are_identical_once_their_position_is_masked_too(positions):
    row = torch.tensor([5, 0, 6, 7, 0, 8, 0])
    found = masked_positions(model_of(positions=positions), row, [1, 4, 6], ["w"] * 7)
    assert found.identical and float(found.kept.max()) > 0.01
    control = masked_positions(model_of(positions="none"), row, [1, 4, 6], ["w"] * 7)
    assert float(control.kept.max()) < 1e-9  # without positions there was nothing to keep


def test_masked_positions_are_refused_where_they_would_not_show():
    with pytest.raises(ConfigError, match="sees only what stands before"):
        masked_positions(model_of("decoder"), IDS, [1, 2], ["w"] * 6)
    with pytest.raises(ConfigError, match="twice"):
        masked_positions(model_of(), IDS, [1], ["w"] * 6)


# ---------------------------------------------------------------- cost
def test_operations_grow_as_the_formulas_say():
    found = attention_cost((16, 32, 64), held=32, width=16, rounds=2)
    assert len(found.grown) == 7
    for one in found.grown:
        assert one.of_flops == pytest.approx(one.theory, abs=1e-6)
        assert all(seconds > 0 for seconds in one.seconds)
    first = found.grown[0]
    assert first.flops[0] == 4 * 16 * 16 * 16  # two products of M·M·d, multiply and add apart
    assert exponent([1, 2, 4], [3, 12, 48]) == pytest.approx(2)


def test_noisy_times_are_not_fitted():
    def cost(*rounds):
        return AttentionCost([Grown("cross-attention", "M", [1, 2], [1.0, 2.0], rounds, 1)], 8, 8)

    steady = cost((1.0, 2.0), (1.0, 2.0), (9.0, 2.0), (1.0, 9.0))  # a slow round is no reason to give up
    assert steady.grown[0].of_seconds == pytest.approx(1) and "Time has exponents from 1.00" in steady.summary
    busy = cost((1.0, 2.0), (1.0, 8.0), (1.0, 2.0), (1.0, 8.0))
    assert busy.grown[0].noise == pytest.approx(2) and "too noisy to fit" in busy.summary


# ---------------------------------------------------------------- commands
def test_the_commands(tmp_path):
    small = ["--set", "model.width=16", "--set", "model.heads=2", "--set", "model.layers=2"]
    told = answer("explain", "reach", *small, "--set", "model.attention=argmax", "--length", 12)
    assert [depth["argmax_bound"] for depth in told["depths"]] == [3, 9]
    told = answer("explain", "scores", *small, "--text", "the man chased the dog")
    assert told["words"] == ["the", "man", "chased", "the", "dog"] and told["error"] < 1e-5
    assert answer("explain", "masked-positions", *small)["identical"]
    page = tmp_path / "page.html"
    shown = command("explain", "gradients", "--html", page)
    assert shown.exit_code == 0 and "Argmax gives queries a gradient of 0" in " ".join(shown.stdout.split())
    assert page.read_text().count('class="chart on-desk"') == 3 and "http" not in page.read_text().replace(
        "http-equiv", ""
    )
    assert command("explain", "cost", "--longest", 64).exit_code == 0


@torch.no_grad()
def test_heads_of_a_model_without_a_loss_are_judged_by_the_vectors_of_texts():
    """Against the same model with the head's columns of the output map at 0."""
    model = lab.encoder(vocabulary=20, width=16, heads=4, layers=2, output="features").eval()
    loosen(model)
    ids = torch.randint(20, (6, 7), generator=torch.Generator().manual_seed(0))

    def embed():
        return F.normalize(model(ids, objective=hidden_states).mean(1), dim=-1)

    found, usual = head_vectors(model, embed, on="six texts"), embed()
    assert len(found.heads) == 8 and found.texts == 6
    place = model.trunk.main.attentions()[1].output.weight
    kept = place.clone()
    place[:, 8:12] = 0
    turned = 1 - (usual.double() * embed().double()).sum(-1)
    place.copy_(kept)
    (one,) = (head for head in found.heads if head.name.place == "layers.1.heads.2")
    assert one.turned.value == pytest.approx(float(turned.mean()), rel=1e-4)
    low, high = stats.t.interval(0.95, 5, float(turned.mean()), float(turned.std()) / 6**0.5)
    assert (one.turned.low, one.turned.high) == pytest.approx((low, high), rel=1e-3)
    assert found.ranked[0].turned.value >= found.ranked[-1].turned.value and "of 1 − cosine" in found.headline
    assert mean_estimate(np.array([0.5])).interval is None


def test_of_a_long_row_some_outputs_are_measured_the_last_among_them(monkeypatch):
    """Each as by a backward of its own, however many rows go together; and it says how far it is."""
    model, told = model_of("decoder", mask="causal & window(size=3)", positions="none", length=128), []
    monkeypatch.setattr(reaching, "SHORT", 8)
    monkeypatch.setattr(reaching, "OUTPUTS", 5)
    monkeypatch.setattr(reaching, "TOGETHER", 80)
    found = reach_by_depth(model, 40, progress=lambda done, of: told.append((done, of)))
    assert found.outputs == 5 and reaching.spread_outputs(40) == [0, 10, 20, 29, 39]
    assert told == [(0, 5), (2, 5), (4, 5)] and found.as_json()["outputs"] == 5
    assert [depth.most for depth in found.depths] == [3, 5] and found.depths[1].mean == (1 + 5 * 4) / 5
    tokens = Tokens.of(40)
    ids = torch.randperm(64, generator=torch.Generator().manual_seed(0))[:40][None]
    by_rows = reaching._dependencies(model, ids, tokens, 2, [0, 7, 39], lambda done, of: None)
    monkeypatch.setattr(reaching, "TOGETHER", 1)
    alone = reaching._dependencies(model, ids, tokens, 2, [0, 7, 39], lambda done, of: None)
    assert all(torch.equal(one, other) for one, other in zip(by_rows, alone, strict=True))
