"""What every model promises, whatever it is made of."""

from functools import partial

import pytest
import torch

import attnlab as lab
from attnlab.model.combinations import LAYOUTS, REFUSALS
from attnlab.model.contracts import promises
from attnlab.model.contracts.promises import moved_by_tokens
from attnlab.model.contracts.small_models import SmallModel, T, working
from attnlab.model.contracts.zero_gradients import expected_zero
from attnlab.model.masks import MASKS
from attnlab.model.tokens import Tokens
from tests.contracts import grid

PARTS = 4
COVERING = grid.pairwise()
EVERYTHING = [pytest.param("all", p, marks=pytest.mark.slow) for p in range(PARTS)]
SETS = [*(("pairwise", p) for p in range(PARTS)), *EVERYTHING]
per_set = pytest.mark.parametrize(("which", "part"), SETS)


def cases(which, part):
    return (COVERING if which == "pairwise" else working())[part::PARTS]


@per_set
def test_gradients_reach_every_parameter(which, part):
    for case in cases(which, part):
        promises.teaches_every_parameter(case, case.model(), partial(expected_zero, case))


@per_set
def test_nothing_depends_on_what_the_mask_hides(which, part):
    """But under `zero`, whose leak is what it is for: see test_zero_masking_leaks."""
    for case in cases(which, part):
        promises.depends_on_visible_tokens_alone(case, case.model())


@per_set
def test_padding_and_company_change_nothing(which, part):
    for case in cases(which, part):
        promises.is_the_same_padded_and_in_company(case, case.model())


@per_set
def test_saved_parameters_bring_a_model_back(which, part):
    for case in cases(which, part):
        promises.comes_back_from_its_saved_parameters(case, case.model())


def test_every_parameter_begins_by_its_seed():
    for case in COVERING:
        promises.begins_by_its_seed(case)


@torch.no_grad()
def test_zero_masking_leaks():
    """Removing weights after the softmax leaves the future in its denominator; −inf does not."""
    for attention in ("dot", "additive", "linear"):
        case = SmallModel(
            *(lab.Choice(n) for n in (attention, "causal", "sinusoidal", "separate")),
            "decoder",
            masking="zero",
        )
        future = torch.ones(T, T).triu(1).bool()
        assert moved_by_tokens(case, case.model(), "plain")[:, future].any(), attention
        sound = case.model(masking="-inf")
        assert not moved_by_tokens(case, sound, "plain")[:, future].any(), attention


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
