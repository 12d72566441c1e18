"""The contract of an adapter."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from attnlab.config.streams import stream_seed
from attnlab.model.model import Model
from attnlab.model.terms import Term


class Adapter:
    """Trained parts that go onto a model, which is then frozen, and come off again without a trace.

        adapter = ADAPTERS.build("lora(rank=8)").attach(model)

    Its parameters live inside the model, so that optimizers, checkpoints and wrappers see them there.
    What came off keeps what it learned, and can go onto a model of the same sizes again.
    """

    examples: ClassVar[tuple[dict[str, object], ...]] = ({},)

    def __init__(self) -> None:
        self.model: Model | None = None
        self.train: tuple[str, ...] = ()
        self._flags: list[tuple[nn.Parameter, bool]] = []

    def insert(self, model: Model, seed: int) -> None:
        """Put the parts in their places, drawn when they are new; refuse before anything is changed."""
        raise NotImplementedError

    def remove(self, model: Model) -> None:
        """Take the parts out again."""
        raise NotImplementedError

    def parameters(self) -> dict[str, nn.Parameter]:
        """What it trains, by its name in the model."""
        raise NotImplementedError

    def terms(self) -> list[Term]:
        """What it adds to the model's parameters, in closed form."""
        raise NotImplementedError

    def attach(self, model: Model, *, train: Collection[str] = (), seed: int = 0) -> Self:
        """Go onto a model and freeze it. Parts named in `train`, such as "head", stay trained beside it."""
        if self.model is not None:
            raise ValueError("This adapter is on a model already; detach it first, or build another.")
        if model.adapter is not None:
            raise ValueError(
                f"This model carries a {type(model.adapter).__name__.lower()} adapter already; "
                "detach it, or merge it into the weights, first."
            )
        flags = [(p, p.requires_grad) for p in model.parameters()]
        kept = {id(p) for name in train for p in model.get_submodule(name).parameters()}
        self.insert(model, seed)
        self.model, self.train, self._flags = model, tuple(train), flags
        model.adapter = self
        for parameter, flag in flags:
            parameter.requires_grad_(flag and id(parameter) in kept)
        for parameter in self.parameters().values():
            parameter.requires_grad_(True)
        return self

    def detach(self) -> None:
        """Come off: the model is what it was, bit for bit, but for the parts that were named in `train`."""
        model = self.attached
        self.remove(model)
        model.adapter = self.model = None
        for parameter, flag in self._flags:
            parameter.requires_grad_(flag)

    def merge(self) -> None:
        """Become part of the model's own weights, where that is possible."""
        raise ValueError(
            f"A {type(self).__name__.lower()} adapter is not an update of weights, so there is nothing to "
            "merge it into; keep it attached, or use lora."
        )

    @property
    def attached(self) -> Model:
        """The model that it is on."""
        if self.model is None:
            raise ValueError("This adapter is on no model; attach it first.")
        return self.model

    @property
    def tuned(self) -> int:
        """How many parameters are trained, those of the parts named in `train` included."""
        return sum(p.numel() for p in self.attached.parameters() if p.requires_grad)


def named(model: Model, parts: Collection[nn.Parameter]) -> dict[str, nn.Parameter]:
    """These parameters, by their names in the model."""
    wanted = {id(p) for p in parts}
    return {name: p for name, p in model.named_parameters() if id(p) in wanted}


def generator_for(seed: int, name: str) -> torch.Generator:
    """The numbers that a part begins from: a function of the seed and its name, as everywhere."""
    return torch.Generator(device="cpu").manual_seed(stream_seed(seed, "init", name))


def check_sizes(what: str, own: Tensor, fitting: Sequence[int]) -> None:
    """Refuse a part that was made for a model of other sizes."""
    if own.shape != tuple(fitting):
        raise ValueError(
            f"This {what} is of sizes {tuple(own.shape)}, and this model takes {tuple(fitting)}; "
            "it was made for a model of other sizes."
        )
