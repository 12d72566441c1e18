"""One training step by a plain route: torch's own update in float64, the rate by its closed formula.

Nothing here calls the loop, its optimizer or its schedule: settings are read from the config, and which
parameters decay is written out a second time.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

from attnlab.config.registry import Registry
from attnlab.config.schema import Budget, TrainingSettings
from attnlab.config.values import Choice
from attnlab.model.isolation import copy_of
from attnlab.model.losses import IGNORE
from attnlab.model.model import Model
from attnlab.model.positions.position import Position
from attnlab.tasks.task import Prepared
from attnlab.training.optimizers import OPTIMIZERS, AdamW, Muon, Optimizers, TorchRecipe
from attnlab.training.schedules import SCHEDULES
from attnlab.training.updates import MuonUpdate, ParameterGroup

CLIP_EPSILON = 1e-6
"""What torch adds to a norm before it divides by it."""
Tensors = Mapping[str, Tensor]


@dataclass(frozen=True)
class Amounts:
    """How much of each budget is used up."""

    steps: float = 0
    tokens: float = 0
    epochs: float = 0.0
    seconds: float = 0.0
    flops: float = 0

    def share(self, budget: Budget) -> float:
        """The share of the limit that is nearest."""
        return max(getattr(self, name) / limit for name, limit in budget.limits.items())


@dataclass(frozen=True)
class StepInputs:
    """All that one update goes by, for the tensors that are looked at: weights and gradients by name, what
    the optimizer remembers as `name/what`, and which names decay."""

    weights: Tensors
    gradients: Tensors
    moments: Tensors
    norm: float
    """Of all gradients of the model, clipping not yet applied."""
    rate: float
    """The learning rate as a share of the full one."""
    clipping: float = 1.0
    """What the gradient is multiplied by so that its norm is at most `training.clip`."""
    noise: Mapping[str, float] = field(default_factory=dict)
    """How far the gradient of a name comes out otherwise when every number is rounded otherwise, as a share
    of it. That of a key's bias is nothing but rounding: no softmax sees it."""
    decaying: frozenset[str] = frozenset()
    matrices: frozenset[str] = frozenset()
    """Of the decaying ones, those of linear layers."""


# ---------------------------------------------------------------- the rate
def options_of(registry: Registry[Any], choice: Choice) -> dict[str, Any]:
    """A choice's options: those that are set, and the defaults of its signature."""
    parameters = inspect.signature(registry[choice.kind]).parameters.values()
    defaults = {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty}
    return defaults | dict(choice.options)


def rate_at(schedule: Choice, progress: float) -> float:
    """The share of the full learning rate at a share of the budget, by the schedule's closed formula."""
    options = options_of(SCHEDULES, schedule)
    if schedule.kind not in ("constant", "cosine", "linear", "wsd"):
        return SCHEDULES.build(schedule).factor(progress)
    warmup, final = options["warmup"], options.get("final", 1.0)
    if schedule.kind == "wsd" and progress > 1 - options["decay"]:
        return float(final + (1 - final) * (1 - progress) / options["decay"])
    if progress < warmup:
        return float(progress / warmup)
    left = (1 - progress) / (1 - warmup)
    if schedule.kind == "linear":
        return float(final + (1 - final) * left)
    if schedule.kind == "cosine":
        return float(final + (1 - final) * math.cos(math.pi * (1 - left) / 2) ** 2)
    return 1.0


def middle_rates(settings: TrainingSettings, before: Amounts, after: Amounts) -> list[float]:
    """The rates that the middle of a step may have: one, but for a budget in seconds, of which a step does
    not know beforehand how many it takes."""
    timed = "seconds" in settings.budget.limits
    rates = []
    for part in range(9 if timed else 1):
        seconds = before.seconds + (after.seconds - before.seconds) * (part / 8 if timed else 1)
        shares = (one.share(settings.budget) for one in (before, replace(after, seconds=seconds)))
        rates.append(rate_at(settings.schedule, sum(shares) / 2))
    return rates


# ---------------------------------------------------------------- which parameters decay
def decaying_of(model: nn.Module) -> tuple[frozenset[str], frozenset[str]]:
    """The trainable parameters that decay, and those of them that are matrices of linear layers.

    What is looked up (tables of tokens and positions) and what has one dimension (norms, biases) does not.
    """
    holders: dict[nn.Parameter, list[nn.Module]] = {}
    for module in model.modules():
        for parameter in module.parameters(recurse=False):
            holders.setdefault(parameter, []).append(module)
    decaying, matrices = set(), set()
    for name, parameter in model.named_parameters():
        looked_up = any(isinstance(one, (nn.Embedding, Position)) for one in holders[parameter])
        if parameter.requires_grad and parameter.dim() > 1 and not looked_up:
            decaying.add(name)
            if parameter.dim() == 2 and isinstance(holders[parameter][0], nn.Linear):
                matrices.add(name)
    return frozenset(decaying), frozenset(matrices)


# ---------------------------------------------------------------- the gradient
def target_count(batches: Sequence[Prepared]) -> int:
    """How many targets batches have: one a row where a row is an example, else one wherever one is marked."""
    rows = [len(one.ids) for one in batches if one.of_examples and one.words is None]
    marked = [one.targets != IGNORE for one in batches if not (one.of_examples and one.words is None)]
    return sum(rows) + sum(int(one.count_nonzero()) for one in marked)


def norm_of(gradients: Sequence[Tensor]) -> float:
    return math.sqrt(sum(float(one.double().square().sum()) for one in gradients))


def clipping_of(clip: Any, norm: float) -> float:
    return 1.0 if clip == "off" else min(1.0, clip / (norm + CLIP_EPSILON))


# ---------------------------------------------------------------- the update
def updated(choice: Choice, model: Model, inputs: StepInputs, **changed: Any) -> dict[str, Tensor]:
    """The weights by name and what the optimizer remembers as `name/what`, after one update.

    `changed` are options that are tried in place of the config's.
    """
    recipe = OPTIMIZERS[choice.kind]
    options = options_of(OPTIMIZERS, choice) | changed
    if recipe is AdamW:
        decays = dict.fromkeys(inputs.decaying, options["weight_decay"])
        return _adamw(inputs, list(inputs.weights), decays, options, options["learning_rate"])
    if recipe is Muon:
        matrices = [name for name in inputs.weights if name in inputs.matrices]
        others = [name for name in inputs.weights if name not in inputs.matrices]
        own = options["adamw_learning_rate"]
        rate = options["learning_rate"] if own == "same" else own
        return _muon(inputs, matrices, options) | _adamw(inputs, others, {}, options, rate)
    if issubclass(recipe, TorchRecipe):
        return _torch_class(recipe, inputs, options)
    return _own_recipe(choice, model, inputs)


def moved(inputs: StepInputs) -> list[str]:
    """The names that have a gradient, which alone move."""
    return [name for name in inputs.weights if name in inputs.gradients]


def remembered(inputs: StepInputs, name: str) -> dict[str, Tensor]:
    """What the optimizer remembers of a parameter, in float64."""
    own = {key.rsplit("/", 1)[1]: value for key, value in inputs.moments.items() if held_by(key, name)}
    return {what: value.clone() if what == "step" else value.double() for what, value in own.items()}


def held_by(key: str, name: str) -> bool:
    return key.rsplit("/", 1)[0] == name


def gradient_in(inputs: StepInputs, name: str) -> Tensor:
    return inputs.gradients[name].double() * inputs.clipping


def as_written(name: str, weight: Tensor, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: weight, **{f"{name}/{what}": value for what, value in state.items()}}


def _adamw(
    inputs: StepInputs, names: Sequence[str], decays: Mapping[str, float], options: Any, rate: float
) -> dict[str, Tensor]:
    """By torch's plain function, one tensor after the other."""
    after: dict[str, Tensor] = {}
    for name in names:
        weight, state = inputs.weights[name].double(), remembered(inputs, name)
        if name in inputs.gradients:
            fresh = {"exp_avg": torch.zeros_like(weight), "exp_avg_sq": torch.zeros_like(weight)}
            state = {"step": torch.zeros(())} | fresh | state
            adamw(
                [weight],
                [gradient_in(inputs, name)],
                [state["exp_avg"]],
                [state["exp_avg_sq"]],
                [],
                [state["step"]],
                foreach=False,
                fused=False,
                amsgrad=False,
                beta1=options["betas"][0],
                beta2=options["betas"][1],
                lr=rate * inputs.rate,
                weight_decay=decays.get(name, 0.0),
                eps=options["eps"],
                maximize=False,
            )
        after |= as_written(name, weight, state)
    return after


def _muon(inputs: StepInputs, names: Sequence[str], options: Any) -> dict[str, Tensor]:
    parameters = {name: _parameter(inputs, name, torch.float32) for name in names}
    group = ParameterGroup(list(parameters.values()), options["learning_rate"], options["weight_decay"])
    update = MuonUpdate([group], momentum=options["momentum"])
    for name, parameter in parameters.items():
        if state := remembered(inputs, name):
            update.state[parameter] = {what: value.float() for what, value in state.items()}
    if names:
        update.step(inputs.rate)
    return _written(parameters, update.state)


def _torch_class(recipe: type[TorchRecipe], inputs: StepInputs, options: dict[str, Any]) -> dict[str, Tensor]:
    options = dict(options)
    rate, decay = options.pop("learning_rate"), options.pop("weight_decay", 0.0)
    parameters = {name: _parameter(inputs, name, torch.float64) for name in inputs.weights}
    groups = [
        {
            "params": [p for name, p in parameters.items() if (name in inputs.decaying) == decays],
            "lr": rate * inputs.rate,
            "weight_decay": decay if decays else 0.0,
        }
        for decays in (True, False)
    ]
    optimizer = recipe.optimizer([group for group in groups if group["params"]], **options)
    for name, parameter in parameters.items():
        if state := remembered(inputs, name):
            optimizer.state[parameter] = state
    optimizer.step()
    return _written(parameters, optimizer.state)


def _own_recipe(choice: Choice, model: Model, inputs: StepInputs) -> dict[str, Tensor]:
    """A recipe of somebody's own, built afresh for a copy of the model."""
    copied = copy_of(model)
    parameters = {name: p for name, p in copied.named_parameters() if name in inputs.weights}
    for name, parameter in parameters.items():
        parameter.data.copy_(inputs.weights[name])
        held = inputs.gradients.get(name)
        parameter.grad = None if held is None else (held * inputs.clipping).to(parameter)
    optimizers = Optimizers(OPTIMIZERS.build(choice), copied)
    optimizers.restore({key: value.clone() for key, value in inputs.moments.items()})
    optimizers.step(inputs.rate)
    return {name: p.detach() for name, p in parameters.items()} | optimizers.state()


def _parameter(inputs: StepInputs, name: str, kind: torch.dtype) -> nn.Parameter:
    parameter = nn.Parameter(inputs.weights[name].to(kind, copy=True))
    if name in inputs.gradients:
        parameter.grad = gradient_in(inputs, name).to(kind)
    return parameter


def _written(parameters: Mapping[str, nn.Parameter], state: Mapping[Tensor, Any]) -> dict[str, Tensor]:
    after: dict[str, Tensor] = {}
    for name, parameter in parameters.items():
        after |= as_written(name, parameter.detach(), state.get(parameter, {}))
    return after
