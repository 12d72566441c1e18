"""How a gradient becomes a change of the weights: updates with the right groups."""

from __future__ import annotations

import inspect
import sys
import typing
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from attnlab.config.ranges import BelowOne, NotNegative, Positive
from attnlab.config.registry import Registry
from attnlab.config.values import ConfigError
from attnlab.model.positions.position import Position
from attnlab.runs.faults import RunError
from attnlab.training.updates import AdamWUpdate, MuonUpdate, ParameterGroup, TorchUpdate, Update


class OptimizerRecipe(ABC):
    """How a model's weights are to change."""

    @abstractmethod
    def make(self, model: nn.Module) -> list[Update]:
        """Updates of this model's parameters, each parameter in exactly one."""


class AdamW(OptimizerRecipe):
    """AdamW: each weight's own step size, from running means of its gradient and its square.

    Formula: w ← w − learning_rate·(m̂ / (√v̂ + eps) + weight_decay·w). Matrices decay; norms, biases,
    embeddings and tables of positions do not.

    Cost: two more numbers for each weight.

    When it helps: the default.

    Paper: Loshchilov and Hutter 2019, "Decoupled Weight Decay Regularization".
    """

    def __init__(
        self,
        *,
        learning_rate: Positive = 5e-4,
        weight_decay: NotNegative = 0.1,
        betas: tuple[BelowOne, ...] = (0.9, 0.95),
        eps: Positive = 1e-8,
    ):
        self.learning_rate = positive("learning_rate", learning_rate)
        self.weight_decay, self.betas, self.eps = weight_decay, two(betas), eps

    def make(self, model: nn.Module) -> list[Update]:
        decaying, plain = divided(model)
        groups = (
            ParameterGroup(decaying, self.learning_rate, self.weight_decay),
            ParameterGroup(plain, self.learning_rate),
        )
        return [AdamWUpdate(groups, betas=self.betas, eps=self.eps)]


class Muon(OptimizerRecipe):
    """Muon: the momentum of each hidden matrix, made orthogonal; AdamW for everything else.

    Formula: W ← W − learning_rate·(0.2·√max(rows, columns)·orth(momentum) + weight_decay·W), where orth
    takes every singular value to about 1 (five Newton-Schulz steps). With that scale the update is as
    large as AdamW's, so both share `learning_rate` unless `adamw_learning_rate` is given.

    Cost: one more number for each weight of a matrix, and a few matrix products per step.

    When it helps: fewer steps to a loss than AdamW on hidden matrices; embeddings, the head,
    norms and biases stay with AdamW.

    Paper: Jordan et al. 2024, "Muon"; Liu et al. 2025, "Muon is Scalable for LLM Training".
    """

    def __init__(
        self,
        *,
        learning_rate: Positive = 2e-3,
        adamw_learning_rate: Positive | Literal["same"] = "same",
        weight_decay: NotNegative = 0.1,
        momentum: BelowOne = 0.95,
        betas: tuple[BelowOne, ...] = (0.9, 0.95),
        eps: Positive = 1e-8,
    ):
        self.learning_rate = positive("learning_rate", learning_rate)
        self.adamw_learning_rate = (
            learning_rate
            if adamw_learning_rate == "same"
            else positive("adamw_learning_rate", adamw_learning_rate)
        )
        self.weight_decay, self.momentum = weight_decay, momentum
        self.betas, self.eps = two(betas), eps

    def make(self, model: nn.Module) -> list[Update]:
        matrices: list[nn.Parameter] = []
        others: list[nn.Parameter] = []
        for _, parameter, owner in owned(model):
            (matrices if isinstance(owner, nn.Linear) and parameter.ndim == 2 else others).append(parameter)
        return [
            MuonUpdate(
                [ParameterGroup(matrices, self.learning_rate, self.weight_decay)], momentum=self.momentum
            ),
            AdamWUpdate([ParameterGroup(others, self.adamw_learning_rate)], betas=self.betas, eps=self.eps),
        ]


class TorchRecipe(OptimizerRecipe):
    """An optimizer of torch.optim, or of anybody who follows its protocol; `from_torch` makes these."""

    optimizer: type[torch.optim.Optimizer]

    def __init__(self, **options: Any):
        self.learning_rate = options.pop("learning_rate")
        self.weight_decay = options.pop("weight_decay", 0.0)
        self.options = options
        example = nn.Parameter(torch.zeros(1, 1))  # wrong options are refused when the config loads
        self.update([ParameterGroup([example], self.learning_rate, self.weight_decay)])

    def make(self, model: nn.Module) -> list[Update]:
        decaying, plain = divided(model)
        groups = [
            ParameterGroup(decaying, self.learning_rate, self.weight_decay),
            ParameterGroup(plain, self.learning_rate),
        ]
        return [self.update(groups)]

    def update(self, groups: list[ParameterGroup]) -> TorchUpdate:
        try:
            return TorchUpdate(groups, self.optimizer, self.options)
        except ValueError as error:
            raise ConfigError(f"training.optimizer: {self.optimizer.__name__} says: {error}") from error


def from_torch(optimizer: type[torch.optim.Optimizer]) -> type[OptimizerRecipe]:
    """A recipe of a torch.optim class: `OPTIMIZERS.register("sgd", from_torch(torch.optim.SGD))`.

    Its options are the constructor's own, `lr` under the name `learning_rate`. Matrices decay; norms, biases,
    embeddings and tables of positions do not.
    """
    if inspect.signature(optimizer.step).parameters["closure"].default is inspect.Parameter.empty:
        raise ConfigError(
            f"{optimizer.__name__} computes the loss several times a step (its step needs a closure); a step "
            "here has one gradient. Use an optimizer that works without a closure."
        )
    hints = typing.get_type_hints(optimizer.__init__)
    options = [
        inspect.Parameter(
            "learning_rate" if name == "lr" else name,
            inspect.Parameter.KEYWORD_ONLY,
            default=declared.default,
            annotation=kind,
        )
        for name, declared in inspect.signature(optimizer).parameters.items()
        if (kind := _kind_of_option(name, declared, hints.get(name))) is not None
    ]
    summary = f"{optimizer.__name__}: the optimizer of {optimizer.__module__}."

    def __init__(self: TorchRecipe, **chosen: Any) -> None:  # noqa: N807  # a signature of its own
        TorchRecipe.__init__(self, **chosen)

    __init__.__annotations__ = {option.name: option.annotation for option in options}
    members = {
        "__doc__": summary,
        "__init__": __init__,
        "__module__": sys._getframe(1).f_globals["__name__"],  # as of a class in that file
        "__signature__": inspect.Signature(options),
        "optimizer": optimizer,
    }
    return type(optimizer.__name__, (TorchRecipe,), members)


def _kind_of_option(name: str, declared: inspect.Parameter, hint: Any) -> Any:
    """The type of an option that a config can hold; None for what a person does not set.

    Left out are the parameters themselves, how a step is computed (`foreach`, `fused`, …), and what is None
    by default.
    """
    if name == "lr":
        return Positive
    if name == "weight_decay":
        return NotNegative
    match declared.default:
        case _ if name in ("params", "foreach", "fused", "capturable", "differentiable"):
            return None
        case bool() | str():
            return type(declared.default)
        case int():
            return int if hint is int else float
        case float():
            return float
        case tuple() as numbers if all(isinstance(number, (int, float)) for number in numbers):
            return tuple[float, ...]
        case _:
            return None


OPTIMIZERS: Registry[OptimizerRecipe] = Registry(
    "optimizers",
    base="attnlab.training.optimizers:OptimizerRecipe",
    default="adamw",
    variants={
        "adamw": "attnlab.training.optimizers:AdamW",
        "muon": "attnlab.training.optimizers:Muon",
    },
)


def owned(model: nn.Module) -> Iterator[tuple[str, nn.Parameter, nn.Module]]:
    """Every trainable parameter once, with its name and the module that holds it."""
    seen: set[int] = set()
    for prefix, module in model.named_modules():
        for name, parameter in module.named_parameters(prefix, recurse=False):
            if id(parameter) not in seen and parameter.requires_grad:
                seen.add(id(parameter))
                yield name, parameter, module


def decays(parameter: nn.Parameter, owner: nn.Module) -> bool:
    """Whether a weight is drawn towards 0: only where it multiplies a signal, not where it is looked up."""
    return parameter.ndim >= 2 and not isinstance(owner, (nn.Embedding, Position))


def divided(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """The parameters that decay, and those that do not."""
    decaying: list[nn.Parameter] = []
    plain: list[nn.Parameter] = []
    for _, parameter, owner in owned(model):
        (decaying if decays(parameter, owner) else plain).append(parameter)
    return decaying, plain


class Optimizers:
    """The updates of a run as one, with a state that is named by the parameters."""

    def __init__(self, recipe: OptimizerRecipe, model: nn.Module):
        self.recipe, self.made = recipe, recipe.make(model)
        self.names: dict[Tensor, str] = {parameter: name for name, parameter, _ in owned(model)}

    def step(self, factor: float) -> None:
        """One step at this share of the full learning rate."""
        for update in self.made:
            update.step(factor)

    def zero_grad(self) -> None:
        for update in self.made:
            update.zero_grad()

    @property
    def learning_rate(self) -> float:
        """The full learning rate of the first group, for the record."""
        return self.made[0].groups[0].learning_rate

    def state(self) -> dict[str, Tensor]:
        """Every tensor that the updates hold, as `parameter/what`, in the order of these names: processes
        gather them one by one, and each restores those of a file in another order."""
        tensors = {
            f"{self.names[parameter]}/{what}": value
            for update in self.made
            for parameter, values in update.state.items()
            for what, value in values.items()
        }
        return dict(sorted(tensors.items()))

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Take up a saved state; every entry must find its parameter."""
        places: dict[str, tuple[Update, Tensor]] = {}
        for update in self.made:
            for group in update.groups:
                places |= {self.names[p]: (update, p) for p in group.parameters}
        for key, value in state.items():
            name, what = key.rsplit("/", 1)
            if name not in places:
                raise RunError(f"The checkpoint's optimizer holds {name}, which this model does not have.")
            update, parameter = places[name]
            update.state.setdefault(parameter, {})[what] = update.placed(what, value, parameter)


def positive(name: str, value: float) -> float:
    if value <= 0:
        raise ConfigError(f"training.optimizer.{name} is {value}; it must be above 0.")
    return value


def two(betas: tuple[float, ...]) -> tuple[float, float]:
    if len(betas) != 2 or not all(0 <= beta < 1 for beta in betas):
        raise ConfigError(f"training.optimizer.betas is {list(betas)}; it takes two numbers in [0, 1).")
    return betas[0], betas[1]
