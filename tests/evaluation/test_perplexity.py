import math

import pytest
import torch

import attnlab as lab
from attnlab.evaluation.perplexity import (
    Score,
    pseudo_losses,
    strided,
    token_losses,
)
from attnlab.evaluation.sample_quality import quality
from attnlab.generation.generate import Written
from attnlab.model.contracts.small_models import loosen

ROWS = [[3, 1, 4, 1, 5, 9, 2, 6], [2, 7, 1, 8], [1, 4, 1, 4, 2, 1]]


def small(**settings):
    model = lab.decoder(vocabulary=23, width=16, heads=4, layers=2, length=40, **settings).double()
    loosen(model, seed=5)
    return model.eval()


@torch.no_grad()
def test_losses_are_those_of_a_hand_computation(double):
    model, row = small(), ROWS[0]
    p = model(torch.tensor([row]))[0].softmax(-1)
    by_hand = [-math.log(float(p[i, token])) for i, token in enumerate(row[1:])]
    assert token_losses(model, torch.tensor([row]))[0].tolist() == pytest.approx(by_hand)
    score = Score(sum(by_hand), len(by_hand), bytes=20)
    assert score.perplexity == pytest.approx(
        math.prod(float(p[i, t]) for i, t in enumerate(row[1:])) ** (-1 / 7)
    )
    assert score.bits_per_byte == pytest.approx(sum(by_hand) / math.log(2) / 20)


def test_corpus_perplexity_is_not_the_mean_of_perplexities():
    short, long = Score(5.0, 1, 4), Score(10.0, 10, 40)
    assert (short + long).perplexity == pytest.approx(math.exp(15 / 11))
    assert (short + long).perplexity != pytest.approx((short.perplexity + long.perplexity) / 2)


def test_windows_count_every_token_once(double):
    model = small()
    ids = torch.randint(0, 23, (50,), generator=torch.Generator().manual_seed(0)).tolist()
    for context, stride in ((8, 4), (8, 1), (8, 7), (20, None), (60, 30), (50, 25), (49, 3)):
        losses = strided(model, ids, context=context, stride=stride)
        assert len(losses) == 49
        step = stride or context // 2
        for place in (1, 7, 8, 9, 25, 49):  # by hand: the first window that holds this token scores it
            start = next(s for s in range(0, 50, step) if place < s + context)
            wanted = token_losses(model, torch.tensor([ids[start : start + context]]))[0, place - start - 1]
            assert losses[place - 1] == pytest.approx(float(wanted))
    with pytest.raises(ValueError, match="below the context of 8"):
        strided(model, ids, context=8, stride=8)


@torch.no_grad()
def test_losses_from_a_place_on_are_the_last_ones(double):
    model, ids = small(), torch.tensor(ROWS[:1])
    whole = token_losses(model, ids)
    for first in (0, 3, 6):
        torch.testing.assert_close(token_losses(model, ids, first=first), whole[:, first:])


@torch.no_grad()
def test_pseudo_losses_mask_one_token_at_a_time(double):
    model = lab.encoder(vocabulary=23, width=16, heads=4, layers=1).double()
    loosen(model)
    row = ROWS[0]
    for place, loss in enumerate(pseudo_losses(model, row, mask=22, batch=3)):
        ids = torch.tensor([row])
        ids[0, place] = 22
        wanted = -model(ids)[0, place].log_softmax(-1)[row[place]]
        assert loss == pytest.approx(float(wanted))
    every = pseudo_losses(model, row, mask=22)
    words = [loss for token, loss in zip(row, every, strict=True) if token not in (3, 6)]
    assert pseudo_losses(model, row, mask=22, but={3, 6}) == pytest.approx(words)


def test_samples_in_numbers():
    loop = Written([0], [1, 2, 1, 2, 1, 2, 1, 2], stopped=False)
    fine = Written([0], [5, 6, 7, 8, 9], stopped=True)
    found = quality([loop, fine], unknown=9)
    assert found.n == 2 and found.tokens == 13 and found.stopped == 0.5
    assert found.unknown == pytest.approx(1 / 13)
    assert found.distinct_2 == pytest.approx(6 / 11)
    assert found.repeated_4 == pytest.approx(3 / 7)
    assert quality([]).tokens == 0
