"""A model to be asked without a trace: a copy of it, or itself, left as it was."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import torch
from torch import nn

from attnlab.model.model import Model
from attnlab.model.stack import Stack

AnyModule = TypeVar("AnyModule", bound=nn.Module)
OWN_WAYS = ("__deepcopy__", "__reduce_ex__", "__reduce__", "__getstate__", "__setstate__")
"""By which a module may say how it is to be copied."""
UNCHANGING = (bool, int, float, str, type(None))
CONTAINERS = (dict, set, list, OrderedDict)
DEEPEST = 100
"""Layers beyond which a sample is asked."""


def copy_of(model: Model) -> Model:
    """The same model apart: on the CPU, and not compiled, which would take longer than it saves.

    With `.double()` only real differences show, and no rounding.
    """
    return uncompiled(copy_module(model, {}))


def sample_of(model: Model) -> Model:
    """A copy with at most so many layers as DEEPEST, which keep their names and are as far apart as can be:
    what each does to masks, padding and caches shows in so many, and all of them would take minutes."""
    known: dict[int, Any] = {}
    for stack in deep_stacks(model):
        count = len(stack.blocks)
        kept = known[id(stack.blocks)] = nn.ModuleList()
        for number in torch.linspace(0, count - 1, DEEPEST).long().tolist():
            kept.add_module(str(number), copy_module(stack.blocks[number], known))
    return uncompiled(copy_module(model, known))


def sampled_layers(model: Model) -> tuple[int, int] | None:
    """How many layers a sample has, of how many, where one stands for the model."""
    counts = [len(stack.blocks) for stack in deep_stacks(model)]
    return (DEEPEST, max(counts)) if counts else None


def deep_stacks(model: Model) -> list[Stack]:
    return [part for part in model.modules() if isinstance(part, Stack) and len(part.blocks) > DEEPEST]


def uncompiled(copied: Model) -> Model:
    copied.get_submodule("trunk")._compiled_call_impl = None
    return copied.cpu()


def copy_module(module: AnyModule, known: dict[int, Any]) -> AnyModule:
    """What `copy.deepcopy` makes of a module, in a third of its time: it asks of every number and every empty
    dict of hooks how to copy it, and every module has dozens. `known` is what was copied already."""
    if id(module) in known:
        return cast(AnyModule, known[id(module)])
    if any(getattr(type(module), name, None) != getattr(nn.Module, name, None) for name in OWN_WAYS):
        return copy.deepcopy(module, known)
    made = known[id(module)] = object.__new__(type(module))
    attributes = vars(made)
    for name, value in vars(module).items():
        if name == "_modules":
            attributes[name] = {
                n: None if one is None else copy_module(one, known) for n, one in value.items()
            }
        elif type(value) in UNCHANGING:
            attributes[name] = value
        elif type(value) in CONTAINERS and not value:
            attributes[name] = type(value)()
        else:
            attributes[name] = copy.deepcopy(value, known)
    return made


@contextmanager
def undisturbed(model: AnyModule) -> Iterator[AnyModule]:
    """The model itself, to be asked without dropout; modes and random numbers are then as they were."""
    trained = [module for module in model.modules() if module.training]
    compiled = {m: m._compiled_call_impl for m in model.modules() if m._compiled_call_impl is not None}
    for module in compiled:
        module._compiled_call_impl = None
    try:
        with torch.random.fork_rng(), torch.no_grad():
            yield model.eval() if trained else model
    finally:
        for module, call in compiled.items():
            module._compiled_call_impl = call
        for module in trained:
            module.training = True
