"""Muon's steps: against singular values by hand in float64, against torch's own, and alone or in a batch."""

import pytest
import torch
from torch import nn

from attnlab.training.updates import COEFFICIENTS, ITERATIONS, MuonUpdate, ParameterGroup, orthogonal

SHAPES = [(6, 6), (6, 10), (10, 6), (6, 6), (1, 7), (10, 6)]
SETTINGS = {"lr": 0.05, "weight_decay": 0.1, "momentum": 0.9}


def matrices(dtype=torch.float32, shapes=SHAPES):
    generator = torch.Generator().manual_seed(3)
    return [nn.Parameter(torch.randn(shape, generator=generator, dtype=dtype)) for shape in shapes]


def muon(parameters):
    groups = [ParameterGroup(parameters, SETTINGS["lr"], SETTINGS["weight_decay"])]
    return MuonUpdate(groups, momentum=SETTINGS["momentum"])


def give_gradients(parameters, step):
    generator = torch.Generator().manual_seed(100 + step)
    for p in parameters:
        p.grad = torch.randn(p.shape, generator=generator, dtype=p.dtype)


def trained(optimizer, parameters, steps=4):
    for step in range(steps):
        give_gradients(parameters, step)
        optimizer.step()
    return [p.detach() for p in parameters]


def by_singular_values(update):
    """What five iterations are by definition: the polynomial, applied to each singular value."""
    u, s, v = torch.linalg.svd(update / update.norm(), full_matrices=False)
    a, b, c = COEFFICIENTS
    for _ in range(ITERATIONS):
        s = a * s + b * s**3 + c * s**5
    return u @ torch.diag(s) @ v


def reference(parameters, steps=4):
    """The step of the papers, one matrix at a time, the slow and obvious way."""
    weights = [p.detach().clone() for p in parameters]
    means = [torch.zeros_like(w) for w in weights]
    for step in range(steps):
        give_gradients(parameters, step)
        for i, p in enumerate(parameters):
            means[i] = SETTINGS["momentum"] * means[i] + (1 - SETTINGS["momentum"]) * p.grad
            ahead = SETTINGS["momentum"] * means[i] + (1 - SETTINGS["momentum"]) * p.grad
            size = 0.2 * max(p.shape) ** 0.5
            decayed = weights[i] * (1 - SETTINGS["lr"] * SETTINGS["weight_decay"])
            weights[i] = decayed - SETTINGS["lr"] * size * by_singular_values(ahead)
    return weights


def test_steps_are_those_of_a_reference_in_float64():
    expected = reference(matrices(torch.float64))
    given = matrices(torch.float64)
    for mine, theirs in zip(trained(muon(given), given), expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-12)


def test_float32_is_near_float64():
    expected = reference(matrices(torch.float64))
    given = [nn.Parameter(p.detach().float()) for p in matrices(torch.float64)]
    optimizer = muon(given)
    drawn = matrices(torch.float64)
    for step in range(4):
        give_gradients(drawn, step)
        for p, exact in zip(given, drawn, strict=True):
            p.grad = exact.grad.float()
        optimizer.step()
    for mine, theirs in zip(given, expected, strict=True):
        torch.testing.assert_close(mine.detach().double(), theirs, rtol=0, atol=2e-6)


def test_steps_are_those_of_torch_within_its_bfloat16():
    ours, theirs = matrices(), matrices()
    peer = torch.optim.Muon(theirs, **SETTINGS, adjust_lr_fn="match_rms_adamw")
    start = [p.detach().clone() for p in ours]
    moved = trained(muon(ours), ours)
    expected = trained(peer, theirs)
    for mine, other, first in zip(moved, expected, start, strict=True):
        assert float((mine - other).norm() / (other - first).norm()) < 0.02


def test_a_matrix_moves_the_same_alone_and_in_a_batch():
    together = matrices(torch.float64)
    moved = trained(muon(together), together)
    for i, shape in enumerate(SHAPES):
        alone = matrices(torch.float64)
        kept = muon([alone[i]])
        for step in range(4):
            give_gradients(alone, step)
            kept.step()
        torch.testing.assert_close(alone[i].detach(), moved[i], rtol=1e-12, atol=1e-13, msg=str(shape))


def test_a_matrix_without_a_gradient_stays():
    given = matrices()
    optimizer = muon(given)
    give_gradients(given, 0)
    given[1].grad = None
    still, moving = given[1].detach().clone(), given[2].detach().clone()
    optimizer.step()
    assert torch.equal(given[1].detach(), still) and given[1] not in optimizer.state
    assert not torch.equal(given[2].detach(), moving)


def test_a_checkpoint_of_torchs_muon_goes_on():
    """Runs from before there was an optimizer of our own: the state has the same names and meaning."""
    theirs, ours = matrices(), matrices()
    peer = torch.optim.Muon(theirs, **SETTINGS, adjust_lr_fn="match_rms_adamw")
    trained(peer, theirs, steps=3)
    optimizer = muon(ours)
    for mine, other in zip(ours, theirs, strict=True):
        mine.data.copy_(other.data)
        assert [*peer.state[other]] == ["momentum_buffer"]
        optimizer.state[mine] = {name: value.clone() for name, value in peer.state[other].items()}
    for parameters, one in ((theirs, peer), (ours, optimizer)):
        give_gradients(parameters, 3)
        one.step()
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(
            optimizer.state[mine]["momentum_buffer"], peer.state[other]["momentum_buffer"]
        )
        torch.testing.assert_close(mine.detach(), other.detach(), rtol=0, atol=0.02 * 0.05 * 0.2 * 10**0.5)


@pytest.mark.parametrize("shape", [(3, 8, 8), (2, 5, 9)])
def test_singular_values_come_out_near_one_and_directions_stay(shape):
    """Down to a hundredth of the norm, and with nothing at all for nothing."""
    drawn = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    u, _, v = torch.linalg.svd(drawn, full_matrices=False)
    s = torch.linspace(1.0, 0.02, shape[1], dtype=torch.float64)
    found = orthogonal(u * s @ v)
    inside = u.mT @ found @ v.mT
    values = inside.diagonal(dim1=1, dim2=2)
    assert bool((values > 0.6).all() and (values < 1.3).all())
    off = inside - torch.diag_embed(values)
    assert float(off.abs().max()) < 1e-10
    assert not orthogonal(torch.zeros(shape)).any()
