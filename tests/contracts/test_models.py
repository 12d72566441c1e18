"""Every combination as a whole model: fast against plain, cached against uncached, and the reference."""

from itertools import combinations as pairs_of

import pytest
import torch

from attnlab.model.attention import ATTENTION
from attnlab.model.combinations import examples
from tests import reference
from tests.contracts import grid
from tests.contracts.grid import LEFT, B, S, T

WHICH = ["covering", pytest.param("all", marks=pytest.mark.slow)]
"""`make test` has every three choices together, attention and any two others; `make test-all` has all six."""


@pytest.mark.parametrize("which", WHICH)
@pytest.mark.parametrize("attention", examples(ATTENTION), ids=str)
@torch.no_grad()
def test_every_combination_equals_its_plain_form(attention, which):
    """Plain, left-padded and packed, and decoded step by step with a cache."""
    everything = [case for case in grid.working() if case.attention == attention]
    assert len(everything) >= 280
    cases = everything if which == "all" else grid.covering(everything)
    for two in pairs_of(("mask", "positions", "projections", "family", "masking"), 2):
        tried, possible = ({tuple(str(getattr(c, n)) for n in two) for c in of} for of in (cases, everything))
        assert tried == possible, two
    for case in cases:
        model = case.model()
        check_plain(case, model)
        check_cache(case, model)


def check_plain(case, model):
    for layout in grid.LAYOUTS:
        fast = case.run(model, layout)
        with grid.plainly(model):
            plain = case.run(model, layout)
        assert fast.isfinite().all(), f"{case} {layout}"
        real = grid.LAYOUTS[layout].get("real", ...)  # what is made of padding means nothing
        error = float((fast - plain)[real].abs().max())
        assert error < 1e-9, f"{case} {layout}: fast and plain differ by {error:.1e}"


def check_cache(case, model):
    """A prompt of 4 (with all of the source), then two tokens at once, then one."""
    if case.family == "encoder" or case.masking != "-inf":
        return
    for real in (None, LEFT):
        whole = model.trunk(
            grid.IDS, case.tokens(**({} if real is None else {"real": real})), **case.inputs()
        )
        cache, outputs = model.trunk.cache(), []
        prompt = case.tokens(4, **({} if real is None else {"real": real[:, :4]}))
        outputs.append(model.trunk(grid.IDS[:, :4], prompt, cache=cache, **case.inputs()))
        for start, stop in ((4, 6), (6, 7)):
            step = cache.following(stop - start)
            outputs.append(model.trunk(grid.IDS[:, start:stop], step, cache=cache, **case.inputs()))
        difference = (torch.cat(outputs, 1) - whole).abs()
        error = float(difference.max() if real is None else difference[real].max())
        assert error < 1e-9, f"{case}: cached and uncached differ by {error:.1e}"


@pytest.mark.parametrize("part", range(4))
@torch.no_grad()
def test_pairwise_covering_equals_the_reference(part):
    """The whole model, every pair of choices together, against numpy loops that share none of its code."""
    cases = grid.pairwise()
    assert len(cases) > 90
    for case in cases[part::4]:
        check_reference(case, case.model())


def check_reference(case, model):
    slow = reference.Reference(case.config(), model)
    for layout, marks in grid.LAYOUTS.items():
        fast = case.run(model, layout)
        given = marks | ({"source": grid.SOURCE} if case.needs_source else {})
        for b in range(B):
            row = reference.Row(T, **{name: mark[b] for name, mark in given.items()})
            packed = {"document": grid.SOURCE_DOCUMENT[b]} if layout == "packed" else {}
            source_row = reference.Row(S, real=grid.SOURCE_REAL[b], **packed)
            want = slow.hidden(
                grid.IDS[b].tolist(), row, source=grid.SOURCE_IDS[b].tolist(), source_row=source_row
            )
            real = given["real"][b] if "real" in given else ...
            error = float((fast[b] - torch.from_numpy(want))[real].abs().max())
            assert error < 1e-6, f"{case} {layout} row {b}: differs from the reference by {error:.1e}"


@pytest.mark.parametrize("case", grid.MIXED, ids=str)
@torch.no_grad()
def test_layers_of_different_attention_are_the_reference_plain_cached_and_saved(case):
    model, other = case.model(), case.model(seed=1)
    check_plain(case, model)
    check_cache(case, model)
    check_reference(case, model)
    assert not torch.equal(case.run(model, "plain"), case.run(other, "plain"))
    other.load_state_dict(model.state_dict())
    assert torch.equal(case.run(model, "plain"), case.run(other, "plain"))
