"""Low-rank adaptation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from attnlab.config.memory import refuse_beyond_memory
from attnlab.config.ranges import BelowOne, Count, Positive
from attnlab.config.values import ConfigError, nearest
from attnlab.model.adapters.adapter import Adapter, generator_for, put
from attnlab.model.draws import fill_normal
from attnlab.model.model import Model
from attnlab.model.products import LinearMap
from attnlab.model.terms import Term

Scaling = Literal["rank", "root"]


class Lora(Adapter):
    """LoRA: chosen maps get an update of low rank.

    Formula: W x + s·B A x, with A (r×in) drawn and B (out×r) zero at first, and s = alpha / r
    (`scaling=rank`) or alpha / √r (`root`: rank-stabilised). `shared_down` gives the chosen maps of one
    attention the same A, as a fused map has it.

    Cost: r·(in + out) parameters for each map of in × out; none once it is merged.

    When it helps: the usual choice: few trained numbers, which merged cost nothing when the model is used.

    Paper: Hu et al. 2021, "LoRA"; Kalajdzievski 2023, "A Rank Stabilization Scaling Factor" (rsLoRA).
    """

    examples: ClassVar[tuple[dict[str, object], ...]] = (
        {"rank": 2},
        {"rank": 2, "targets": ("query", "key", "value", "output", "up", "down"), "shared_down": True},
    )

    def __init__(
        self,
        *,
        rank: Count = 8,
        alpha: Positive = 16.0,
        scaling: Scaling = "rank",
        targets: tuple[str, ...] = ("query", "value"),
        shared_down: bool = False,
        dropout: BelowOne = 0.0,
    ):
        super().__init__()
        if rank < 1:
            raise ValueError(f"rank is {rank}; an update needs at least 1.")
        self.rank, self.alpha, self.scaling = rank, alpha, scaling
        self.targets, self.shared_down, self.dropout = targets, shared_down, dropout
        self.updates: dict[str, LowRank] = {}
        self._handles: list[RemovableHandle] = []
        self._plain: dict[str, Tensor] = {}
        self._merged: Model | None = None

    def insert(self, model: Model, seed: int) -> None:
        if not self.updates:
            self.updates = self._drawn(chosen_maps(model, self.targets), seed)
        maps = {name: map_named(model, name) for name in self.updates}
        for name, linear in maps.items():
            self.updates[name].check(name, linear)
        for name, linear in maps.items():
            linear.add_module("lora", self.updates[name].to(linear.weight))
            self._handles.append(linear.register_forward_hook(_updated))

    def _drawn(self, maps: dict[str, nn.Linear], seed: int) -> dict[str, LowRank]:
        rows = sum(linear.out_features for linear in maps.values())  # of B alone: A may be shared
        refuse_beyond_memory(self.rank * rows, f"lora of rank {self.rank:,}", "lower its rank")
        downs: dict[str, nn.Linear] = {}
        updates = {}
        for name, linear in maps.items():
            home = name.rpartition(".")[0]
            place = home if self.shared_down and home.endswith("projections") else name
            if place not in downs:
                downs[place] = plain_map(linear.in_features, self.rank, linear.weight)
                fill_normal(
                    downs[place].weight, linear.in_features**-0.5, generator_for(seed, f"{place}.lora")
                )
            up = plain_map(self.rank, linear.out_features, linear.weight)
            nn.init.zeros_(up.weight)
            updates[name] = LowRank(downs[place], up, self.alpha, self.scaling, self.dropout)
        return updates

    def remove(self, model: Model) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []
        for name in self.updates:
            del map_named(model, name)._modules["lora"]

    @torch.no_grad()
    def merge(self) -> None:
        """Add the updates to the weights and leave the model, which is then a plain one."""
        model = self.attached
        for name, update in self.updates.items():
            weight = map_named(model, name).weight
            self._plain[f"{name}.weight"] = weight.detach().clone()
            weight.add_(update.matrix())
        self._merged = self.leave()

    def unmerge(self) -> None:
        """Put the weights back as they were, bit for bit, and go onto the model again."""
        if self._merged is None:
            raise ValueError("This adapter is not merged into a model; merge it first.")
        put(self._merged, self._plain | self._before)
        self.attach(self._merged)
        self._merged, self._plain = None, {}

    def own(self) -> list[nn.Parameter]:
        return [p for update in self.updates.values() for p in update.parameters()]

    def terms(self) -> list[Term]:
        downs = {id(update.down): update.down for update in self.updates.values()}
        ups = [update.up for update in self.updates.values()]
        return [
            Term("lora down", "Σ r·in", sum(d.weight.numel() for d in downs.values())),
            Term("lora up", "Σ out·r", sum(up.weight.numel() for up in ups)),
        ]


class LowRank(nn.Module):
    """The update of one map: s·B A x. `down` is A and `up` is B, without biases."""

    def __init__(
        self, down: nn.Linear, up: nn.Linear, alpha: float, scaling: Scaling = "rank", dropout: float = 0.0
    ):
        super().__init__()
        self.down, self.up, self.dropout = down, up, nn.Dropout(dropout)
        self.alpha, self.scaling = alpha, scaling
        rank = up.in_features
        self.scale = alpha / (rank if scaling == "rank" else rank**0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.up(self.down(self.dropout(x))) * self.scale

    def matrix(self) -> Tensor:
        """The update itself, (out, in)."""
        return (self.up.weight @ self.down.weight) * self.scale

    def check(self, name: str, linear: nn.Linear) -> None:
        """Refuse a map of other sizes."""
        own = (self.down.in_features, self.up.out_features)
        if own != (linear.in_features, linear.out_features):
            raise ValueError(
                f"The update of {name} is for a map of {own[0]} to {own[1]}, and this model's goes from "
                f"{linear.in_features} to {linear.out_features}; it was made for a model of other sizes."
            )


def _updated(linear: nn.Linear, inputs: tuple[Tensor, ...], y: Tensor) -> Tensor:
    update: Tensor = linear.lora(inputs[0])  # type: ignore[operator]  # a module that was put there
    return y + update


def plain_map(inputs: int, outputs: int, like: Tensor) -> nn.Linear:
    """A map without bias, where and of the type that `like` is."""
    return LinearMap(inputs, outputs, bias=False, device=like.device, dtype=like.dtype)


def map_named(model: Model, name: str) -> nn.Linear:
    """A map of the model, by its whole name."""
    try:
        module = model.get_submodule(name)
    except AttributeError:
        module = None
    if not isinstance(module, nn.Linear):
        raise ValueError(f"This model has no map {name}; the adapter was made for a model of another shape.")
    return module


def chosen_maps(model: Model, targets: Iterable[str]) -> dict[str, nn.Linear]:
    """The maps of the trunk whose name ends in one of these, as in "query" or "projections.query"."""
    maps = {
        f"trunk.{name}": part for name, part in model.trunk.named_modules() if isinstance(part, nn.Linear)
    }
    chosen: dict[str, nn.Linear] = {}
    for target in targets:
        matching = {name: part for name, part in maps.items() if f".{name}".endswith(f".{target}")}
        if not matching:
            last = sorted({name.rpartition(".")[2] for name in maps})
            raise ConfigError(
                f'lora.targets: no map of this model is named "{target}".{nearest(target, last)} '
                f"Its maps: {', '.join(last)}."
            )
        chosen |= matching
    return {name: part for name, part in maps.items() if name in chosen}
