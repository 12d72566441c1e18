"""The chunked loss equals the plain one, in value and gradient, in every form that a head has."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import attnlab as lab
from attnlab.model import losses
from attnlab.model.heads.language import LanguageModel
from attnlab.model.losses import IGNORE

B, T, D, V = 3, 11, 8, 29


def plain_loss(logits, targets, smoothing, z_weight):
    logits, targets = logits.flatten(0, 1), targets.flatten()
    total = F.cross_entropy(logits, targets, ignore_index=IGNORE, reduction="sum", label_smoothing=smoothing)
    log_z = logits.logsumexp(-1)[targets != IGNORE]
    return total + z_weight * log_z.square().sum()


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("transform", ["none", "dense"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("z_weight", [0.0, 0.01])
@pytest.mark.parametrize("ignored", ["some", "none", "all"])
def test_chunked_loss_is_the_plain_one(
    double, monkeypatch, tied, bias, transform, smoothing, z_weight, ignored
):
    monkeypatch.setattr("attnlab.model.losses.CHUNK", 4)
    torch.manual_seed(0)
    table = nn.Embedding(V, D)
    head = LanguageModel(D, table, tied=tied, bias=bias, transform=transform)
    ids, targets = torch.randint(V, (B, T)), torch.randint(V, (B, T))
    if ignored != "none":
        targets[torch.rand(B, T) < (0.5 if ignored == "some" else 2)] = IGNORE
    mix = torch.randn(D, D, requires_grad=True)
    parameters = {**dict(head.named_parameters()), "mix": mix, "embedding": table.weight}

    def gradients(loss):
        return torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)

    hidden = table(ids) @ mix  # a tied table gets gradient from both ends
    found = head.loss(hidden, targets, smoothing=smoothing, z_weight=z_weight)
    expected = plain_loss(head(table(ids) @ mix), targets, smoothing, z_weight)
    assert int(found.count) == int((targets != IGNORE).sum())
    torch.testing.assert_close(found.total, expected)
    for name, mine, theirs in zip(parameters, gradients(found.total), gradients(expected), strict=True):
        mine = torch.zeros_like(parameters[name]) if mine is None else mine
        theirs = torch.zeros_like(parameters[name]) if theirs is None else theirs
        torch.testing.assert_close(mine, theirs, msg=name)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("z_weight", [0.0, 0.01])
@pytest.mark.parametrize("scale", [1.0, 60.0, 1e4])
def test_targets_too_unlikely_for_a_share_of_the_softmax_lose_what_they_lose_in_float64(
    monkeypatch, smoothing, z_weight, scale
):
    """In float32 a share is 0 from 104 nats on: then neither the loss nor its gradient may be infinite."""
    monkeypatch.setattr(losses, "CHUNK", 4)
    torch.manual_seed(0)
    x, table = scale * torch.randn(T, D), torch.randn(V, D)
    targets = torch.randint(V, (T,))
    mine, theirs = (
        [part.detach().to(kind).requires_grad_() for part in (x, table)]
        for kind in (torch.float32, torch.float64)
    )
    found = losses.vocabulary_loss(*mine, None, targets, smoothing=smoothing, z_weight=z_weight)
    wanted = plain_loss((theirs[0] @ theirs[1].T)[None], targets[None], smoothing, z_weight)
    lost = wanted.detach()
    assert bool(lost > 104 * T) == (scale > 1)
    torch.testing.assert_close(found.total.detach().double(), lost, rtol=1e-6, atol=1e-5)
    found.total.backward(), wanted.backward()
    for own, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(
            own.grad.double(), other.grad, rtol=1e-4, atol=1e-5 * float(other.grad.abs().max())
        )
    with torch.no_grad():
        each = losses.vocabulary_loss(*mine, None, targets, smoothing=smoothing, z_weight=z_weight).each
    torch.testing.assert_close(each.double().sum(), lost, rtol=1e-6, atol=1e-5)


def test_logits_are_never_held_whole(monkeypatch):
    """No tensor of rows × vocabulary comes into being, with and without gradient."""
    monkeypatch.setattr(losses, "CHUNK", 16)
    largest = []

    class Sizes(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), named=None):
            result = function(*arguments, **(named or {}))
            if isinstance(result, torch.Tensor) and result.ndim == 2 and result.shape[1] == V:
                largest.append(len(result))
            return result

    x, table = torch.randn(100, D, requires_grad=True), torch.randn(V, D, requires_grad=True)
    targets = torch.randint(V, (100,))
    with Sizes():
        losses.vocabulary_loss(x, table, None, targets).total.backward()
        with torch.no_grad():
            losses.vocabulary_loss(x, table, None, targets)
    assert len(largest) > 14 and max(largest) == 16


@pytest.mark.parametrize("output", ["language_model", "language_model(bias=true, transform=dense)"])
def test_the_loss_works_under_autocast(output):
    """In bfloat16 products, near the float32 loss, with gradients of the parameters' own type."""
    model = lab.encoder(vocabulary=50, width=32, heads=2, layers=1, positions="concat", output=output)
    ids = torch.randint(0, 50, (2, 9), generator=torch.Generator().manual_seed(0))
    full = float(model.head.loss(model.trunk(ids), ids).mean.detach())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model.head.loss(model.trunk(ids), ids).mean
    loss.backward()
    assert float(loss.detach()) == pytest.approx(full, rel=0.02)
    assert all(
        p.grad.dtype == torch.float32 and p.grad.isfinite().all()
        for p in model.parameters()
        if p.grad is not None
    )
