"""Weights put in their places as they are, without a copy: for models that were built without memory."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn


def assign(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Make each tensor the parameter of its name. A tied table is one module, and so stays tied."""
    for name, tensor in weights.items():
        path, _, leaf = name.rpartition(".")
        module = model.get_submodule(path)
        assert leaf in module._parameters, name
        module.register_parameter(leaf, nn.Parameter(tensor))


def without_memory(model: nn.Module) -> bool:
    """Whether a model was built on "meta"."""
    return any(parameter.is_meta for parameter in model.parameters())
