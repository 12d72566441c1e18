"""Patches as tokens: 2-D positions, groups by modality and fusion against plain references."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from attnlab.config.files import config_of, identity, load, to_json
from attnlab.config.pictures import PictureGrid
from attnlab.config.schema import ModelSettings
from attnlab.config.values import Choice, ConfigError
from attnlab.model.assemble import build_model
from attnlab.model.attention import ATTENTION
from attnlab.model.attention.dot import Dot
from attnlab.model.counts import count
from attnlab.model.masks import Bidirectional, Causal
from attnlab.model.model import hidden_states
from attnlab.model.pairs import Pairs
from attnlab.model.positions import POSITIONS
from attnlab.model.tokens import BOTTLENECK, Tokens

SIDE, WORDS = 2, 3
PATCH = [0, *range(1, SIDE * SIDE + 1), 0, *[0] * WORDS, 0]
"""[CLS] four patches [SEP] three words [SEP]."""
LENGTH = len(PATCH)
CELLS = {n + 1: (n // SIDE, n % SIDE) for n in range(SIDE * SIDE)}
BOTH = (Choice("image", {"size": 8, "patch": 4}), Choice("text"))


def row(**marks) -> Tokens:
    return Tokens.of(LENGTH, patch=torch.tensor([PATCH]), **marks)


def axes(token: int) -> tuple[int, int]:
    return CELLS[PATCH[token]] if PATCH[token] else (token, token)


def positions(kind: str, **options):
    built = POSITIONS.build(
        Choice(kind, options), width=12, heads=1, head_width=12, layers=1, length=LENGTH, grid=SIDE
    )
    return built.double()


# ---------------------------------------------------------------- positions
def test_sinusoidal_waves_go_by_row_and_column_in_turn():
    x = torch.zeros(1, LENGTH, 12, dtype=torch.float64)
    added = positions("sinusoidal")(x, row())[0]
    for token in range(LENGTH):
        for wave in range(6):
            angle = axes(token)[wave % 2] * 10_000 ** (-2 * wave / 12)
            assert float(added[token, 2 * wave]) == pytest.approx(math.sin(angle), abs=1e-6)
            assert float(added[token, 2 * wave + 1]) == pytest.approx(math.cos(angle), abs=1e-6)
    plain = positions("sinusoidal")(x, Tokens.of(LENGTH))[0]
    words = torch.tensor(PATCH) == 0
    assert torch.equal(added[words], plain[words])
    assert torch.equal(positions("sinusoidal", patches="order")(x, row())[0], plain)


def test_rotary_turns_pairs_by_row_and_column_in_turn():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, 1, LENGTH, 12, generator=generator, dtype=torch.float64)
    turned = positions("rotary").rotation(row())(x)[0, 0]
    for token in range(LENGTH):
        for pair in range(6):
            angle = axes(token)[pair % 2] * 10_000 ** (-2 * pair / 12)
            a, b = float(x[0, 0, token, pair]), float(x[0, 0, token, pair + 6])
            assert float(turned[token, pair]) == pytest.approx(
                a * math.cos(angle) - b * math.sin(angle), abs=1e-5
            )
            assert float(turned[token, pair + 6]) == pytest.approx(
                b * math.cos(angle) + a * math.sin(angle), abs=1e-5
            )
    plain = positions("rotary").rotation(Tokens.of(LENGTH))(x)[0, 0]
    words = torch.tensor(PATCH) == 0
    assert torch.equal(turned[words], plain[words])


def test_scores_of_patches_depend_on_how_far_rows_and_columns_are_apart():
    patch = torch.arange(1, 17)[None]
    tokens = Tokens.of(16, patch=patch)
    rotary = POSITIONS.build("rotary", head_width=8, grid=4)
    q, k = torch.randn(2, 1, 1, 1, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    turn = rotary.rotation(tokens)
    scores = turn(q.expand(1, 1, 16, 8))[0, 0] @ turn(k.expand(1, 1, 16, 8))[0, 0].T
    for i, j in ((0, 5), (1, 6), (5, 10), (10, 15)):  # one row down, one column to the right
        assert float(scores[i, j]) == pytest.approx(float(scores[0, 5]), abs=1e-5)
    assert abs(float(scores[0, 1] - scores[0, 4])) > 1e-3  # beside is not below


def test_learned_positions_have_half_a_row_and_half_a_column():
    learned = positions("learned")
    x = torch.zeros(1, LENGTH, 12, dtype=torch.float64)
    added = learned(x, row())[0]
    for token in range(LENGTH):
        if PATCH[token]:
            r, c = CELLS[PATCH[token]]
            wanted = torch.cat([learned.rows.weight[r], learned.columns.weight[c]])
        else:
            wanted = learned.table.weight[token]
        assert torch.equal(added[token], wanted)
    assert positions("learned", patches="order").rows is None


# ---------------------------------------------------------------- groups and fusion against masks by hand
def allowed_by_hand(kind: str, own: bool, i: int, j: int, groups) -> bool:
    if kind == "early" or groups[i] == groups[j]:
        return True
    if kind == "bottleneck" and not own:
        return BOTTLENECK in (groups[i], groups[j])
    return kind == "late" and not own


def by_hand(q, k, v, allowed):
    """Attention with a dense mask, a query at a time, in float64 numpy."""
    q, k, v = (t.double().numpy() for t in (q, k, v))
    out = np.zeros_like(q)
    for b, h, i in np.ndindex(q.shape[:3]):
        keys = [j for j in range(k.shape[2]) if allowed(b, i, j)]
        scores = np.array([q[b, h, i] @ k[b, h, j] for j in keys]) / math.sqrt(q.shape[3])
        weights = np.exp(scores - scores.max())
        out[b, h, i] = (weights / weights.sum()) @ v[b, h, keys]
    return torch.from_numpy(out)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_group_by_modality_is_a_masked_dot_and_is_computed_in_parts(causal, padded, monkeypatch):
    rule = ATTENTION.build("group(by=modality)", heads=2, head_width=4, length=LENGTH, patches=SIDE * SIDE)
    real = torch.ones(2, LENGTH, dtype=torch.bool)
    real[1, -2:] = not padded
    tokens = row(real=real if padded else None)
    pairs = Pairs(tokens, tokens, Causal() if causal else Bidirectional())
    q, k, v = torch.randn(3, 2, 2, LENGTH, 4, generator=torch.Generator().manual_seed(2)).double()
    asked = []
    own = Dot.forward
    monkeypatch.setattr(
        Dot,
        "forward",
        lambda self, q, k, v, p: asked.append((q.shape[2], k.shape[2])) or own(self, q, k, v, p),
    )
    image = [number > 0 for number in PATCH]
    wanted = by_hand(
        q, k, v, lambda b, i, j: image[i] == image[j] and (j <= i or not causal) and bool(real[b, j])
    )
    torch.testing.assert_close(
        rule(q, k, v, pairs)[real[:, None].expand(-1, 2, -1)], wanted[real[:, None].expand(-1, 2, -1)]
    )
    assert sorted(asked) == [(4, 4), (LENGTH - 4, LENGTH - 4)]
    plain = rule.weights(q, k, pairs) @ v
    torch.testing.assert_close(rule(q, k, v, pairs), plain)


def test_rows_whose_patches_stand_elsewhere_are_attended_all_the_same():
    rule = ATTENTION.build("group(by=modality)", heads=1, head_width=4, length=LENGTH, patches=4)
    patch = torch.tensor([PATCH, [0, *PATCH[:-1]]])
    tokens = Tokens.of(LENGTH, patch=patch)
    q, k, v = torch.randn(3, 2, 1, LENGTH, 4, generator=torch.Generator().manual_seed(3)).double()
    wanted = by_hand(q, k, v, lambda b, i, j: bool((patch[b, i] > 0) == (patch[b, j] > 0)))
    torch.testing.assert_close(rule(q, k, v, Pairs(tokens, tokens)), wanted)


def settings(fusion="early", layers=3, **others) -> ModelSettings:
    given = {
        "family": "encoder",
        "inputs": BOTH,
        "fusion": Choice(*fusion) if isinstance(fusion, tuple) else Choice(fusion),
    }
    sizes = {
        "vocabulary": 11,
        "length": LENGTH,
        "width": 8,
        "layers": layers,
        "heads": 2,
        "mask": Choice("bidirectional"),
    }
    return ModelSettings(**given | sizes | others)


FUSIONS = {
    "early": ("early", 0, 0),
    "never": ("never", 0, 9),
    "late": (("late", {"layers": 2}), 0, 2),
    "bottleneck": (("bottleneck", {"tokens": 2, "layers": 1}), 2, 1),
}


@pytest.mark.parametrize("kind", FUSIONS)
def test_each_layer_of_a_fusion_attends_by_its_mask(kind):
    """What every layer's attention gives, against a mask that is built by hand from the schedule."""
    fusion, before, own_layers = FUSIONS[kind]
    model = build_model(settings(fusion), seed=1).double().eval()
    groups = [BOTTLENECK] * before + [int(number > 0) for number in PATCH]
    asked = []
    for attention in model.trunk.encoder.attentions():
        attend = attention.attend
        attention.attend = lambda q, k, v, pairs, memory=None, own=attend: (
            asked.append((q, k, v, own(q, k, v, pairs, memory))) or asked[-1][-1]
        )
    vectors = torch.randn(2, LENGTH, 48, generator=torch.Generator().manual_seed(4)).double()
    ids = torch.randint(11, (2, LENGTH), generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        model(ids, row(), vectors=vectors, objective=hidden_states)
    assert len(asked) == 3
    for layer, (q, k, v, given) in enumerate(asked):
        wanted = by_hand(
            q, k, v, lambda b, i, j, own=layer < own_layers: allowed_by_hand(kind, own, i, j, groups)
        )
        torch.testing.assert_close(given, wanted)


@pytest.mark.parametrize("kind", FUSIONS)
def test_what_a_stack_declares_is_what_its_outputs_depend_on(kind):
    """By gradients: the words' outputs on the patches' pixels."""
    fusion, _, _ = FUSIONS[kind]
    model = build_model(settings(fusion), seed=2).double().eval()
    vectors = torch.randn(1, LENGTH, 48, generator=torch.Generator().manual_seed(4)).double().requires_grad_()
    ids = torch.randint(11, (1, LENGTH), generator=torch.Generator().manual_seed(5))
    hidden = model(ids, row(), vectors=vectors, objective=hidden_states)
    reach = model.trunk.ways(row())[0].reach
    for token in range(LENGTH):
        (gradient,) = torch.autograd.grad(hidden[0, token, 0], vectors, retain_graph=True)
        touched = gradient[0].abs().sum(-1) > 1e-12
        assert torch.equal(touched, reach[token]), token
    crosses = bool(reach[-1, 1])
    assert crosses == (kind != "never")


@pytest.mark.parametrize("kind", FUSIONS)
@pytest.mark.parametrize("scheme", ["sinusoidal", "rotary", "learned", "concat(part=4)", "alibi"])
def test_counts_in_closed_form_are_those_of_the_module(kind, scheme):
    name, _, option = scheme.partition("(")
    choice = Choice(name, {"part": 4} if option else {})
    model = build_model(settings(FUSIONS[kind][0], positions=choice))
    counted = count(model, length=LENGTH, source_length=LENGTH, batch=1)
    assert counted.closed_form == counted.total


def test_the_operations_of_attention_fall_as_the_tokens_of_each_modality():
    def between(fusion):
        model = build_model(
            settings(fusion, length=74, inputs=(Choice("image", {"size": 32, "patch": 4}), Choice("text")))
        )
        terms = {term.name: term.count for term in count(model, length=74, source_length=74, batch=1).flops}
        return terms["encoder self-attention"]

    each = 2 * 2 * 8  # scores and values, of width 8
    patches, words = 64, 10
    assert between("early") == 3 * each * 74**2
    assert between("never") == 3 * each * (patches**2 + words**2)
    assert between(("late", {"layers": 2})) == each * (2 * (patches**2 + words**2) + 74**2)
    pairs = 4 * 78 + patches * (patches + 4) + words * (words + 4)
    assert between(("bottleneck", {"tokens": 4})) == 3 * each * pairs


# ---------------------------------------------------------------- settings
def test_inputs_and_fusion_are_recorded_only_where_they_are_set():
    plain = load(None)
    assert "inputs" not in to_json(plain)["model"] and "fusion" not in to_json(plain)["model"]
    config = load("image-classifier-mini")
    assert config.model.picture == PictureGrid(32, 4) and config.model.vector_width == 48
    assert identity(config_of(to_json(config))) == identity(config)
    several = load(
        "image-classifier-mini",
        set={"model.inputs": ["text", "image(size=16, patch=8)"], "data.encoding": "image_text"},
    )
    assert several.model.modalities == ("image", "text") and several.model.picture.patches == 4


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"fusion": "never", "inputs": Choice("image")}, "leave model.fusion out, or read both"),
        ({"fusion": "never", "family": "encoder_decoder"}, "an encoder_decoder has two"),
        ({"fusion": ("late", {"layers": 3})}, "fewer than one layer"),
        ({"fusion": ("bottleneck", {"layers": 2})}, "fewer than two layers"),
        (
            {"fusion": ("bottleneck", {}), "family": "decoder", "mask": Choice("causal")},
            "attend to all of it",
        ),
        (
            {"inputs": (Choice("image", {"size": 30, "patch": 4}),)},
            "not divisible into patches of 4; use patch 2, 3, 5, or a size of 28",
        ),
        ({"inputs": (Choice("text"), Choice("text"))}, "name each once"),
        ({"vectors": 7}, "leave model.vectors out"),
    ],
)
def test_what_cannot_work_is_refused_with_its_reason(changes, match):
    with pytest.raises(ConfigError, match=match):
        build_model(settings(**changes), device="meta")


def test_adapters_before_the_row_and_a_bottleneck_exclude_each_other():
    from attnlab.model.adapters.prompt import PromptTokens

    model = build_model(settings(FUSIONS["bottleneck"][0]))
    with pytest.raises(ValueError, match="bottleneck stand before every row"):
        model.trunk.encoder.accept(PromptTokens(2))


def test_a_mask_is_not_needed_where_modalities_are_whole():
    """Padding that no part has is no mask: fast paths need none."""
    from attnlab.model.attention.modalities import modality_parts

    real = torch.ones(2, LENGTH, dtype=torch.bool)
    real[0, -1] = False
    tokens = row(real=real)
    text, image = sorted(modality_parts(Pairs(tokens, tokens)), key=lambda part: len(part.queries) == 4)
    assert image.pairs.structure == "all" and text.pairs.structure == "dense"
    assert replace(tokens, real=None).group.shape == (1, LENGTH)
