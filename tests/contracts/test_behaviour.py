"""What every model promises, whatever it is made of."""

from collections import OrderedDict

import pytest
import torch

import attnlab as lab
from attnlab.model.combinations import LAYOUTS, REFUSALS
from attnlab.model.masks import MASKS
from attnlab.model.pairs import Pairs
from attnlab.model.tokens import Tokens
from tests.contracts import grid
from tests.contracts.grid import B, T
from tests.contracts.zero_gradients import expected_zero, looked_up

PARTS = 4
COVERING = grid.pairwise()
EVERYTHING = [pytest.param("all", p, marks=pytest.mark.slow) for p in range(PARTS)]
SETS = [*(("pairwise", p) for p in range(PARTS)), *EVERYTHING]
per_set = pytest.mark.parametrize(("which", "part"), SETS)


def cases(which, part):
    return (COVERING if which == "pairwise" else grid.working())[part::PARTS]


def task(case, model, ids=grid.IDS, tokens=None, rows=slice(None)):
    """A scalar that every output takes part in, by uneven shares."""
    tokens = case.tokens(rows=rows) if tokens is None else tokens
    hidden = model.trunk(ids, tokens, **case.inputs(rows))
    share = torch.linspace(0.5, 1.5, hidden[0].numel(), dtype=hidden.dtype).view(hidden[0].shape)
    return (hidden.square() * share).sum((1, 2)) + (hidden * share.flip(0)).sum((1, 2))


@per_set
def test_gradients_reach_every_parameter(which, part):
    for case in cases(which, part):
        model = case.model()
        model.head(model.trunk(grid.IDS, case.tokens(), **case.inputs())).square().sum().backward()
        for name, p in model.named_parameters():
            moved = p.grad is not None and float(looked_up(name, p.grad).abs().sum()) > 1e-12
            proof = expected_zero(case, name)
            if proof is None:
                assert moved, f"{case}: nothing reaches {name}"
                assert p.grad.isfinite().all(), f"{case}: {name}"
            else:
                stray = 0.0 if p.grad is None else float(p.grad.abs().max())
                assert stray < 1e-9, f"{case}: {name} moved by {stray:.1e}, though {proof}"


@per_set
def test_nothing_depends_on_what_the_mask_hides(which, part):
    """By perturbing each token, and by the gradient of each output: at every pair of positions."""
    for case in cases(which, part):
        if case.masking == "zero":
            continue  # the leak that `zero` has is what it is for: see test_zero_masking_leaks
        model = case.model()
        for layout in grid.LAYOUTS:
            reach = reachable(case, model, layout)
            moved = perturbed(case, model, layout)
            assert not (moved & ~reach).any(), f"{case} {layout}: {(moved & ~reach).nonzero().tolist()}"
        reach, slope = reachable(case, model, "packed"), gradients(case, model, "packed")
        assert not ((slope > 1e-13) & ~reach).any(), f"{case}: {slope[~reach].max():.1e} by gradient"


def reachable(case, model, layout) -> torch.Tensor:
    """(B, T, T): whether output i may depend on input j, through all layers and each token's own residual."""
    tokens = case.tokens(**grid.LAYOUTS[layout])
    stack = model.trunk.main
    mask = Pairs(tokens, tokens, stack.mask).within(stack.rules()[0].layout).allowed
    step = torch.ones(B, T, T, dtype=torch.bool) if mask is None else mask[:, 0].expand(B, -1, -1)
    step = step | torch.eye(T, dtype=torch.bool)
    for _ in range(len(stack.blocks) - 1):
        step = (step.long() @ step.long()) > 0
    return step


@torch.no_grad()
def perturbed(case, model, layout) -> torch.Tensor:
    """(B, T, T): whether output i moved at all when token j was replaced."""
    tokens = case.tokens(**grid.LAYOUTS[layout])
    given = case.inputs(layout=layout)
    before = model.trunk(grid.IDS, tokens, **given)
    moved = []
    for j in range(T):
        ids = grid.IDS.clone()
        ids[:, j] = (ids[:, j] + 5) % 23
        after = model.trunk(ids, tokens, **given)
        moved.append((after - before).abs().amax(-1) > 1e-12)
    return torch.stack(moved, -1)


def gradients(case, model, layout) -> torch.Tensor:
    """(B, T, T): the size of ∂output_i/∂embedding_j."""
    tokens = case.tokens(**grid.LAYOUTS[layout])
    kept = {}
    table = model.trunk.main.embedding
    hook = table.register_forward_hook(lambda m, i, out: kept.setdefault("x", out.requires_grad_()))
    y = model.trunk(grid.IDS, tokens, **case.inputs(layout=layout))
    hook.remove()
    slopes = [
        torch.autograd.grad(y[:, i].sum(), kept["x"], retain_graph=True)[0].abs().amax(-1) for i in range(T)
    ]
    return torch.stack(slopes, 1)


@per_set
def test_padding_and_company_change_nothing(which, part):
    """A row alone, padded left or right, or beside another: the same outputs, the same gradients."""
    for case in cases(which, part):
        model = case.model()
        for row in range(B):
            alone = measured(
                case, model, grid.IDS[row : row + 1, :5], case.tokens(5, rows=slice(row, row + 1)), row
            )
            for side in ("left", "right"):
                pad = torch.full((1, 2), 3)
                parts = (pad, grid.IDS[row : row + 1, :5])
                ids = torch.cat(parts if side == "left" else parts[::-1], 1)
                real = torch.ones(1, 7, dtype=torch.bool)
                real[:, :2] = side == "right"
                real[:, 5:] = side == "left"
                marks = {"real": real}
                if case.needs_source:
                    source = torch.zeros(1, 7, dtype=torch.bool)
                    source[real] = grid.SOURCE[row, :5]
                    marks["source"] = source
                same(case, f"{side} padding", alone, measured(case, model, ids, Tokens.of(7, **marks), row))
        both = task(case, model)
        each = torch.cat([task(case, model, grid.IDS[r : r + 1], rows=slice(r, r + 1)) for r in range(B)])
        assert float((both - each).detach().abs().max()) < 1e-9 * float(each.detach().abs().max()), (
            f"{case}: company"
        )


def measured(case, model, ids, tokens, row):
    """Outputs at real tokens, and the gradient of every parameter."""
    model.zero_grad(set_to_none=True)
    hidden = model.trunk(ids, tokens, **case.inputs(slice(row, row + 1)))
    hidden = hidden[tokens.real] if tokens.real is not None else hidden[0]
    hidden.pow(3).sum().backward()
    return OrderedDict(
        output=hidden.detach(), **{n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    )


def same(case, what, first, second):
    assert first.keys() == second.keys()
    for name in first:
        error = float((first[name] - second[name]).abs().max())
        size = max(1.0, float(first[name].abs().max()))
        assert error < 1e-9 * size, f"{case}: {what} changes {name} by {error:.1e}"


@per_set
@torch.no_grad()
def test_saved_parameters_bring_a_model_back(which, part):
    """By named_parameters into a model made elsewhere, tied tables and all."""
    for case in cases(which, part):
        model, other = case.model(seed=0), case.model(seed=1)
        saved = {name: p.clone() for name, p in model.named_parameters()}
        theirs = dict(other.named_parameters())
        assert saved.keys() == theirs.keys()
        for name, p in saved.items():
            theirs[name].copy_(p)
        assert torch.equal(case.run(model, "plain"), case.run(other, "plain")), f"{case}"


@torch.no_grad()
def test_zero_masking_leaks():
    """Removing weights after the softmax leaves the future in its denominator; −inf does not."""
    for attention in ("dot", "additive", "linear"):
        case = grid.Case(
            *(grid.Choice(n) for n in (attention, "causal", "sinusoidal", "separate")),
            "decoder",
            masking="zero",
        )
        future = torch.ones(T, T).triu(1).bool()
        assert perturbed(case, case.model(), "plain")[:, future].any(), attention
        sound = case.model(masking="-inf")
        assert not perturbed(case, sound, "plain")[:, future].any(), attention


def test_three_masks_of_one_sequence():
    """Source document E: 0 may attend, 1 is masked; source of 5 tokens, target of 4."""
    row = Tokens.of(9, source=(torch.arange(9) < 5)[None])
    masked = {
        name: (~MASKS.build(name)(row, row)[0]).long() for name in ("causal", "bidirectional", "prefix")
    }
    later = torch.ones(9, 9, dtype=torch.long).triu(1)
    assert torch.equal(masked["causal"], later)
    assert masked["bidirectional"].sum() == 0
    assert masked["prefix"].tolist() == [
        *[[0, 0, 0, 0, 0, 1, 1, 1, 1]] * 5,
        [0, 0, 0, 0, 0, 0, 1, 1, 1],
        [0, 0, 0, 0, 0, 0, 0, 1, 1],
        [0, 0, 0, 0, 0, 0, 0, 0, 1],
        [0, 0, 0, 0, 0, 0, 0, 0, 0],
    ]


def test_refusals_are_few_and_give_reasons():
    assert len(REFUSALS) <= 6
    assert all(len(refusal.reason) > 40 for refusal in REFUSALS)


def test_layouts_nested_without_end_are_refused():
    """Each sorts padding into blocks of its own: twenty of them took all of a machine's memory."""

    def built(depth):
        nested = "group(inner=" * depth + "dot" + ")" * depth
        return lab.decoder(vocabulary=9, width=8, layers=1, heads=2, length=8, attention=nested)

    built(LAYOUTS)
    with pytest.raises(ValueError, match="More than 3 of group and window are nested"):
        built(LAYOUTS + 1)
