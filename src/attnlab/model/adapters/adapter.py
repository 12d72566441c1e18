"""The contract of an adapter."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import ClassVar, Self, cast

import torch
from torch import Tensor, nn

from attnlab.config.streams import stream_seed
from attnlab.config.values import unknown_name
from attnlab.model.model import Model
from attnlab.model.terms import Term


class Adapter:
    """Trained parts that go onto a model, which is then frozen, and come off again without a trace.

        adapter = ADAPTERS.build("lora(rank=8)").attach(model)

    Its parameters live inside the model, so that optimizers, checkpoints and wrappers see them there.
    What came off keeps what it learned, and can go onto a model of the same sizes again.
    """

    examples: ClassVar[tuple[dict[str, object], ...]] = ({},)
    stands_before: ClassVar[bool] = False
    """Whether its tokens stand before every text: always in sight, and one text to a row."""

    def __init__(self) -> None:
        self.model: Model | None = None
        self.learned: dict[str, Tensor] = {}  # of the model's own parameters, those it trains: as trained
        self._before: dict[str, Tensor] = {}  # and as they were
        self._flags: list[tuple[nn.Parameter, bool]] = []

    # ------------------------------------------------------------ what a variant says
    def insert(self, model: Model, seed: int) -> None:
        """Put the parts in their places, drawn when they are new; refuse before anything is changed."""
        raise NotImplementedError

    def remove(self, model: Model) -> None:
        """Take the parts out again."""
        raise NotImplementedError

    def own(self) -> Collection[nn.Parameter]:
        """The parameters of its parts."""
        raise NotImplementedError

    def borrows(self, model: Model) -> Collection[str]:
        """The model's own parameters that it trains, by name."""
        return ()

    def terms(self) -> list[Term]:
        """What it adds to the model's parameters, in closed form."""
        raise NotImplementedError

    def borrowed_terms(self, part: nn.Module) -> list[Term]:
        """What it trains of the model's own trunk or head, in closed form; of a head that is trained whole
        nothing need be said."""
        return []

    # ------------------------------------------------------------ what all do
    def attach(self, model: Model, *, train: Collection[str] = (), seed: int = 0) -> Self:
        """Go onto a model and freeze it. What `train` names, a part such as "head" or a parameter, is
        trained beside it."""
        if self.model is not None:
            raise ValueError("This adapter is on a model already; detach it first, or build another.")
        if model.adapter is not None:
            raise ValueError(
                f"This model carries a {type(model.adapter).__name__.lower()} adapter already; "
                "detach it, or merge it into the weights, first."
            )
        flags = [(p, p.requires_grad) for p in model.parameters()]
        borrowed = self._borrowed(model, train)
        self.insert(model, seed)
        self.model, self._flags, model.adapter = model, flags, self
        self._before = {name: p.detach().clone() for name, p in borrowed.items()}
        put(model, self.learned)
        for parameter, _ in flags:
            parameter.requires_grad_(False)
        for parameter in self.parameters().values():
            parameter.requires_grad_(True)
        return self

    def _borrowed(self, model: Model, train: Collection[str]) -> dict[str, nn.Parameter]:
        known = dict(model.named_parameters())
        parts = dict(model.named_modules())
        for name in train:
            if name not in parts and name not in known:
                raise unknown_name("train", name, [name for name, _ in model.named_children()])
        trained = {id(p) for part in train if part in parts for p in parts[part].parameters()}
        tuned = {name: p for name, p in known.items() if id(p) in trained or name in train}
        for name in (*self.borrows(model), *self.learned):
            if name not in known or (name in self.learned and self.learned[name].shape != known[name].shape):
                raise ValueError(
                    f"This model has no {name} of this adapter's; it is of other sizes or shape."
                )
            tuned[name] = known[name]
        return tuned

    def detach(self) -> None:
        """Come off: the model is what it was, bit for bit."""
        put(self.leave(), self._before)

    def leave(self) -> Model:
        """Take the parts off, and leave the model's own weights as they are now."""
        model = self.attached
        known = dict(model.named_parameters())
        self.learned = {name: known[name].detach().clone() for name in self._before}
        self.remove(model)
        model.adapter = self.model = None
        for parameter, flag in self._flags:
            parameter.requires_grad_(flag)
        return model

    def merge(self) -> None:
        """Become part of the model's own weights, where that is possible."""
        raise ValueError(
            f"A {type(self).__name__.lower()} adapter is not an update of weights, so there is nothing to "
            "merge it into; keep it attached, or use lora."
        )

    @property
    def merges(self) -> bool:
        """Whether it can become part of the model's own weights."""
        return type(self).merge is not Adapter.merge

    @property
    def attached(self) -> Model:
        """The model that it is on."""
        if self.model is None:
            raise ValueError("This adapter is on no model; attach it first.")
        return self.model

    def parameters(self) -> dict[str, nn.Parameter]:
        """All that is trained, by its name in the model."""
        own = {id(p) for p in self.own()}
        return {
            name: p for name, p in self.attached.named_parameters() if id(p) in own or name in self._before
        }

    @property
    def borrowed(self) -> tuple[str, ...]:
        """The names of the model's own parameters that are trained."""
        return tuple(self.learned if self.model is None else self._before)

    @property
    def tuned(self) -> int:
        """How many parameters are trained."""
        return sum(p.numel() for p in self.parameters().values())

    def tuned_terms(self) -> list[Term]:
        """What is trained, in closed form: its own parts, and what it borrows of the model."""
        model = self.attached
        whole = all(name in self._before for name, _ in model.named_parameters() if name.startswith("head."))
        head = model.head.parameter_terms() if whole else self.borrowed_terms(model.head)
        trunk = self.borrowed_terms(cast("nn.Module", model.trunk))
        return [*self.terms(), *trunk, *(term.inside("head") for term in head)]


@torch.no_grad()
def put(model: Model, values: dict[str, Tensor]) -> None:
    """Give these values to parameters of the model, by name."""
    known = dict(model.named_parameters())
    for name, value in values.items():
        known[name].copy_(value)


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
