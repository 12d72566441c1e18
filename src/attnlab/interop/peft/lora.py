"""LoRA in peft's files: A and B of each of their maps, which may be several of ours in one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.config.ranges import BelowOne
from attnlab.config.values import ConfigError, coerce
from attnlab.interop.peft.layout import Config, Map, NamedModel, Tensors
from attnlab.model.adapters.lora import Lora, LowRank, Scaling, map_named

DOWN, UP = ".lora_A.weight", ".lora_B.weight"
HARMLESS = (True, False, "gaussian", "eva", "orthogonal")
"""Ways to begin that leave the model's own weights alone."""
NAMES_ONLY = re.compile(r"\^?[\w.]+")
"""Patterns of names that are tried: others could keep a machine busy without end."""


# ---------------------------------------------------------------- in
def lora_in(layout: NamedModel, config: Config, tensors: Tensors) -> Lora:
    if config.get("bias", "none") != "none":
        raise ConfigError(
            f"adapter_config.json has bias = {config['bias']!r}: biases of the model were trained as well, "
            'which no LoRA here does; train with bias = "none".'
        )
    if config.get("init_lora_weights", True) not in HARMLESS:
        raise ConfigError(
            f"adapter_config.json has init_lora_weights = {config['init_lora_weights']!r}, which changes the "
            "model's own weights; convert it to a plain LoRA with peft first."
        )
    scaling: Scaling = "root" if config.get("use_rslora") else "rank"
    updates: dict[str, LowRank] = {}
    maps = layout.maps(bare=True) | layout.maps()
    for name in [n.removesuffix(DOWN) for n in tensors if n.endswith(DOWN)]:
        down, up = tensors.pop(name + DOWN), tensors.pop(name + UP, None)
        if up is None or down.ndim != 2 or up.ndim != 2 or up.shape[1] != len(down) or not len(down):
            raise ConfigError(f"{name}: {DOWN[1:]} and {UP[1:]} must be there both, of one rank.")
        if name not in maps:
            raise ConfigError(
                f"{name} has an update, and no map of a {layout.family.model_type} model here has that name "
                "(tables of words are not maps); leave it out of target_modules."
            )
        alpha = _number(_by_pattern(config, "alpha_pattern", name, config.get("lora_alpha", 8)), name)
        updates |= _updates(layout, maps[name], down, up, alpha, scaling, _dropout(config))
    if not updates:
        raise ConfigError("The adapter's file holds no update: no tensor ends in lora_A.weight.")
    first = next(iter(updates.values()))
    adapter = Lora(rank=first.up.in_features, alpha=first.alpha, scaling=scaling, dropout=_dropout(config))
    adapter.updates = updates
    adapter.targets = tuple(dict.fromkeys(name.rpartition(".")[2] for name in updates))
    return adapter


def _updates(
    layout: NamedModel, mapped: Map, down: Tensor, up: Tensor, alpha: float, scaling: Scaling, dropout: float
) -> dict[str, LowRank]:
    """One update for each of ours, which share A where theirs is one map."""
    linears = [map_named(layout.model, name) for name in mapped.ours]
    rows = [linear.out_features for linear in linears]
    if (up.shape[0], down.shape[1]) != (sum(rows), linears[0].in_features):
        raise ConfigError(
            f"The update of {mapped.ours[0]} is for a map of {down.shape[1]} to {up.shape[0]}, and this "
            f"model's goes from {linears[0].in_features} to {sum(rows)}."
        )
    shared = _linear(down)
    parts = up.split(rows)
    return {
        name: LowRank(shared, _linear(part), alpha, scaling, dropout)
        for name, part in zip(mapped.ours, parts, strict=True)
    }


def _linear(weight: Tensor) -> nn.Linear:
    made = nn.Linear(weight.shape[1], weight.shape[0], bias=False, dtype=weight.dtype)
    made.weight = nn.Parameter(weight.clone())
    return made


def _by_pattern(config: Config, table: str, name: str, otherwise: Any) -> Any:
    """A module's own value, where a pattern names it as peft's patterns do."""
    patterns = config.get(table) or {}
    if not isinstance(patterns, Mapping):
        raise ConfigError(f"adapter_config.json has {table} = {patterns!r}; it must be a table.")
    for pattern, value in patterns.items():
        if not NAMES_ONLY.fullmatch(pattern):
            raise ConfigError(
                f"adapter_config.json: {table} has the pattern {pattern!r}; only names of modules are read."
            )
        if re.match(rf"(.*\.)?({pattern})$", name):
            return value
    return otherwise


def _number(value: Any, name: str) -> float:
    return float(coerce(value, float, f"adapter_config.json: lora_alpha of {name}"))


def _dropout(config: Config) -> float:
    return float(coerce(config.get("lora_dropout", 0.0), BelowOne, "adapter_config.json: lora_dropout"))


# ---------------------------------------------------------------- out
def lora_out(layout: NamedModel, adapter: Lora) -> tuple[Config, Tensors]:
    maps = layout.maps()
    known = {name for mapped in maps.values() for name in mapped.ours}
    for name in adapter.updates:
        if name not in known:
            raise ConfigError(
                f"{name} has an update, and no map of a {layout.family.model_type} model is it."
            )
    chosen = {theirs: mapped for theirs, mapped in maps.items() if set(mapped.ours) & set(adapter.updates)}
    tensors: Tensors = {}
    alphas, ranks = dict[str, float](), dict[str, int]()
    for theirs, mapped in chosen.items():
        own = [adapter.updates[name] for name in mapped.ours if name in adapter.updates]
        _refuse_apart(theirs, own)
        tensors[theirs + DOWN] = own[0].down.weight.detach()
        tensors[theirs + UP] = torch.cat([_up(layout, adapter, name, own[0]) for name in mapped.ours])
        alphas[theirs], ranks[theirs] = own[0].alpha, own[0].up.in_features
    scalings = {update.scaling for update in adapter.updates.values()}
    if len(scalings) > 1:
        raise ConfigError("Some updates are scaled by rank and some by its root; peft's file says it once.")
    rank, alpha = _usual(ranks.values()), _usual(alphas.values())
    return {
        "peft_type": "LORA",
        "r": rank,
        "lora_alpha": _whole(alpha),
        "rank_pattern": {name: value for name, value in ranks.items() if value != rank},
        "alpha_pattern": {name: _whole(value) for name, value in alphas.items() if value != alpha},
        "lora_dropout": adapter.dropout,
        "use_rslora": scalings == {"root"},
        "fan_in_fan_out": any(mapped.transposed for mapped in chosen.values()),
        "bias": "none",
        "init_lora_weights": True,
        "target_modules": targets(list(chosen), list(maps)),
    }, tensors


def _refuse_apart(theirs: str, own: list[LowRank]) -> None:
    first = own[0]
    for other in own[1:]:
        same = other.down is first.down or torch.equal(other.down.weight, first.down.weight)
        if not same or (other.alpha, other.scaling) != (first.alpha, first.scaling):
            raise ConfigError(
                f"{theirs} is one map there, with one A and one alpha for its update, and its parts here "
                "have their own; train with lora(shared_down=true), or merge the adapter and save the model."
            )


def _up(layout: NamedModel, adapter: Lora, name: str, like: LowRank) -> Tensor:
    """B of one of ours; zeros where a part of their map has no update."""
    if name in adapter.updates:
        return adapter.updates[name].up.weight.detach()
    rows = map_named(layout.model, name).out_features
    return like.up.weight.detach().new_zeros(rows, like.up.in_features)


def targets(chosen: list[str], all_maps: list[str]) -> list[str]:
    """How the names of these end, below their layer, where that says which; their whole names otherwise."""
    ends = list(dict.fromkeys(re.split(r"\.\d+\.", name)[-1] for name in chosen))
    meant = [name for name in all_maps if any(name == e or name.endswith(f".{e}") for e in ends)]
    return sorted(ends) if meant == chosen else chosen


def _usual(values: Iterable[Any]) -> Any:
    return Counter(values).most_common(1)[0][0]


def _whole(value: float) -> float | int:
    return int(value) if value == int(value) else value
