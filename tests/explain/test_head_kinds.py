"""Kinds of heads by their shares of weight, on weights whose kind is known."""

import math

import pytest
import torch

from attnlab.explain.head_kinds import KINDS, MIXED, distance, entropy, kind_of, shares

IDS = [7, 1, 2, 3, 9, 1, 2, 3]
DELIMITERS = [False, False, False, False, True, False, False, False]
CAUSAL = torch.ones(8, 8).tril().bool()


def weights_on(keys):
    """Each query's whole weight on one key, or on itself where it is None."""
    made = torch.zeros(1, 8, 8)
    for query, key in enumerate(keys):
        made[0, query, query if key is None else key] = 1
    return made


LOOKING = {
    "previous token": [None, 0, 1, 2, 3, 4, 5, 6],
    "first token": [None, 0, 0, 0, 0, 0, 0, 0],
    "same word": [None, None, None, None, None, 1, 2, 3],
    "induction": [None, None, None, None, None, 2, 3, 4],
    "delimiter": [None, None, None, None, None, 4, 4, 4],
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_head_of_each_kind_is_recognised(kind):
    found = shares(weights_on(LOOKING[kind]), CAUSAL, IDS, DELIMITERS, list(KINDS))
    assert kind_of(found, 0) == kind
    if kind in ("same word", "induction"):
        assert found[kind].of_heads.tolist() == [1.0]


def test_equal_weights_are_of_no_kind_and_have_the_share_of_chance():
    even = CAUSAL / CAUSAL.sum(-1, keepdim=True)
    found = shares(even[None], CAUSAL, IDS, DELIMITERS, list(KINDS))
    assert kind_of(found, 0) == MIXED
    for share in found.values():
        assert share.of_heads[0] == pytest.approx(share.chance)
    assert found["previous token"].chance == pytest.approx(sum(1 / n for n in range(2, 9)) / 7)


def test_a_kind_without_such_keys_is_left_out():
    assert shares(torch.eye(3)[None], torch.ones(3, 3).bool(), [1, 2, 3], [False] * 3, ["same word"]) == {}


def test_entropy_and_distance():
    even = torch.full((1, 4, 4), 0.25)
    assert float(entropy(even)) == pytest.approx(math.log(4))
    assert float(entropy(torch.eye(4)[None])) == 0
    assert float(distance(even)) == pytest.approx((1.5 + 1 + 1 + 1.5) / 4)
    assert float(distance(torch.eye(4)[None])) == 0
