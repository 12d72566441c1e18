"""What the contracts do not say of single rules: precision, cost, dropout."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import attnlab as lab
from attnlab.model.attention import ATTENTION
from attnlab.model.attention.additive import Additive
from attnlab.model.masks import Causal
from attnlab.model.pairs import Pairs
from attnlab.model.tokens import Tokens


@pytest.mark.parametrize("size", [0.01, 1.0, 8.0, 15.0, 40.0, 1000.0])
@pytest.mark.parametrize("causal", [False, True])
def test_additive_in_float32_is_as_exact_as_float32_can_be(size, causal):
    """Where e^{2x}·e^{2y} stays in range and where it would overflow; value and gradient against float64."""
    torch.manual_seed(0)
    rule = Additive(2, 4)
    g = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 2, 40, 4, generator=g) * size for _ in range(3))
    v = v / size
    tokens = Tokens.of(40)

    def results(kind, plain):
        inputs = [x.clone().to(kind).requires_grad_() for x in (q, k, v)]
        twin = Additive(2, 4).to(kind)
        twin.load_state_dict(rule.state_dict())
        pairs = Pairs(tokens, tokens, Causal()) if causal else Pairs(tokens, tokens)
        y = twin.weights(inputs[0], inputs[1], pairs) @ inputs[2] if plain else twin(*inputs, pairs)
        y.square().sum().backward()
        return [y.detach(), *(x.grad for x in inputs), *(p.grad for p in twin.parameters())]

    exact, plain, fast = (
        results(torch.float64, True),
        results(torch.float32, True),
        results(torch.float32, False),
    )
    for wanted, slow, quick in zip(exact, plain, fast, strict=True):
        unit = float(wanted.abs().max()) + 1e-9
        errors = [float((x - wanted).abs().max()) / unit for x in (slow, quick)]
        assert errors[1] < max(2e-5, 3 * errors[0]), errors


def test_a_query_far_along_one_key_copies_its_value_without_overflow():
    """Source document D: S = 1e5 on the given keys selects one value, and all at once."""
    k = torch.tensor([[0.47, 0.65, 0.60], [0.64, 0.50, -0.59], [-0.03, -0.48, -0.88], [0.43, -0.83, 0.35]])
    v, rule = torch.eye(4, 3) + torch.arange(4.0)[:, None], ATTENTION.build("dot(scale=1.0)", head_width=3)
    shaped = [x[None, None] for x in (1e5 * k, k, v)]
    pairs = Pairs(Tokens.of(4), Tokens.of(4))
    for output in (rule(*shaped, pairs), rule.weights(*shaped[:2], pairs) @ shaped[2]):
        assert torch.allclose(output[0, 0], v)


def test_the_mean_of_all_keys_is_not_an_average_of_all_values(double):
    """Source document D: the mean query gives 0.228, 0.286, 0.240, 0.246; zero gives exact quarters."""
    k = torch.tensor([[0.47, 0.65, 0.60], [0.64, 0.50, -0.59], [-0.03, -0.48, -0.88], [0.43, -0.83, 0.35]])
    rule, pairs = ATTENTION.build("dot(scale=1.0)", head_width=3), Pairs(Tokens.of(1), Tokens.of(4))
    weights = rule.weights(k.mean(0)[None, None, None], k[None, None], pairs).flatten()
    assert [round(w, 3) for w in weights.tolist()] == [0.228, 0.286, 0.240, 0.246]
    assert rule.weights(torch.zeros(1, 1, 1, 3), k[None, None], pairs).flatten().tolist() == [0.25] * 4


@pytest.mark.parametrize(
    ("choice", "share"), [("group(groups=8)", 1 / 8), ("window(size=16)", 3 / 16), ("linear", 0.3)]
)
def test_cheaper_rules_really_compute_less(choice, share):
    """Counted by torch, not by our formulas, at n = 256, without fused kernels that it cannot see into."""

    def flops(name):
        rule = ATTENTION.build(
            name, heads=2, head_width=16, length=256, masking="zero"
        )  # zero: no fused kernel
        q, k, v = (torch.randn(1, 2, 256, 16) for _ in range(3))
        with FlopCounterMode(display=False) as counter:
            rule(q, k, v, Pairs(Tokens.of(256), Tokens.of(256)))
        return counter.get_total_flops()

    assert flops(choice) <= flops("dot") * share * 1.01


@pytest.mark.parametrize("attention", ["dot", "additive", "group", "window(size=4)"])
def test_attention_dropout_keeps_the_mean_and_is_off_in_evaluation(attention):
    model = lab.decoder(
        vocabulary=11, width=16, heads=2, layers=1, length=16, attention=attention, attention_dropout=0.5
    )
    ids = torch.arange(10)[None] % 11
    rule = model.trunk.decoder.rules()[0]
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 10, 8) for _ in range(3))
    pairs = Pairs(Tokens.of(10), Tokens.of(10), Causal())
    model.eval()
    sure = rule(q, k, v, pairs).detach()
    assert torch.equal(sure, rule(q, k, v, pairs).detach()) and torch.equal(model(ids), model(ids))
    model.train()
    drawn = torch.stack([rule(q, k, v, pairs).detach() for _ in range(3000)])
    assert float(drawn.std(0).max()) > 0.1
    assert float((drawn.mean(0) - sure).abs().max()) < 0.12


@pytest.mark.parametrize("attention", ["linear", "argmax", "group(inner=linear)"])
def test_attention_without_weights_refuses_dropout(attention):
    with pytest.raises(lab.ConfigError, match="no weights to drop"):
        lab.decoder(attention=attention, attention_dropout=0.1)


def test_group_borders_do_not_move_with_the_length():
    """A longer text, or a cache, must not change what an earlier token saw."""
    model = lab.decoder(
        vocabulary=30, width=16, heads=2, layers=1, length=32, attention="group(groups=8)"
    ).eval()
    ids = torch.arange(20)[None]
    long, short = model(ids), model(ids[:, :9])
    assert torch.allclose(long[:, :9], short, atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"attention": "linear", "positions": "alibi"}, "does not factorise"),
        ({"attention": "group(inner=linear)", "positions": "relative"}, "does not factorise"),
        ({"attention": "window(inner=linear)"}, "cannot forget"),
        ({"attention": "linear", "mask": "causal & window"}, "cannot forget"),
        ({"mask": "window"}, "shows it the future"),
        ({"mask": "bidirectional"}, "shows it the future"),
        ({"family": "encoder_decoder", "cross_attention": "group"}, "two"),
        ({"projections": "grouped(shared=3)"}, "cannot evenly share"),
        ({"projections": "shared_qk(shared=2)"}, 'there is no "shared"'),
    ],
    ids=str,
)
def test_what_cannot_work_is_refused_when_the_model_is_made(settings, words):
    with pytest.raises(lab.ConfigError, match=words):
        (lab.encoder_decoder if settings.pop("family", "") else lab.decoder)(**settings)


def test_linear_attention_beside_a_packed_source_of_the_same_length(double):
    """Equal lengths on both sides do not make them the same tokens."""
    rule = ATTENTION.build("linear")
    g = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 2, 6, 4, generator=g) for _ in range(3))
    target, source = torch.tensor([[0, 0, 0, 0, 1, 1]]), torch.tensor([[0, 0, 1, 1, 1, 1]])
    y = rule(q, k, v, Pairs(Tokens.of(6, document=target), Tokens.of(6, document=source)))
    first = rule(q[:, :, :4], k[:, :, :2], v[:, :, :2], Pairs(Tokens.of(4), Tokens.of(2)))
    second = rule(q[:, :, 4:], k[:, :, 2:], v[:, :, 2:], Pairs(Tokens.of(2), Tokens.of(4)))
    assert torch.allclose(y, torch.cat([first, second], 2))
    with pytest.raises(ValueError, match="packed on one side only"):
        Pairs(Tokens.of(6, document=target), Tokens.of(6))


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_linear_attention_sums_in_float32(kind):
    """A long text neither overflows the denominator nor swallows what comes late, read at once or decoded."""
    rule, T = ATTENTION.build("linear"), 2000
    g = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 1, T, 64, generator=g) for _ in range(3))
    tokens = Tokens.of(T)
    exact = rule(q, k, v, Pairs(tokens, tokens, Causal()))
    half = [x.to(kind) for x in (q, k, v)]
    assert float((rule(*half, Pairs(tokens, tokens, Causal())).float() - exact).abs().max()) < 0.02
    memory = rule.memory(1)
    for t in range(T):
        here = tokens.part(t, t + 1)
        y = rule.recall(memory, *(x[:, :, t : t + 1] for x in half), Pairs(here, here, Causal()))
    assert float((y.float() - exact[:, :, -1:]).abs().max()) < 0.02


@pytest.mark.parametrize(
    "attention", ["dot", "additive", "argmax(straight_through=true)", "group", "window(size=4)"]
)
@pytest.mark.parametrize("masking", ["-inf", "zero"])
def test_half_precision_models_take_a_bias(attention, masking):
    model = lab.decoder(
        vocabulary=11,
        width=16,
        heads=2,
        layers=1,
        length=16,
        attention=attention,
        masking=masking,
        positions="alibi",
    ).bfloat16()
    assert model(torch.zeros(1, 12, dtype=torch.long)).isfinite().all()


def test_padding_fattens_no_group():
    """A row that is nearly all padding must not make every block as large as the row."""
    rule = ATTENTION.build("group(groups=8)", head_width=4, length=256)
    real = torch.zeros(2, 256, dtype=torch.bool)
    real[0, -8:] = True
    real[1] = True
    tokens = Tokens.of(256, real=real)
    q = torch.randn(2, 1, 256, 4)
    with FlopCounterMode(display=False) as counter:
        rule.inner.masking = "zero"  # no fused kernel, whose operations are not counted
        rule(q, q, q, Pairs(tokens, tokens))
    assert counter.get_total_flops() < 3 * 2 * rule.flops(256, 256, 1, 4)


def test_a_rule_must_say_how_its_parameters_begin_and_take_the_masking(double):
    from attnlab.model.attention.rule import Rule

    class Unfilled(Rule):
        """Unfilled: parameters that nothing initialises."""

        def __init__(self, masking="-inf", dropout=0.0):
            super().__init__(masking, dropout)
            self.weight = torch.nn.Parameter(torch.empty(3))

    class Deaf(Rule):
        """Deaf: hands no masking on."""

        def __init__(self):
            super().__init__()

    for name, rule, settings, words in (
        ("unfilled", Unfilled, {}, "does not say how they begin"),
        ("deaf", Deaf, {"masking": "zero"}, "does not take masking"),
    ):
        ATTENTION.register(name, rule)
        try:
            with pytest.raises(ValueError, match=words):
                lab.decoder(attention=name, **settings)
        finally:
            ATTENTION.unregister(name)
