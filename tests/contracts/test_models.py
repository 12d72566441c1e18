"""Every combination as a whole model: fast against plain, cached against uncached, and the reference."""

from itertools import combinations as pairs_of

import pytest
import torch

from attnlab.model.attention import ATTENTION
from attnlab.model.combinations import examples
from attnlab.model.contracts import promises
from attnlab.model.contracts import small_models as small
from attnlab.model.contracts.small_models import B, S, T
from tests import reference
from tests.contracts import grid

WHICH = ["covering", pytest.param("all", marks=pytest.mark.slow)]
"""`make test` has every three choices together, attention and any two others; `make test-all` has all six."""


@pytest.mark.parametrize("which", WHICH)
@pytest.mark.parametrize("attention", examples(ATTENTION), ids=str)
@torch.no_grad()
def test_every_combination_equals_its_plain_form(attention, which):
    """Plain, left-padded and packed, and decoded step by step with a cache."""
    everything = [case for case in small.working() if case.attention == attention]
    assert len(everything) >= 280
    cases = everything if which == "all" else small.covering(everything)
    for two in pairs_of(("mask", "positions", "projections", "family", "masking"), 2):
        tried, possible = ({tuple(str(getattr(c, n)) for n in two) for c in of} for of in (cases, everything))
        assert tried == possible, two
    for case in cases:
        model = case.model()
        promises.equals_its_plain_form(case, model)
        promises.equals_itself_with_a_cache(case, model)


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
    for layout, marks in small.LAYOUTS.items():
        fast = case.run(model, layout)
        given = marks | ({"source": small.SOURCE} if case.needs_source else {})
        for b in range(B):
            row = reference.Row(T, **{name: mark[b] for name, mark in given.items()})
            packed = {"document": small.SOURCE_DOCUMENT[b]} if layout == "packed" else {}
            source_row = reference.Row(S, real=small.SOURCE_REAL[b], **packed)
            want = slow.hidden(
                small.IDS[b].tolist(), row, source=small.SOURCE_IDS[b].tolist(), source_row=source_row
            )
            real = given["real"][b] if "real" in given else ...
            error = float((fast[b] - torch.from_numpy(want))[real].abs().max())
            assert error < 1e-6, f"{case} {layout} row {b}: differs from the reference by {error:.1e}"


@pytest.mark.parametrize("case", grid.MIXED, ids=str)
@torch.no_grad()
def test_layers_of_different_attention_are_the_reference_plain_cached_and_saved(case):
    model, other = case.model(), case.model(seed=1)
    promises.equals_its_plain_form(case, model)
    promises.equals_itself_with_a_cache(case, model)
    check_reference(case, model)
    assert not torch.equal(case.run(model, "plain"), case.run(other, "plain"))
    other.load_state_dict(model.state_dict())
    assert torch.equal(case.run(model, "plain"), case.run(other, "plain"))
