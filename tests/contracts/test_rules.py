"""Every attention rule against the slow reference: mask × masking × bias × heads × layout."""

import numpy as np
import pytest
import torch

from attnlab.config.values import Choice
from attnlab.model.attention import ATTENTION
from attnlab.model.attention.argmax import Argmax
from attnlab.model.attention.rule import spread
from attnlab.model.combinations import MASK_CHOICES, examples
from attnlab.model.contracts import small_models as small
from attnlab.model.contracts.small_models import B, S, T
from attnlab.model.masks import MASKS
from attnlab.model.pairs import Pairs
from attnlab.model.tokens import Tokens
from tests import reference

H, K, N = 4, 4, 16
OPTIONS = [Choice("dot", {"softcap": 2.0}), Choice("additive", {"hidden": 3}), Choice("group", {"by": "ids"})]
GROUP = torch.tensor([[0, 1, 0, 1, 1, 2, 0], [5, 5, 5, 5, 2, 2, 2]])


def build(choice, masking):
    rule = ATTENTION.build(choice, heads=H, head_width=K, length=N, masking=masking).double()
    with torch.no_grad():
        for p in rule.parameters():
            p.copy_(torch.randn(p.shape, generator=torch.Generator().manual_seed(3)))
    return rule.eval()


def tensors(heads, shared, keys=T):
    g = torch.Generator().manual_seed(4)
    q = torch.randn(B, H, T, K, generator=g)
    if heads == "shared":
        return q, q, q
    k, v = (torch.randn(B, shared, keys, K, generator=g) for _ in range(2))
    return q, k, v


def expected(choice, rule, masking, q, k, v, mask, rows, bias, key_rows=None):
    """The reference, one query at a time; without key_rows it is self-attention."""
    choice = ATTENTION.resolve(choice)
    weights = {n.removeprefix("inner."): p.detach().numpy() for n, p in rule.named_parameters()}
    y = np.zeros((B, H, q.shape[2], K))
    for b, h, i in np.ndindex(B, H, q.shape[2]):
        row, shared = rows[b], h * k.shape[1] // H
        if key_rows is None:
            pattern = [reference.may_attend(mask, row, i, j) for j in range(k.shape[2])]
            layout = [reference.laid_out(choice, row, i, j, N) for j in range(k.shape[2])]
        else:
            pattern, layout = [True] * k.shape[2], key_rows[b].real
        kk, vv, qq = k[b, shared].numpy(), v[b, shared].numpy(), q[b, h, i].numpy()
        between = np.zeros(k.shape[2]) if bias is None else bias[0, h, i].numpy()
        y[b, h, i] = reference.attend(choice, masking, weights, h, qq, kk, vv, pattern, layout, between)
    return torch.from_numpy(y)


def marks(layout, mask):
    given = dict(small.LAYOUTS[layout], group=GROUP)
    if "source" in str(mask) or "prefix" in str(mask):
        given["source"] = small.SOURCE
    return given


def worst(*pairs):
    return max(float((a - b).detach().abs().max()) for a, b in pairs)


@pytest.mark.parametrize("choice", [*examples(ATTENTION), *OPTIONS], ids=str)
def test_rule_is_the_reference(choice):
    bias = torch.randn(1, H, T, T, generator=torch.Generator().manual_seed(5))
    cases = 0
    for masking in ("-inf", "zero"):
        rule = build(choice, masking)
        for mask in MASK_CHOICES:
            if not rule.takes(MASKS.build(mask)):
                continue
            for layout in small.LAYOUTS:
                given = marks(layout, mask)
                rows = [reference.Row(T, **{n: m[b] for n, m in given.items()}) for b in range(B)]
                tokens = Tokens.of(T, **given)
                for heads in ("all", "fewer", "shared"):
                    for between in (None, (bias,)) if rule.takes_bias else (None,):
                        q, k, v = tensors(heads, 2 if heads == "fewer" else H)
                        pairs = Pairs(tokens, tokens, MASKS.build(mask), between and _given(between[0]))
                        want = expected(
                            choice, rule, masking, q, k, v, MASKS.resolve(mask), rows, between and between[0]
                        )
                        plain = rule.weights(q, k, pairs) @ spread(v, H)
                        real = given["real"][:, None, :, None] if "real" in given else torch.tensor(True)
                        error = worst((rule(q, k, v, pairs) * real, want * real), (plain, want))
                        assert error < 1e-9, f"{choice} {mask} {masking} {layout} {heads}: {error:.1e}"
                        cases += 1
    assert cases >= 36


def _given(bias):
    """A bias by place: what a position scheme would give, without one."""

    def bias_of(queries, keys):
        i, j = queries.index[:, None, :, None], keys.index[:, None, None, :]
        return bias[0][torch.arange(H)[None, :, None, None], i, j]

    return bias_of


@pytest.mark.parametrize(
    "choice", [c for c in examples(ATTENTION) if c.kind not in ("group", "window")], ids=str
)
def test_cross_attention_is_the_reference(choice):
    rows = [reference.Row(T) for _ in range(B)]
    key_rows = [reference.Row(S, real=small.SOURCE_REAL[b]) for b in range(B)]
    pairs = Pairs(Tokens.of(T), Tokens.of(S, real=small.SOURCE_REAL))
    for masking in ("-inf", "zero"):
        rule = build(choice, masking)
        for shared in (H, 2):
            q, k, v = tensors("all", shared, S)
            want = expected(choice, rule, masking, q, k, v, None, rows, None, key_rows)
            plain = rule.weights(q, k, pairs) @ spread(v, H)
            assert worst((rule(q, k, v, pairs), want), (plain, want)) < 1e-9


@pytest.mark.parametrize("choice", [*examples(ATTENTION), *OPTIONS], ids=str)
def test_a_row_that_may_see_nothing_gives_zeros_and_no_nan(choice):
    """Left padding under a causal mask: the padding's own rows see nothing."""
    rule = build(choice, "-inf").train()
    q, k, v = (x.clone().requires_grad_() for x in tensors("all", H))
    tokens = Tokens.of(T, real=small.LEFT, group=GROUP)
    y = rule(q, k, v, Pairs(tokens, tokens, MASKS.build("causal")))
    assert (y[0, :, :2] == 0).all()
    y.square().sum().backward()
    for x in (q, k, v):
        assert x.grad is None or x.grad.isfinite().all()
    assert (v.grad[0, :, :2] == 0).all(), "padding got a gradient"


def test_argmax_worked_example():
    """Source document B: scores 3, 1, 1, −3, so the first value is the output; the scores get no gradient."""
    k = torch.tensor([[0, 1, 2], [1, 1, 2], [-1, 1, -2], [0, -1, -2]]).double()[None, None].requires_grad_()
    v = torch.tensor([[3, 2, -4], [3, -2, 4], [3, 2, 0], [3, 2, 0]]).double()[None, None].requires_grad_()
    q = torch.tensor([-2, 1, 1]).double()[None, None, None].requires_grad_()
    rule, pairs = ATTENTION.build("argmax"), Pairs(Tokens.of(1), Tokens.of(4))
    assert rule.scores(q, k).flatten().tolist() == [3, 1, 1, -3]
    y = rule(q, k, v, pairs)
    assert y.flatten().tolist() == [3, 2, -4]
    y.sum().backward()
    assert q.grad is None and k.grad is None
    assert v.grad[0, 0].tolist() == [[1, 1, 1], [0, 0, 0], [0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("straight_through", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_of_equal_keys_argmax_takes_the_first_whatever_rounding_says(dtype, straight_through):
    """A word that comes twice has equal keys: which one is taken must not depend on the rest of the batch."""
    step = torch.finfo(dtype).eps
    k = torch.tensor([[0.5], [1.0], [1.0 + 3 * step], [1.0 - step], [-9.0]], dtype=dtype)[None, None]
    q = torch.tensor([[1.0], [0.3], [-0.25], [1e-30]], dtype=dtype)[None, None]
    v = torch.arange(5, dtype=dtype)[None, None, :, None]
    rule = Argmax(straight_through=straight_through)
    pairs = Pairs(Tokens.of(4), Tokens.of(5))
    assert rule(q, k, v, pairs).flatten().tolist() == pytest.approx([1, 1, 4, 1])
    assert rule.weights(q, k, pairs).argmax(-1).flatten().tolist() == [1, 1, 4, 1]
    apart = k.clone()
    apart[0, 0, 2] += 1e-3  # a real difference is one
    assert rule(q, apart, v, pairs).flatten()[:2].tolist() == pytest.approx([2, 2])
