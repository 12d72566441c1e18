"""What flows through a model, kept and changed for the length of a block.

    with capture(model, "layers.*.attention.weights", "layers.3.output") as seen:
        model(ids)
    seen["layers.3.output"]

    with patch(model, {"layers.3.heads.5": 0}):
        model(ids)

`attnlab.model.places` lists the places. Outside a block nothing is attached to the model; inside one, only
the modules of the places that are asked for are. What is captured is what flowed on, after any patch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab.config.values import ConfigError
from attnlab.model.attention.rule import Rule, spread
from attnlab.model.blocks import Attention
from attnlab.model.cache import KeyValues, LayerMemory
from attnlab.model.model import Model
from attnlab.model.pairs import Pairs
from attnlab.model.places import Place, matching, places_of

Change = float | Tensor | Callable[[Tensor], Tensor]
"""What takes a value's place: a number, a tensor, or what a function makes of the value."""


class Captured(Mapping[str, Tensor]):
    """What flowed through each place: by its name the last value, with `every` one for each forward."""

    def __init__(self, names: list[str]):
        self._flowed: dict[str, list[Tensor]] = {name: [] for name in names}

    def add(self, name: str, value: Tensor) -> None:
        self._flowed[name].append(value)

    def every(self, name: str) -> list[Tensor]:
        """One value for each forward of the block, in order, such as the steps of decoding."""
        if name not in self._flowed:
            raise ConfigError(f"{name} was not captured; these places were: {', '.join(self._flowed)}.")
        return self._flowed[name]

    def __getitem__(self, name: str) -> Tensor:
        if not self.every(name):
            raise ConfigError(f"Nothing flowed through {name}: run the model inside the block.")
        return self._flowed[name][-1]

    def __iter__(self) -> Iterator[str]:
        return iter(self._flowed)

    def __len__(self) -> int:
        return len(self._flowed)


@contextmanager
def capture(model: Model, *places: str) -> Iterator[Captured]:
    """Keep what flows through these places (`*` stands for any one part of a name) inside the block."""
    with _tapped(model) as taps:
        names = taps.names(places)
        seen = Captured(names)
        for name in names:
            taps.captures.setdefault(name, []).append(seen)
        taps.attach()
        try:
            yield seen
        finally:
            for name in names:
                taps.captures[name].remove(seen)


@contextmanager
def patch(model: Model, changes: Mapping[str, Change]) -> Iterator[Model]:
    """Change what flows through places inside the block: to a number, a tensor, or by a function of it."""
    with _tapped(model) as taps:
        made = [(name, change) for place, change in changes.items() for name in taps.names([place])]
        for name, change in made:
            taps.patches.setdefault(name, []).append(change)
        taps.attach()
        try:
            yield model
        finally:
            for name, _ in reversed(made):
                taps.patches[name].pop()


@contextmanager
def _tapped(model: Model) -> Iterator[Taps]:
    """The model's taps, which are its own for as long as any block is open; compiled code has none."""
    outermost = model.taps is None
    taps = model.taps = model.taps or Taps(model)
    trunk = model.get_submodule("trunk")
    compiled, trunk._compiled_call_impl = trunk._compiled_call_impl, None
    try:
        yield taps
    finally:
        trunk._compiled_call_impl = compiled
        taps.attach()
        if outermost:
            model.taps = None


class Taps:
    """The open blocks of a model: at each place its patches in the order they were made, then captures."""

    def __init__(self, model: Model):
        self.places = places_of(model.trunk)
        self.patches: dict[str, list[Change]] = {}
        self.captures: dict[str, list[Captured]] = {}
        self._detach: list[Callable[[], None]] = []

    def names(self, patterns: Iterable[str]) -> list[str]:
        return list(dict.fromkeys(name for pattern in patterns for name in matching(self.places, pattern)))

    def attach(self) -> None:
        """Attach to the modules that are asked for now, and to no others."""
        for detach in self._detach:
            detach()
        self._detach = []
        inside: dict[nn.Module, dict[str, Place]] = {}
        for name, place in self.places.items():
            if not self.patches.get(name) and not self.captures.get(name):
                continue
            if place.part == "output":
                hook = place.module.register_forward_hook(partial(self._output, name))
                self._detach.append(hook.remove)
            elif place.part == "input":
                before = place.module.register_forward_pre_hook(partial(self._input, name))
                self._detach.append(before.remove)
            else:
                inside.setdefault(place.module, {})[name] = place
        for layer, named in inside.items():
            assert isinstance(layer, Attention)
            layer.attend = Attending(layer, named, self)  # type: ignore[method-assign]  # for the block
            self._detach.append(partial(delattr, layer, "attend"))

    def flow(self, name: str, value: Tensor) -> Tensor:
        """What flows on from a place."""
        for change in self.patches.get(name, ()):
            value = changed(name, value, change)
        for seen in self.captures.get(name, ()):
            seen.add(name, value)
        return value

    def _output(self, name: str, module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        return self.flow(name, output)

    def _input(self, name: str, module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        return (self.flow(name, inputs[0]), *inputs[1:])


class Attending:
    """An attention layer's `attend` with taps inside. Weights are formed only where they are asked for."""

    def __init__(self, layer: Attention, places: Mapping[str, Place], taps: Taps):
        self.rule, self.taps = layer.rule, taps
        self.names = {(place.part, place.head): name for name, place in places.items()}

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, pairs: Pairs, memory: LayerMemory | None = None
    ) -> Tensor:
        q, k, v = self._flow("queries", q), self._flow("keys", k), self._flow("values", v)
        if isinstance(memory, KeyValues):
            (k, v), memory = memory.extend(k, v), None
        if memory is None:
            y = self.rule(q, k, v, pairs)
        else:
            new = k, v
            k, v, seen = self._history(memory, k, v, pairs)
            y = self.rule.recall(memory, q, *new, pairs)
            pairs = seen
        return self._heads(self._weighted(y, q, k, v, pairs))

    def _flow(self, part: Any, value: Tensor, head: int | None = None) -> Tensor:
        name = self.names.get((part, head))
        return value if name is None else self.taps.flow(name, value)

    def _history(
        self, memory: LayerMemory, k: Tensor, v: Tensor, pairs: Pairs
    ) -> tuple[Tensor, Tensor, Pairs]:
        """All keys and values so far of a memory that only sums them up, where weights are asked for."""
        if ("weights", None) not in self.names:
            return k, v, pairs
        new = pairs.keys.last(k.shape[2])
        if memory.history is None and pairs.keys.length != new.length:
            raise ConfigError(
                "This cache was begun outside the block, and its keys are summed up: its weights can be "
                "captured only where the whole text is decoded inside the block."
            )
        k, v, tokens = memory.remember(k, v, new)
        return k, v, pairs.between(pairs.queries, tokens)

    def _weighted(self, y: Tensor, q: Tensor, k: Tensor, v: Tensor, pairs: Pairs) -> Tensor:
        name = self.names.get(("weights", None))
        if name is None:
            return y
        weights = self.taps.flow(name, self.rule.weights(q, k, pairs))
        return weighted_values(self.rule, weights, v) if self.taps.patches.get(name) else y

    def _heads(self, y: Tensor) -> Tensor:
        y = self._flow("heads", y)
        heads = [head for part, head in self.names if part == "heads" and head is not None]
        flows = {head: self._flow("heads", y[:, head], head) for head in heads}
        if not any(self.taps.patches.get(self.names["heads", head]) for head in heads):
            return y
        return torch.stack([flows.get(head, y[:, head]) for head in range(y.shape[1])], 1)


def weighted_values(rule: Rule, weights: Tensor, v: Tensor) -> Tensor:
    """What heads read with these weights (B,H,T,S), as the rule's plain form has it."""
    weights = weights.to(v.dtype)
    return F.dropout(weights, rule.dropout, rule.training) @ spread(v, weights.shape[1])


def changed(name: str, value: Tensor, change: Change) -> Tensor:
    """The value after one change, of the same shape."""
    if isinstance(change, (int, float)):
        return torch.full_like(value, change)
    new = change(value.clone()) if callable(change) else change  # a function may write into what it is given
    if not isinstance(new, Tensor):
        raise ConfigError(
            f"The patch of {name} gives a {type(new).__name__}; give a number, a tensor, or a function that "
            "returns a tensor."
        )
    try:
        return new.to(value).broadcast_to(value.shape)
    except RuntimeError:
        raise ConfigError(
            f"The patch of {name} has shape {tuple(new.shape)}, and what flows there has "
            f"{tuple(value.shape)}; give one of that shape, or one that broadcasts to it."
        ) from None
