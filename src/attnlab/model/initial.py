"""Initial weights: a function of (seed, the module's name), of nothing else.

So two models that differ in one part start from the same numbers everywhere else.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from attnlab.config.streams import stream_seed
from attnlab.model.blocks import Attention
from attnlab.model.draws import fill_normal
from attnlab.model.feedforward import FeedForward
from attnlab.model.heads.head import Head
from attnlab.model.stack import Stack


def table_std(width: int) -> float:
    """Of a table of vectors: so small that a tied head's first logits hardly differ (a word's own is the
    largest, at most 2), and the first loss is ln V."""
    return min(0.02, 2 / width)


@torch.no_grad()
def initialise(model: nn.Module, seed: int) -> None:
    """Fill every parameter. A tied table is one module, and so is filled once."""
    for name, module in model.named_modules():
        generator = torch.Generator(device="cpu").manual_seed(stream_seed(seed, "init", name))
        if isinstance(module, nn.Linear):
            fill_normal(module.weight, module.in_features**-0.5, generator)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            fill_normal(module.weight, table_std(module.embedding_dim), generator)
        elif isinstance(module, (nn.LayerNorm, nn.RMSNorm)):
            module.reset_parameters()
        elif hasattr(module, "initialise"):
            module.initialise(generator)
        elif any(True for _ in module.parameters(recurse=False)):
            raise ValueError(
                f"{type(module).__name__} has parameters of its own and does not say how they begin; "
                "give it a method initialise(generator) that fills them."
            )
    for module in model.modules():
        if isinstance(module, Stack):
            _quiet_residuals(module)
        elif isinstance(module, Head):
            module.quieten()


def _quiet_residuals(stack: Stack) -> None:
    """Each residual adds 1/√(their number), so that depth does not raise the stream's variance."""
    parts = list(stack.parts())
    for part in parts:
        inner = getattr(part.inner, "part", part.inner)
        if isinstance(inner, Attention):
            inner.output.weight.mul_(len(parts) ** -0.5)
        elif isinstance(inner, FeedForward):
            inner.down.weight.mul_(len(parts) ** -0.5)


# ---------------------------------------------------------------- weights copied into their places
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
