"""Which weights decay, which are orthogonalised, and that a saved optimizer goes on as if never stopped."""

import pytest
import torch

import attnlab as lab
from attnlab.config.values import ConfigError
from attnlab.training.optimizers import OPTIMIZERS, Optimizers, divided, owned
from attnlab.training.schedules import SCHEDULES
from attnlab.training.updates import AdamWUpdate

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
    of_muon = {id(p) for group in muon.groups for p in group.parameters}
    for name, p in model.named_parameters():
        hidden = p.ndim == 2 and "blocks" in name
        assert (id(p) in of_muon) == hidden, name
    assert isinstance(adamw, AdamWUpdate) and not any(group.weight_decay for group in adamw.groups)


def test_adamw_may_have_a_rate_of_its_own_beside_muon():
    model = lab.decoder(**SIZES)
    for choice, rates in (
        ("muon(learning_rate=0.01)", [0.01, 0.01]),
        ("muon(learning_rate=0.01, adamw_learning_rate=0.002)", [0.01, 0.002]),
    ):
        made = Optimizers(OPTIMIZERS.build(choice), model).made
        assert [group.learning_rate for update in made for group in update.groups] == rates


def test_adamw_takes_torchs_own_steps_to_the_bit():
    """With and without decay, at a rate that changes, with a parameter that has no gradient at first."""
    models = [lab.decoder(**SIZES) for _ in range(2)]
    decaying, plain = divided(models[1])
    recipe = OPTIMIZERS.build("adamw(learning_rate=0.01, weight_decay=0.3, betas=[0.8, 0.9], eps=1e-6)")
    mine = Optimizers(recipe, models[0])
    groups = [{"params": decaying, "weight_decay": 0.3}, {"params": plain, "weight_decay": 0.0}]
    theirs = torch.optim.AdamW(groups, betas=(0.8, 0.9), eps=1e-6, fused=True)
    for step, factor in enumerate((0.1, 1.0, 0.5)):
        for model in models:
            generator = torch.Generator().manual_seed(step)
            for p in model.parameters():
                p.grad = torch.randn(p.shape, generator=generator)
            if step == 0:
                model.trunk.decoder.final.bias.grad = None
        mine.step(factor)
        for group in theirs.param_groups:
            group["lr"] = 0.01 * factor
        theirs.step()
    for p, q in zip(*(model.parameters() for model in models), strict=True):
        assert torch.equal(p, q)
    names = {name.rsplit("/")[-1] for name in mine.state()}
    assert names == {what for held in theirs.state.values() for what in held}


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
        (SCHEDULES, "cosine(final=2.0)", r"schedules\.final is 2"),
        (SCHEDULES, "wsd(warmup=0.6, decay=0.6)", "exceed the budget"),
        (OPTIMIZERS, "adamw(learning_rate=0.0)", r"optimizers\.learning_rate is 0"),
        (OPTIMIZERS, "adamw(betas=[0.9])", "two numbers"),
        (OPTIMIZERS, "muon(adamw_learning_rate=0.0)", r"optimizers\.adamw_learning_rate is 0"),
    ],
)
def test_wrong_options_are_refused(table, choice, message):
    with pytest.raises(ConfigError, match=message):
        table.build(choice)
