"""A model to be asked without a trace: a copy of it, or itself, left as it was."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import nn

from attnlab.model.model import Model

AnyModule = TypeVar("AnyModule", bound=nn.Module)


def copy_of(model: Model) -> Model:
    """The same model apart: on the CPU, and not compiled, which would take longer than it saves.

    With `.double()` only real differences show, and no rounding.
    """
    copied = copy.deepcopy(model, empty_hooks(model)).cpu()
    copied.get_submodule("trunk")._compiled_call_impl = None
    return copied


def empty_hooks(model: nn.Module) -> dict[int, Any]:
    """What `deepcopy` is to take for the dozen dicts of hooks that every module has, where they are empty:
    otherwise it spends half of its time on them."""
    dicts = (held for module in model.modules() for held in vars(module).values())
    return {id(held): OrderedDict() for held in dicts if type(held) is OrderedDict and not held}


@contextmanager
def undisturbed(model: AnyModule) -> Iterator[AnyModule]:
    """The model itself, to be asked without dropout; modes and random numbers are then as they were."""
    modes = {module: module.training for module in model.modules()}
    compiled = {m: m._compiled_call_impl for m in model.modules() if m._compiled_call_impl is not None}
    for module in compiled:
        module._compiled_call_impl = None
    try:
        with torch.random.fork_rng(), torch.no_grad():
            yield model.eval()
    finally:
        for module, call in compiled.items():
            module._compiled_call_impl = call
        for module, training in modes.items():
            module.training = training
