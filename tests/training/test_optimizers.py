"""Which weights decay, which are orthogonalised, and that a saved optimizer goes on as if never stopped."""

import re

import pytest
import torch

import attnlab as lab
from attnlab.config.values import ConfigError
from attnlab.runs.faults import RunError
from attnlab.training.optimizers import OPTIMIZERS, Optimizers, divided, from_torch, owned
from attnlab.training.schedules import SCHEDULES
from attnlab.training.updates import AdamWUpdate

TORCH = [
    (torch.optim.SGD, {"momentum": 0.9, "nesterov": True}),
    (torch.optim.Adam, {"betas": (0.8, 0.9), "amsgrad": True}),
    (torch.optim.NAdam, {"momentum_decay": 0.01}),
    (torch.optim.RAdam, {"decoupled_weight_decay": True}),
    (torch.optim.RMSprop, {"momentum": 0.5, "centered": True}),
    (torch.optim.Adagrad, {"lr_decay": 0.1}),
    (torch.optim.Adadelta, {"rho": 0.8}),
    (torch.optim.Adafactor, {"d": 2.0}),
    (torch.optim.ASGD, {"t0": 1.0}),
    (torch.optim.Rprop, {"etas": (0.4, 1.3)}),
]
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


@pytest.fixture
def registered():
    """Registers torch's optimizers under their own names, and takes them out again."""
    names = []

    def register(optimizer):
        names.append(f"torch_{optimizer.__name__.lower()}")
        OPTIMIZERS.register(names[-1], from_torch(optimizer))
        return names[-1]

    yield register
    for name in names:
        OPTIMIZERS.unregister(name)


def random_gradients(model, step):
    generator = torch.Generator().manual_seed(step)
    for p in model.parameters():
        p.grad = torch.randn(p.shape, generator=generator, dtype=p.dtype)


@pytest.mark.parametrize(("optimizer", "options"), TORCH, ids=lambda case: getattr(case, "__name__", ""))
def test_a_torch_optimizer_takes_its_own_steps_and_resumes_to_the_bit(registered, optimizer, options):
    """By a changing rate, in float64, matrices alone decaying; restored halfway from its saved tensors."""
    decay = {"weight_decay": 0.3} if optimizer is not torch.optim.Rprop else {}
    choice = {"kind": registered(optimizer), "learning_rate": 0.02, **decay, **options}
    mine, theirs, resumed = (lab.decoder(**SIZES).double() for _ in range(3))
    decaying, plain = divided(theirs)
    groups = [{"params": decaying, **decay}, {"params": plain, **dict.fromkeys(decay, 0.0)}]
    reference = optimizer(groups, lr=0.02, **options)
    update = Optimizers(OPTIMIZERS.build(choice), mine)
    for step, factor in enumerate((0.1, 1.0, 0.5, 0.25)):
        if step == 2:
            resumed.load_state_dict(mine.state_dict())
            later = Optimizers(OPTIMIZERS.build(choice), resumed)
            later.restore({name: value.clone() for name, value in update.state().items()})
        for model in (mine, theirs, resumed):
            random_gradients(model, step)
        for group in reference.param_groups:
            group["lr"] = 0.02 * factor
        reference.step()
        update.step(factor)
        if step >= 2:
            later.step(factor)
    assert not torch.equal(mine.trunk.decoder.final.weight, lab.decoder(**SIZES).trunk.decoder.final.weight)
    for p, expected, again in zip(mine.parameters(), theirs.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(p, expected) and torch.equal(p, again)


def test_the_options_of_a_torch_optimizer_are_those_of_its_constructor(registered):
    sgd, rprop = registered(torch.optim.SGD), registered(torch.optim.Rprop)
    defaults = {name: option.default for name, option in OPTIMIZERS.options(sgd).items()}
    assert defaults == {
        "learning_rate": 1e-3,
        "momentum": 0,
        "dampening": 0,
        "weight_decay": 0,
        "nesterov": False,
        "maximize": False,
    }
    for choice, message in (
        (f"{sgd}(momentums=0.9)", 'options of torch_sgd: there is no "momentums". Did you mean "momentum"'),
        (f"{sgd}(foreach=true)", 'there is no "foreach"'),
        (f"{sgd}(lr=0.1)", "learning_rate"),
        (f"{sgd}(learning_rate=0.0)", "learning_rate is 0"),
        (f"{sgd}(nesterov=1)", "nesterov"),
        (f"{sgd}(nesterov=true)", "SGD says: Nesterov momentum requires a momentum"),
        (f"{rprop}(weight_decay=0.1)", 'options of torch_rprop: there is no "weight_decay"'),
    ):
        with pytest.raises(ConfigError, match=re.escape(message)):
            OPTIMIZERS.build(choice)


def test_a_weight_decay_of_zero_is_not_the_classes_own(registered):
    model = lab.decoder(**SIZES)
    [update] = OPTIMIZERS.build(f"{registered(torch.optim.AdamW)}(weight_decay=0.0)").make(model)
    assert [group["weight_decay"] for group in update.optimizer.param_groups] == [0.0, 0.0]


class Counting(torch.optim.SGD):
    """Remembers a plain number of each parameter."""

    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["steps"] = self.state[p].get("steps", 0) + 1
        super().step(closure)


class Drifting(torch.optim.SGD):
    """Remembers a number in its groups, as schedule-free optimizers do."""

    def step(self, closure=None):
        super().step(closure)
        self.param_groups[0]["k"] = self.param_groups[0].get("k", 0) + 1


class Ageing(torch.optim.SGD):
    """Remembers a list on itself."""

    def __init__(self, params, lr=0.1):
        super().__init__(params, lr=lr)
        self.ages = [0]

    def step(self, closure=None):
        super().step(closure)
        self.ages.append(1)


@pytest.mark.parametrize(
    ("optimizer", "place"),
    [(Counting, "state['steps']"), (Drifting, "param_groups[0]['k']"), (Ageing, "self.ages")],
)
def test_an_optimizer_whose_state_no_checkpoint_holds_is_refused(registered, optimizer, place):
    model = lab.decoder(**SIZES)
    update = Optimizers(OPTIMIZERS.build(registered(optimizer)), model)
    random_gradients(model, 0)
    with pytest.raises(
        RunError, match=rf"{optimizer.__name__} cannot be resumed: it changes {re.escape(place)}"
    ):
        update.step(1.0)


def test_an_optimizer_that_needs_a_closure_is_refused():
    with pytest.raises(ConfigError, match="LBFGS computes the loss several times a step"):
        from_torch(torch.optim.LBFGS)


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
