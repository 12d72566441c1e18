"""A part of a person's own under the contracts of its kind, in small models of every kind it can stand in."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import nn

from attnlab.config.registry import Registry
from attnlab.config.values import Choice, ConfigError
from attnlab.model.attention import ATTENTION
from attnlab.model.attention.rule import Rule
from attnlab.model.combinations import FAMILIES
from attnlab.model.contracts import promises
from attnlab.model.contracts.promises import ContractError
from attnlab.model.contracts.small_models import SmallModel, covering, working
from attnlab.model.contracts.zero_gradients import expected_zero
from attnlab.model.feedforward import FEEDFORWARDS, FeedForward
from attnlab.model.model import Model
from attnlab.model.norms import NORMS
from attnlab.model.positions import POSITIONS
from attnlab.model.positions.position import Position
from attnlab.model.projections import PROJECTIONS, Projections

KINDS: tuple[tuple[str, type, Registry[Any]], ...] = (
    ("attention", Rule, ATTENTION),
    ("positions", Position, POSITIONS),
    ("projections", Projections, PROJECTIONS),
    ("feedforward", FeedForward, FEEDFORWARDS),
    ("norm", nn.Module, NORMS),
)
"""The setting of a model, the class that its parts extend (norms extend none of ours), and its table."""
CHANGES = tuple(product(FAMILIES, ("pre", "post"), (True, False)))
"""Families, residuals and biases that a feed-forward or a norm is tried with."""


def keep_contract(part: type, *, untaught: Collection[str] = (), **options: object) -> int:
    """Raise ContractError where a part breaks a contract of its kind; give the number of models it was tried
    in. Options replace the class's own `examples`; parameters of it whose names end as one of `untaught` need
    no gradient."""
    setting, registry = kind_of(part)
    count = 0
    tried = type(part.__name__, (part,), {"examples": (options,)}) if options else part
    examples: tuple[dict[str, object], ...] = getattr(tried, "examples", ({},))
    with registered(registry, tried) as name, exactly():
        for example in examples:
            for case in cases_of(setting, Choice(name, dict(example))):
                count += 1
                try:
                    keep_promises(case, part, untaught)
                except ContractError:
                    raise
                except Exception as error:  # whatever the code of a part raises
                    kind, message = type(error).__name__, str(error)
                    raise ContractError(f"{kind}: {message} (in the model {case})") from error
    if not count:
        raise ContractError(f"{part.__name__} is refused in every combination, so that no model can have it.")
    return count


def keep_promises(case: SmallModel, part: type, untaught: Collection[str]) -> None:
    """Every promise, of one model."""
    promises.is_counted_in_closed_form(case)
    promises.begins_by_its_seed(case)
    model = case.model()
    promises.equals_its_plain_form(case, model)
    promises.equals_itself_with_a_cache(case, model)
    promises.depends_on_visible_tokens_alone(case, model)
    promises.is_the_same_padded_and_in_company(case, model)
    promises.comes_back_from_its_saved_parameters(case, model)
    own = own_parameters(model, part)
    promises.teaches_every_parameter(case, model, either=partial(may_be_still, case, own, untaught))


def may_be_still(case: SmallModel, own: Collection[str], untaught: Collection[str], name: str) -> bool:
    """Whether a parameter may go without a gradient: one that is named or that a rule is proved not to teach,
    and a bias of the parts around it, which scores may well ignore."""
    if any(name.endswith(end) for end in untaught) or expected_zero(case, name) is not None:
        return True
    return name not in own and name.endswith("bias")


def own_parameters(model: Model, part: type) -> set[str]:
    """The names of the parameters that a part holds."""
    inside = tuple(f"{name}." for name, module in model.named_modules() if isinstance(module, part))
    return {name for name, _ in model.named_parameters() if name.startswith(inside)}


def kind_of(part: type) -> tuple[str, Registry[Any]]:
    """Which setting of a model a class is for, by the class that it extends."""
    for setting, base, registry in KINDS:
        if isinstance(part, type) and issubclass(part, base) and not issubclass(part, Model):
            return setting, registry
    raise ConfigError(
        "A contract is kept by a class that extends Rule, Position, Projections or FeedForward, or by a norm "
        f"(a class of torch modules); this is {part!r}."
    )


def cases_of(setting: str, choice: Choice) -> list[SmallModel]:
    """Small models with this part: with each two other choices that can stand together."""
    if setting in ("feedforward", "norm"):
        plain = SmallModel(
            Choice("dot"), Choice("causal"), Choice("sinusoidal"), Choice("separate"), "decoder", "-inf"
        )
        return [
            replace(
                plain,
                family=family,
                mask=Choice("bidirectional" if family == "encoder" else "causal"),
                extras={setting: choice, "residual": residual, "bias": bias, "layers": 2},
            )
            for family, residual, bias in CHANGES
        ]
    return covering([case for case in working() if getattr(case, setting) == choice])


@contextmanager
def registered(registry: Registry[Any], part: type) -> Iterator[str]:
    """The name of a part in its table, where it stands for as long as this lasts if it did not before."""
    for name in registry:
        if registry[name] is part:
            yield name
            return
    name = f"tried_{part.__name__.lower()}"
    registry.register(name, part)
    try:
        yield name
    finally:
        registry.unregister(name)


@contextmanager
def exactly() -> Iterator[None]:
    """Everything in float64, so that only real differences show; others' random numbers stay as they were."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.random.fork_rng(), torch.enable_grad():
            yield
    finally:
        torch.set_default_dtype(before)
