"""RMS norm's own gradient: against finite differences, against torch's, whatever is frozen."""

import pytest
import torch
from torch import nn

from attnlab.model.norms import NORMS


def built(width=6, dtype=torch.float64):
    norm = NORMS.build("rms", width=width).to(dtype)
    with torch.no_grad():
        norm.weight.normal_(generator=torch.Generator().manual_seed(1))
    return norm


def drawn(*shape, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(2), dtype=dtype).requires_grad_()


def given_heads():
    """(B,H,T,K) as projections give it: a view with the heads before the tokens."""
    return drawn(2, 3, 4, 6).detach().transpose(1, 2).requires_grad_()


@pytest.mark.parametrize("x", [drawn(6), drawn(5, 6), drawn(2, 3, 6), given_heads()], ids=lambda x: x.ndim)
def test_gradients_are_those_of_finite_differences(x):
    norm = built()
    assert torch.autograd.gradcheck(
        lambda x, w: torch.func.functional_call(norm, {"weight": w}, (x,)), (x, norm.weight)
    )


def test_values_are_torchs_to_the_bit_and_gradients_to_rounding():
    x = drawn(7, 96, dtype=torch.float32)
    norm = built(96, torch.float32)
    peer = nn.RMSNorm(96, eps=norm.eps)
    peer.load_state_dict(norm.state_dict())
    pull = torch.randn(7, 96)
    found, expected = norm(x), peer(x)
    assert torch.equal(found, expected) and torch.equal(norm(x.detach()), expected)
    wanted = torch.autograd.grad(expected, [x, peer.weight], pull)
    for mine, theirs in zip(torch.autograd.grad(found, [x, norm.weight], pull), wanted, strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("frozen", ["gain", "input"])
def test_what_is_frozen_gets_no_gradient(frozen):
    norm, x = built(), drawn(3, 6)
    (norm.weight if frozen == "gain" else x).requires_grad_(False)
    norm(x).square().sum().backward()
    assert (norm.weight.grad is None) == (frozen == "gain")
    assert (x.grad is None) == (frozen == "input")


def test_autocast_keeps_its_type():
    x, norm = drawn(3, 6, dtype=torch.float32), built(dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        assert norm(x).dtype == nn.RMSNorm(6)(x).dtype == torch.float32
