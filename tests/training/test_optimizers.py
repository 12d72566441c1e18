"""Which weights decay, which are orthogonalised, and that a saved optimizer goes on as if never stopped."""

import pytest
import torch

import attnlab as lab
from attnlab.config.values import ConfigError
from attnlab.training.optimizers import OPTIMIZERS, Optimizers, divided, owned
from attnlab.training.schedules import SCHEDULES

SIZES = {"vocabulary": 23, "length": 16, "width": 16, "heads": 4, "layers": 1}


@pytest.mark.parametrize("positions", ["learned", "relative", "bucketed", "sinusoidal"])
@pytest.mark.parametrize("attention", ["dot", "additive"])
def test_norms_biases_embeddings_and_positions_do_not_decay(positions, attention):
    model = lab.decoder(**SIZES, positions=positions, attention=attention)
    decaying, plain = divided(model)
    names = {p: name for name, p, _ in owned(model)}
    assert len(decaying) + len(plain) == len(list(model.parameters()))
    for p in decaying:
        assert p.ndim >= 2 and not any(word in names[p] for word in ("embedding", "norm", "bias", "table"))
    for p in plain:
        assert p.ndim == 1 or "embedding" in names[p]
    weights = [
        name for name in names.values() if name.endswith(("up.weight", "down.weight", "output.weight"))
    ]
    assert len(weights) == 3 and all(any(names[p] == name for p in decaying) for name in weights)


def test_muon_takes_hidden_matrices_and_adamw_the_rest():
    model = lab.decoder(**SIZES, output="language_model(tied=false)")
    muon, adamw = Optimizers(OPTIMIZERS.build("muon"), model).made
    of_muon = {id(p) for group in muon.param_groups for p in group["params"]}
    for name, p in model.named_parameters():
        hidden = p.ndim == 2 and "blocks" in name
        assert (id(p) in of_muon) == hidden, name
    assert isinstance(adamw, torch.optim.AdamW)


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_a_restored_optimizer_takes_the_same_steps(kind):
    def gradients(model, step):
        generator = torch.Generator().manual_seed(step)
        for p in model.parameters():
            p.grad = torch.randn(p.shape, generator=generator)

    whole = lab.decoder(**SIZES)
    one = Optimizers(OPTIMIZERS.build(kind), whole)
    for step in range(3):
        gradients(whole, step)
        one.step(0.5)
    parted = lab.decoder(**SIZES, seed=7)
    parted.load_state_dict(whole.state_dict())
    two = Optimizers(OPTIMIZERS.build(kind), parted)
    two.restore({name: value.clone() for name, value in one.state().items()})
    for step in range(3, 6):
        for model, optimizer in ((whole, one), (parted, two)):
            gradients(model, step)
            optimizer.step(0.25)
    for a, b in zip(whole.parameters(), parted.parameters(), strict=True):
        assert torch.equal(a, b)


def test_schedules_are_what_their_cards_say():
    def factors(choice, places=(0.05, 0.1, 0.55, 0.9, 1.0)):
        schedule = SCHEDULES.build(choice)
        return [round(schedule.factor(place), 6) for place in places]

    assert factors("constant(warmup=0.1)") == [0.5, 1, 1, 1, 1]
    assert factors("linear(warmup=0.1)") == [0.5, 1, 0.5, round(1 / 9, 6), 0]
    assert factors("cosine(warmup=0.1, final=0.2)") == [0.5, 1, 0.6, 0.224123, 0.2]
    assert factors("wsd(warmup=0.1, decay=0.2, final=0.1)") == [0.5, 1, 1, 0.55, 0.1]


@pytest.mark.parametrize(
    ("table", "choice", "message"),
    [
        (SCHEDULES, "cosine(final=2.0)", r"schedule\.final is 2"),
        (SCHEDULES, "wsd(warmup=0.6, decay=0.6)", "exceed the budget"),
        (OPTIMIZERS, "adamw(rate=0.0)", r"optimizer\.rate is 0"),
        (OPTIMIZERS, "adamw(betas=[0.9])", "two numbers"),
    ],
)
def test_wrong_options_are_refused(table, choice, message):
    with pytest.raises(ConfigError, match=message):
        table.build(choice)
