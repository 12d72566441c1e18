"""A model to be asked without a trace: a copy of it, or itself, left as it was."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from attnlab.model.model import Model


def copy_of(model: Model) -> Model:
    """The same model apart: on the CPU, and not compiled, which would take longer than it saves.

    With `.double()` only real differences show, and no rounding.
    """
    copied = copy.deepcopy(model).cpu()
    copied.get_submodule("trunk")._compiled_call_impl = None
    return copied


@contextmanager
def undisturbed(model: Model) -> Iterator[Model]:
    """The model itself, to be asked without dropout; modes and random numbers are then as they were."""
    modes = {module: module.training for module in model.modules()}
    trunk = model.get_submodule("trunk")
    compiled = trunk._compiled_call_impl
    trunk._compiled_call_impl = None
    try:
        with torch.random.fork_rng(), torch.no_grad():
            yield model.eval()
    finally:
        trunk._compiled_call_impl = compiled
        for module, training in modes.items():
            module.training = training
