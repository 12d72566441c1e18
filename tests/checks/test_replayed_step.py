"""A step done a second time: every fault of a step is caught and named, healthy ones are quiet."""

import itertools

import pytest
import torch

from attnlab.checks.plain_step import StepInputs, rate_at
from attnlab.checks.step_causes import StepOutcome
from attnlab.checks.step_replay import StepReplay
from attnlab.config.values import Choice
from attnlab.runs.checkpoints import Checkpoints
from attnlab.runs.findings import read_findings
from attnlab.training import loop as loops
from attnlab.training.budget import State
from attnlab.training.loop import Loop
from attnlab.training.optimizers import OPTIMIZERS, Optimizers, from_torch
from attnlab.training.schedules import SCHEDULES
from attnlab.training.updates import AdamWUpdate
from tests.checks.cases import config, shared  # noqa: F401
from tests.training.small_run import train
from tests.unchecked import checked_by


@pytest.fixture(autouse=True)
def _by_this_check_alone():
    with checked_by("replayed_step"):
        yield


def found_in(folder):
    return [one for one in read_findings(folder) if one.check == "replayed_step"]


def settings(**training):
    base = {"budget": {"steps": 12}, "evaluate_every": "never", "checkpoint_every": 6}
    return config(training=base | training)


def interrupted(settings, folder, at=6):
    """A run of which only the checkpoint of one step is left, as after a kill."""
    train(settings, folder)
    checkpoints = Checkpoints.of(folder)
    for step in checkpoints.steps():
        if step != at:
            checkpoints.set_aside(step)
    (folder / "checks.json").unlink()


def kind_after(settings, folder, *, resumed=False):
    train(settings, folder, resume=resumed)
    (finding,) = found_in(folder)[:1]
    assert finding.outcome == "fail", finding.found
    return finding.kind


# ---------------------------------------------------------------- healthy runs
@pytest.fixture(scope="module", autouse=True)
def _torch_classes():
    for name, kind in (("sgd", torch.optim.SGD), ("adam", torch.optim.Adam)):
        if name not in OPTIMIZERS:
            OPTIMIZERS.register(name, from_torch(kind))
    yield
    for name in ("sgd", "adam"):
        OPTIMIZERS._variants.pop(name, None)


HEALTHY_OPTIMIZERS = [
    "adamw",
    "adamw(weight_decay=0)",
    "muon",
    "sgd(learning_rate=0.1, momentum=0.9, weight_decay=0.1)",
    "adam(learning_rate=0.001)",
]


@pytest.mark.parametrize("optimizer", HEALTHY_OPTIMIZERS)
def test_healthy_runs_are_quiet(tmp_path, optimizer):
    """Every optimizer with every schedule, one or three batches a step, and resumed."""
    for schedule, accumulate in itertools.product(SCHEDULES, (1, 3)):
        folder = tmp_path / f"{schedule}-{accumulate}"
        chosen = settings(optimizer=optimizer, schedule=schedule, accumulate=accumulate)
        train(chosen, folder)
        (finding,) = found_in(folder)
        assert finding.outcome == "pass" and finding.values["steps"] == [1, 10], finding.found
        if schedule in ("cosine", "wsd"):
            interrupted(chosen, tmp_path / f"{schedule}-{accumulate}-again")
            train(chosen, tmp_path / f"{schedule}-{accumulate}-again", resume=True)
            (finding,) = found_in(tmp_path / f"{schedule}-{accumulate}-again")
            assert finding.outcome == "pass" and finding.values["steps"] == [7, 10], finding.found


@pytest.mark.parametrize("name", SCHEDULES)
def test_closed_formulas_are_those_of_the_schedules(name):
    schedule = SCHEDULES.build(Choice(name))
    for progress in (0.001, 0.01, 0.02, 0.3, 0.77, 0.81, 0.999):
        assert rate_at(Choice(name), progress) == pytest.approx(schedule.factor(progress), rel=1e-9)


# ---------------------------------------------------------------- faults
def never(*arguments, **named):
    return None


def every(number, method):
    """A method that does its work only at each so-maniest call."""
    calls = itertools.count(1)

    def sometimes(self, *arguments):
        return method(self, *arguments) if next(calls) % number == 0 else None

    return sometimes


def without_every(number, method):
    """A method that leaves out each so-maniest call."""
    calls = itertools.count(1)

    def mostly(self, *arguments):
        return None if next(calls) % number == 0 else method(self, *arguments)

    return mostly


def first_group_alone(self):
    for p in self.groups[0].parameters:
        p.grad = None


def moving(**changed):
    """AdamW's move with other arguments than it was given."""
    plain = AdamWUpdate.move

    def move(self, parameters, learning_rate, weight_decay):
        given = {"learning_rate": learning_rate, "weight_decay": weight_decay}
        own = self.betas
        self.betas = changed.get("betas", lambda betas: betas)(own)
        given |= {name: change(given[name]) for name, change in changed.items() if name in given}
        plain(self, parameters, **given)
        self.betas = own

    return move


def begun_at_one(self, parameter):
    return {"step": torch.ones(()), **{name: torch.zeros_like(parameter) for name in self.kept}}


CLIP = torch.nn.utils.clip_grads_with_norm_


def clipping_twice(parameters, most, norm):
    parameters = list(parameters)
    for _ in range(2):
        CLIP(parameters, most, norm)


BACKWARD = loops.backward


def scaled(factor):
    """A backward whose gradient is divided by something else than the number of targets."""

    def backward(model, task, batches, **named):
        result = BACKWARD(model, task, batches, **named)
        for p in model.parameters():
            if p.grad is not None:
                p.grad *= factor(batches)
        return result

    return backward


def mean_of_means(model, task, batches, **named):
    """Each batch by its own targets, which weigh unequally."""
    taken = [BACKWARD(model, task, [batch], **named) for batch in batches]
    for p in model.parameters():
        if p.grad is not None:
            p.grad /= len(batches)
    return taken[0]


STEP, ZERO = Optimizers.step, Optimizers.zero_grad
AT = {
    "step": "attnlab.training.optimizers.Optimizers.step",
    "zero": "attnlab.training.optimizers.Optimizers.zero_grad",
    "zero_groups": "attnlab.training.updates.Update.zero_grad",
    "move": "attnlab.training.updates.AdamWUpdate.move",
    "begin": "attnlab.training.updates.AdamWUpdate.begin",
    "decays": "attnlab.training.optimizers.decays",
    "clip": "torch.nn.utils.clip_grads_with_norm_",
    "backward": "attnlab.training.loop.backward",
    "factor": "attnlab.training.schedules.Cosine.after_warmup",
}
SMALL_CLIP = {"clip": 0.05}
FAULTS = {
    "never cleared": ("zero", never, {}, "not_cleared"),
    "cleared at every second step": ("zero", lambda: every(2, ZERO), {}, "not_cleared"),
    "cleared in one group alone": ("zero_groups", first_group_alone, {}, "not_cleared"),
    "everything decays": ("decays", lambda p, owner: True, {}, "decay_everywhere"),
    "norms and biases decay": (
        "decays",
        lambda p, owner: not isinstance(owner, torch.nn.Embedding),
        {},
        "decay_unasked",
    ),
    "embeddings decay": ("decays", lambda p, owner: p.ndim >= 2, {}, "decay_unasked"),
    "nothing decays": ("decays", lambda p, owner: False, {}, "decay_missing"),
    "decay where there is none": (
        "move",
        lambda: moving(weight_decay=lambda decay: 0.1),
        {"optimizer": "adamw(weight_decay=0)"},
        "decay_unasked",
    ),
    "decay of twice the size": (
        "move",
        lambda: moving(weight_decay=lambda decay: 2 * decay),
        {},
        "decay_unasked",
    ),
    "betas swapped": ("move", lambda: moving(betas=lambda betas: betas[::-1]), {}, "betas"),
    "a rate that is not scheduled": ("factor", lambda self, progress: 1.0, {}, "rate"),
    "a schedule that runs twice as fast": (
        "factor",
        lambda self, progress: 1 - min(1.0, 2 * progress),
        {},
        "rate",
    ),
    "the factor applied twice": ("step", lambda self, factor: STEP(self, factor * factor), {}, "rate"),
    "the full rate in place of the factor": ("step", lambda self, factor: STEP(self, 1.0), {}, "rate"),
    "steps counted from one": ("begin", begun_at_one, {}, "count"),
    "not clipped": ("clip", never, SMALL_CLIP, "not_clipped"),
    "clipped twice": ("clip", clipping_twice, SMALL_CLIP, "clipped_twice"),
    "every second step left out": ("step", lambda: without_every(2, STEP), {}, "skipped"),
    "every third step left out": ("step", lambda: without_every(3, STEP), {}, "skipped"),
    "most steps left out": ("step", lambda: every(4, STEP), {}, "skipped"),
    "not divided by the batches": (
        "backward",
        scaled(len),
        {"accumulate": 3},
        "divisor",
    ),
    "divided twice by the batches": ("backward", scaled(lambda b: 1 / len(b)), {"accumulate": 3}, "divisor"),
    "divided by the rows": (
        "backward",
        scaled(lambda b: sum(x.count for x in b) / sum(len(x.ids) for x in b)),
        {},
        "divisor",
    ),
    "mean of means": ("backward", mean_of_means, {"accumulate": 3}, None),
}
MADE = {"cleared at every second step", "every second step left out", "every third step left out"}
MADE |= {name for name, (place, *_) in FAULTS.items() if place == "move"} | {"most steps left out"}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_a_step_is_caught_and_named(tmp_path, monkeypatch, name):
    place, fault, training, kind = FAULTS[name]
    monkeypatch.setattr(AT[place], fault() if name in MADE else fault)
    given = kind_after(settings(**training), tmp_path / "run")
    assert kind is None or given == kind


def forgetting(self, checkpoint):
    """A loop that resumes with the weights alone."""
    RESTORE(self, checkpoint)
    self.optimizer.made = OPTIMIZERS.build(self.settings.optimizer).make(self.model)


def restarted(self, checkpoint):
    """A loop that resumes as if it had taken no step."""
    RESTORE(self, checkpoint)
    self.state, self.saved = State(trace=self.state.trace), 0


def of_tensors(change):
    """Optimizers that restore something else than what was saved."""

    def restore(self, state):
        OPTIMIZER_RESTORE(self, {key: change(key, value) for key, value in state.items()})

    return restore


RESTORE, OPTIMIZER_RESTORE = Loop.restore, Optimizers.restore
RESUMED = {
    "moments lost": (Loop, "restore", forgetting, "adamw", "moments_lost"),
    "momentum lost": (Loop, "restore", forgetting, "muon", "moments_lost"),
    "momentum of sgd lost": (
        Loop,
        "restore",
        forgetting,
        "sgd(learning_rate=0.1, momentum=0.9)",
        "moments_lost",
    ),
    "schedule restarted": (Loop, "restore", restarted, "adamw", None),
    "count one too low": (
        Optimizers,
        "restore",
        of_tensors(lambda key, v: v - 1 if key.endswith("/step") else v),
        "adamw",
        "count",
    ),
    "count one too high": (
        Optimizers,
        "restore",
        of_tensors(lambda key, v: v + 1 if key.endswith("/step") else v),
        "adamw",
        "count",
    ),
    "squares lost": (
        Optimizers,
        "restore",
        of_tensors(lambda key, v: v * 0 if key.endswith("_sq") else v),
        "adamw",
        "differs",
    ),
}


@pytest.mark.parametrize("name", RESUMED)
def test_a_fault_of_a_resume_is_caught_and_named(tmp_path, monkeypatch, name):
    owner, method, fault, optimizer, kind = RESUMED[name]
    chosen = settings(optimizer=optimizer)
    interrupted(chosen, tmp_path / "run")
    monkeypatch.setattr(owner, method, fault)
    given = kind_after(chosen, tmp_path / "run", resumed=True)
    assert kind is None or given == kind
    assert found_in(tmp_path / "run")[0].values["step"] in (1, 7)


@pytest.mark.parametrize(("noise", "told"), [(0.1, None), (1e-3, "key.bias")])
def test_a_gradient_of_rounding_errors_may_come_out_otherwise(noise, told):
    """No softmax sees a key's bias: its gradient is what sums leave over, in another order another one."""
    weights = {"query.bias": torch.ones(8), "key.bias": torch.ones(8)}
    inputs = StepInputs(weights, {}, {}, norm=1.0, rate=1.0, noise={"key.bias": noise, "query.bias": 1e-7})
    moved = {name: weight + 0.5 for name, weight in weights.items()}
    other = moved | {"key.bias": weights["key.bias"] + 0.4}
    assert StepOutcome(None, None, inputs, other, 3e-5).against(moved)[0] == told
    wrong = moved | {"query.bias": weights["query.bias"] + 0.4}
    assert StepOutcome(None, None, inputs, wrong, 3e-5).against(moved)[0] == "query.bias"


def test_the_roundings_of_a_gradient_are_measured(tmp_path, monkeypatch):
    """A key's bias has no gradient but them; a matrix's own is far larger. The weights stay as they are."""
    measured = []
    judge = StepReplay._judge

    def noisy(self, kept, event):
        before = {name: p.detach().clone() for name, p in self.loop.model.named_parameters()}
        measured.append(self._noise(kept))
        assert all(torch.equal(before[name], p) for name, p in self.loop.model.named_parameters())
        judge(self, kept, event)

    monkeypatch.setattr(StepReplay, "_judge", noisy)
    train(settings(), tmp_path / "run")
    assert min(v for name, v in measured[0].items() if name.endswith("key.bias")) > 0.05
    assert max(v for name, v in measured[0].items() if name.endswith("weight")) < 1e-4


@pytest.mark.parametrize("rank", [1, 8])
def test_what_is_made_orthogonal_may_differ_by_its_enlarged_roundings(rank):
    """Rows of a head of two classes are each other's negatives: all else of it is rounding errors."""
    numbers = torch.Generator().manual_seed(0)
    rows = torch.randn(rank, 64, generator=numbers)
    rounded = 1 + 1e-7 * torch.randn(64, generator=numbers)
    gradient = torch.cat([rows, -rows * rounded]) if rank == 1 else rows
    weights = {"head.weight": 0.1 * torch.randn(len(gradient), 64, generator=numbers)}
    gradients, moments = {"head.weight": gradient}, {"head.weight/momentum_buffer": 0.3 * gradient}
    own = {"norm": 1.0, "rate": 1.0, "clipping": 0.946, "matrices": frozenset(weights)}
    inputs = StepInputs(weights, gradients, moments, **own)
    outcome = StepOutcome(config(training={"optimizer": "muon"}).training, None, inputs, {}, 3e-5)
    enlarged = outcome.roundings()["head.weight"]
    assert (enlarged > 1e-5) == (rank == 1)
    assert enlarged < 1e-3
