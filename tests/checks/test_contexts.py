"""What no weights can tell apart: the floor of a loss that is learned by heart."""

import pytest
import torch

from attnlab.checks.overfit import contexts
from attnlab.model.tokens import Tokens
from attnlab.tasks.task import Prepared
from tests.checks.faults import small

ENCODER = {"family": "encoder", "mask": "bidirectional"}


def colours(row, *, source=None, **settings):
    """Which places of a row have equal contexts: the same number for each such group."""
    ids = torch.tensor([row])
    given = {}
    if source is not None:
        given = {"source": torch.tensor([source]), "source_tokens": Tokens.of(len(source))}
    prepared = Prepared(ids=ids, targets=ids, tokens=Tokens.of(len(row)), **given)
    model = small(**settings)
    found = contexts(model, prepared, [(0, place) for place in range(len(row))])
    told_apart(model, ids, given, found)
    return [found.index(one) for one in found]


@torch.no_grad()
def told_apart(model, ids, given, found):
    """The proof: equal contexts have equal vectors, and others do not."""
    hidden = model.double().eval().trunk(ids, Tokens.of(ids.shape[1]), **given)[0]
    for i, one in enumerate(found):
        for j, other in enumerate(found):
            assert (one == other) == torch.allclose(hidden[i], hidden[j], atol=1e-10), (i, j)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"positions": "none"}, [0, 1, 1, 0]),
        ({"positions": "sinusoidal"}, [0, 1, 2, 3]),
        ({"positions": "rotary"}, [0, 1, 2, 3]),
        ({"positions": "alibi"}, [0, 1, 1, 0]),  # a b b a: the same from both ends
        ({"positions": "none", "mask": "window(size=2)", "layers": 1}, [0, 1, 1, 0]),
    ],
)
def test_an_encoder_tells_apart_what_positions_and_masks_let_it(settings, expected):
    assert colours([5, 7, 7, 5], **ENCODER | settings) == expected


def test_attention_averages_so_that_numbers_do_not_show():
    assert colours([5, 5, 5], positions="none") == [0, 0, 0]
    assert colours([5, 7, 5, 7], positions="none", layers=1) == [0, 1, 2, 1]
    assert colours([5, 7, 5, 7], positions="none", layers=2) == [0, 1, 2, 3]


def test_a_source_is_read_by_every_token():
    settings = {"family": "encoder_decoder", "positions": "none"}
    assert colours([5, 5], source=[3, 4], **settings) == [0, 0]
    assert colours([5, 7], source=[3, 4], **settings) == [0, 1]


def test_sources_that_differ_are_told_apart_only_by_what_is_averaged():
    ids = torch.tensor([[5], [5], [5]])
    source = torch.tensor([[3, 4], [4, 3], [3, 3]])
    prepared = Prepared(ids=ids, targets=ids, tokens=Tokens.of(1), source=source, source_tokens=Tokens.of(2))
    places = [(0, 0), (1, 0), (2, 0)]
    first, second, third = contexts(small(family="encoder_decoder", positions="none"), prepared, places)
    assert first == second != third
    first, second, third = contexts(small(family="encoder_decoder"), prepared, places)
    assert len({first, second, third}) == 3


def test_nothing_is_expected_of_an_argmax():
    ids = torch.tensor([[5, 7, 5]])
    prepared = Prepared(ids=ids, targets=ids, tokens=Tokens.of(3))
    found = contexts(small(attention="argmax", positions="none"), prepared, [(0, 0), (0, 2)])
    assert found[0] == found[1]
