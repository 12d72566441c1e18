import math

import pytest
import torch

import attnlab as lab
from attnlab.model.heads.labels import pooled
from attnlab.model.losses import IGNORE
from attnlab.model.tokens import Tokens


def test_a_loss_over_nothing_is_zero_and_has_a_gradient():
    model = lab.decoder(vocabulary=11, width=16, heads=2, layers=1)
    loss = model.head.loss(model.trunk(torch.zeros(1, 4, dtype=torch.long)), torch.full((1, 4), IGNORE))
    assert float(loss.mean.detach()) == 0.0
    loss.mean.backward()
    assert all(p.grad is None or (p.grad == 0).all() for p in model.parameters())


@pytest.mark.parametrize("family", ["encoder", "decoder", "encoder_decoder"])
@pytest.mark.parametrize("width", [64, 768])
@pytest.mark.parametrize(
    "output", ["language_model", "language_model(tied=false)", "language_model(transform=dense)"]
)
@pytest.mark.parametrize("V", [64, 5000])
def test_first_loss_is_that_of_a_guess(family, width, output, V):
    """Within 2% of ln V, whatever the family, the width, the vocabulary and the tying."""
    model = getattr(lab, family)(vocabulary=V, width=width, heads=4, layers=2, output=output)
    ids = torch.randint(0, V, (4, 33), generator=torch.Generator().manual_seed(0))
    source = {"source": ids} if family == "encoder_decoder" else {}
    with torch.no_grad():
        loss = float(model.head.loss(model.trunk(ids[:, :-1], **source), ids[:, 1:]).mean)
    assert abs(loss / math.log(V) - 1) < 0.02, loss


def test_models_that_differ_in_one_part_start_from_the_same_numbers_elsewhere():
    one = dict(lab.decoder(width=32, heads=2, layers=2, attention="dot").named_parameters())
    two = dict(
        lab.decoder(width=32, heads=2, layers=2, attention="additive", positions="learned").named_parameters()
    )
    assert set(one) < set(two)
    assert all(torch.equal(one[name], two[name]) for name in one)
    other = dict(lab.decoder(width=32, heads=2, layers=2, seed=1).named_parameters())
    name = "trunk.decoder.blocks.0.residuals.0.inner.output.weight"
    assert not torch.equal(one[name], other[name])


@pytest.mark.parametrize("width", [32, 128, 1024])
def test_words_and_learned_positions_start_at_unit_variance(width):
    """Smaller, they would be drowned by what blocks add, and learned late."""
    ids = torch.randint(0, 500, (8, 64), generator=torch.Generator().manual_seed(0))
    for positions, variance in (("none", 1.0), ("learned", 2.0), ("concat", 1.0)):
        model = lab.decoder(vocabulary=500, width=width, layers=1, length=64, positions=positions)
        embedded = model.trunk.decoder.embedding(ids, Tokens.of(64)).detach()
        assert abs(float(embedded.var()) / variance - 1) < 0.1


def test_pooling_looks_at_real_tokens_alone():
    hidden = torch.arange(12.0).view(2, 3, 2)
    real = torch.tensor([[0, 1, 1], [1, 1, 0]]).bool()
    tokens = Tokens.of(3, real=real)
    assert pooled(hidden, tokens, "first").tolist() == [[2, 3], [6, 7]]
    assert pooled(hidden, tokens, "last").tolist() == [[4, 5], [8, 9]]
    assert pooled(hidden, tokens, "mean").tolist() == [[3, 4], [7, 8]]
    assert pooled(hidden, Tokens.of(3), "last").tolist() == [[4, 5], [10, 11]]
    with pytest.raises(ValueError, match="Packed documents"):
        pooled(hidden, Tokens.of(3, document=torch.zeros(2, 3)), "mean")


def test_span_scores_are_a_start_and_an_end_for_each_token():
    """That padding can be neither is decided with the passage: tests/tasks/test_answering.py."""
    model = lab.encoder(vocabulary=11, width=16, heads=2, layers=1, output="span")
    real = torch.tensor([[1, 1, 0]]).bool()
    scores = model(torch.zeros(1, 3, dtype=torch.long), Tokens.of(3, real=real))
    assert scores.shape == (1, 3, 2) and scores.isfinite().all()


def test_the_boundary_guess_sees_the_boundaries_and_the_place_alone():
    model = lab.encoder(vocabulary=11, width=16, heads=2, layers=1, output="span_boundary")
    hidden = torch.randn(2, 8, 16, requires_grad=True)
    where = {"row": torch.tensor([1, 1]), "start": torch.tensor([3, 3]), "end": torch.tensor([4, 4])}
    guess = model.head.boundary(hidden, **where, place=torch.tensor([3, 4]))
    assert not torch.allclose(guess[0], guess[1]), "the place in the span must matter"
    (guess * torch.randn(guess.shape)).sum().backward()
    seen = hidden.grad.abs().sum(-1).nonzero().tolist()
    assert seen == [[1, 2], [1, 5]]
    with pytest.raises(ValueError, match="longer than 10"):
        model.head.boundary(hidden, *(torch.tensor([x]) for x in (0, 1, 20, 15)))


def test_first_scores_of_tags_say_little():
    """With a variance of 1 the first loss is half a nat above that of a guess, and half of all seeds more."""
    output = {"kind": "token_classification", "classes": 8}
    model = lab.encoder(vocabulary=50, width=64, layers=1, output=output)
    hidden = torch.randn(4, 50, model.trunk.width, generator=torch.Generator().manual_seed(0))
    scores = model.head(hidden, Tokens.of(50))
    gap = scores.logsumexp(-1).mean() - scores.mean() - math.log(8)
    assert 0 < float(gap.detach()) < 0.2
