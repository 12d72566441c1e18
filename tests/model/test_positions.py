import pytest
import torch

import attnlab as lab
from attnlab.model.positions import POSITIONS
from attnlab.model.positions.absolute import sinusoids
from attnlab.model.positions.biases import Bucketed
from attnlab.model.tokens import Tokens


def test_relative_bias_has_one_number_a_distance_head_and_layer():
    """Source document C: (2(T−1)+1)·m extra parameters a layer; clipped at k, 2k+1 a head."""
    T, m, layers = 50, 4, 3
    full = POSITIONS.build("relative", heads=m, layers=layers, length=T)
    assert sum(p.numel() for p in full.parameters()) == layers * (2 * (T - 1) + 1) * m
    clipped = POSITIONS.build("relative(clip=8)", heads=m, layers=layers, length=T)
    assert sum(p.numel() for p in clipped.parameters()) == layers * (2 * 8 + 1) * m


def test_near_sinusoids_are_alike():
    waves = sinusoids(torch.arange(200), 64).double()
    assert torch.allclose(waves.square().sum(1), torch.full((200,), 32.0, dtype=torch.float64), atol=1e-4)
    inner = waves @ waves[100]
    assert inner[101] > 0.9 * inner[100] > inner[110] and abs(inner[160]) < 0.7 * inner[100]


def test_rotated_products_depend_on_the_difference_alone(double):
    rotary = POSITIONS.build("rotary", head_width=8)
    q, k = torch.randn(2, 1, 1, 1, 8, generator=torch.Generator().manual_seed(0))

    def product(i, j):
        at = [rotary.rotation(Tokens(torch.tensor([[p]]), torch.tensor([[p]]))) for p in (i, j)]
        return float((at[0](q) * at[1](k)).sum())

    assert abs(product(3, 9) - product(53, 59)) < 1e-5
    assert abs(product(3, 9) - product(3, 10)) > 1e-3


def test_a_rotation_turns_each_pair_by_its_angle_and_its_gradient_turns_back(double):
    tokens = Tokens.of(5, document=torch.tensor([[0, 0, 0, 1, 1], [0, 1, 1, 1, 1]]))
    rotation = POSITIONS.build("rotary", head_width=6).rotation(tokens)
    drawn = torch.randn(2, 5, 3, 6, generator=torch.Generator().manual_seed(0))
    x = drawn.transpose(1, 2).requires_grad_()  # as projections give it
    pairs = torch.complex(x[..., :3], x[..., 3:])
    angle = tokens.position[:, None, :, None] * 10_000.0 ** (-torch.arange(0, 6, 2) / 6)
    expected = torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle))
    expected = torch.cat([expected[..., 0], expected[..., 1]], -1)
    for found in (rotation(x), rotation(x.detach())):
        torch.testing.assert_close(found, expected.detach().expand_as(found), rtol=0, atol=1e-6)
    assert torch.autograd.gradcheck(rotation, (x,))


@pytest.mark.parametrize("family", ["encoder", "decoder"])
def test_word_order_needs_positions_in_an_encoder(family, double):
    """ "The man chased the dog": without positions an encoder only sees a bag, a causal decoder does not."""
    ids = torch.tensor([[5, 6, 7, 5, 8]])
    turned = torch.tensor([[5, 8, 7, 5, 6]])
    differs = {}
    for positions in ("none", "sinusoidal"):
        build = getattr(lab, family)
        model = build(vocabulary=20, width=16, heads=2, layers=2, positions=positions).double()
        first, second = (model.trunk(x)[0, 2] for x in (ids, turned))  # the verb, in the middle
        differs[positions] = float((first - second).detach().abs().max()) > 1e-9
    assert differs == {"none": family == "decoder", "sinusoidal": True}


@pytest.mark.parametrize("choice", ["learned", "relative", "concat"])
@torch.no_grad()
def test_text_beyond_the_end_is_refused_with_the_way_out(choice):
    model = lab.decoder(vocabulary=20, width=32, heads=2, layers=1, length=8, positions=choice)
    model(torch.zeros(1, 8, dtype=torch.long))
    with pytest.raises(ValueError, match=r"end at 8, and this text has a token at 8.*raise model\.length"):
        model(torch.zeros(1, 9, dtype=torch.long))
    packed = Tokens.of(12, document=torch.arange(12)[None] // 6)
    model(torch.zeros(1, 12, dtype=torch.long), packed)  # positions restart, so this fits
    cache = model.trunk.cache()
    model(torch.zeros(1, 8, dtype=torch.long), Tokens.of(8), cache=cache)
    with pytest.raises(ValueError, match="end at 8"):
        model(torch.zeros(1, 1, dtype=torch.long), cache.following(1), cache=cache)


@pytest.mark.parametrize("choice", ["none", "sinusoidal", "relative(clip=4)", "rotary", "alibi", "bucketed"])
def test_schemes_without_an_end_take_any_length(choice):
    model = lab.decoder(vocabulary=20, width=32, heads=2, layers=1, length=8, positions=choice)
    assert model(torch.zeros(1, 40, dtype=torch.long)).isfinite().all()


def test_buckets_are_exact_near_and_logarithmic_far():
    two_sided = Bucketed(heads=1, buckets=32, distance=128)
    near = two_sided.bucket(torch.arange(-7, 8)).tolist()
    assert near == [7, 6, 5, 4, 3, 2, 1, 0, 17, 18, 19, 20, 21, 22, 23]
    assert two_sided.bucket(torch.tensor([-127, -5000, 5000])).tolist() == [15, 15, 31]
    one_sided = Bucketed(heads=1, looks_back=True, buckets=32, distance=128)
    assert one_sided.bucket(torch.tensor([3, 0, -1, -15, -9999])).tolist() == [0, 0, 1, 15, 31]


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ("rotary", "head width of 5 is odd"),
        ("concat(part=99)", "must leave some for words"),
        ("relative(clip=0)", "at least 1"),
        ("bucketed(buckets=5)", "must be even"),
        ("bucketed(buckets=64, distance=32)", "must be above buckets"),
    ],
)
def test_options_that_cannot_work_are_refused(choice, words):
    with pytest.raises(lab.ConfigError, match=words):
        lab.decoder(width=20, heads=4, positions=choice)
