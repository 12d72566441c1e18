"""Weights in another order or in fewer bits: the same table, or nearly the same scores."""

import pytest
import torch
from torch import nn

import attnlab as lab
from attnlab.generation import packed_weights as weights
from attnlab.generation.beam import beam_searches
from attnlab.generation.generate import generate
from attnlab.generation.packed_weights import PackedLinear, by_columns, difference, pack
from attnlab.generation.rules import Sample

PROMPTS = [[3, 1, 4], [1, 5, 9, 2, 6], [7]]


def small(**settings):
    model = lab.preset("gpt2", vocabulary=101, width=32, layers=2, heads=4, length=40, **settings)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for value in model.parameters():
            value.add_(torch.randn(value.shape, generator=generator) * 0.2)
    return model.eval()


def test_a_table_by_columns_is_the_same_table():
    model = small()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    texts = generate(model, PROMPTS, length=9)
    by_columns(model)
    table = model.head.table.weight
    assert table.stride() == (1, 101) and table is model.trunk.decoder.embedding.tokens.weight
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert generate(model, PROMPTS, length=9) == texts


@pytest.mark.parametrize("kind", ["float16", "int8"])
@torch.no_grad()
def test_fewer_bits_give_nearly_the_product(kind):
    """Row by row: a row of another size in the batch changes nothing; and zeros stay zeros."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(70, 96, generator=generator)
    weight[7] = 0
    x = torch.randn(5, 96, generator=generator) * torch.tensor([[1.0], [100.0], [0.01], [0.0], [1.0]])
    product = weights.FEWER_BITS[kind](weight)
    found, wanted = product(x), x @ weight.T
    error = (found - wanted).norm(dim=1) / wanted.norm(dim=1).clamp(min=1e-9)
    assert (error < {"float16": 1e-3, "int8": 3e-2}[kind]).all() and (error[[0, 1, 2, 4]] > 0).all()
    assert (found[3] == 0).all() and (found[:, 7] == 0).all()
    for row in range(5):
        torch.testing.assert_close(
            product(x[row : row + 1])[0], found[row], rtol=1e-5, atol=1e-5 * x[row].norm()
        )


@pytest.mark.parametrize("kind", ["float16", "int8"])
def test_a_packed_model_writes(kind, monkeypatch):
    monkeypatch.setattr(weights, "SMALLEST", 0)
    model, exact = small(), small()
    ids = torch.tensor([PROMPTS[1]])
    with torch.no_grad():
        wanted = exact(ids)
    pack(model, kind)
    assert sum(isinstance(part, PackedLinear) for part in model.modules()) == 2 * 6 + 1
    assert not any(isinstance(part, nn.Linear) for part in model.modules())
    with torch.no_grad():
        found = difference(wanted, model(ids))
    assert 0 < found.divergence < {"float16": 1e-4, "int8": 0.1}[kind]
    rule = Sample(temperature=1.0)
    together = generate(model, PROMPTS, rule=rule, length=12)
    assert together == [generate(model, [prompt], rule=rule, length=12)[0] for prompt in PROMPTS]
    assert all(len(found) == 2 for found in beam_searches(model, PROMPTS, width=2, length=5))


def test_small_matrices_stay_as_they_are():
    model = small()
    pack(model, "int8")
    assert sum(isinstance(part, nn.Linear) for part in model.modules()) == 2 * 6


def test_a_difference_is_told_by_hand():
    exact = torch.tensor([[0.5, 0.5], [0.9, 0.1]]).log()
    other = torch.tensor([[0.5, 0.5], [0.6, 0.4]]).log()
    found = difference(exact, other)
    by_hand = 0.9 * torch.tensor(0.9 / 0.6).log() + 0.1 * torch.tensor(0.1 / 0.4).log()
    assert found.divergence == pytest.approx(float(by_hand) / 2, rel=1e-5)
    assert found.largest == pytest.approx(float(torch.tensor(4.0).log()))
