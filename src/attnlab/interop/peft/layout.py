"""The model that an adapter is for, in the names of its family, and what peft calls its task."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from attnlab.config.values import ConfigError, unknown_name
from attnlab.interop.families import FAMILIES
from attnlab.interop.family import Family, HeadOf
from attnlab.interop.names import Link
from attnlab.model.adapters.adapter import Adapter
from attnlab.model.model import Model
from attnlab.model.trunks.transformer import Transformer, transformer_of

Config = dict[str, Any]
"""An adapter_config.json."""
Tensors = dict[str, Tensor]
HEADED = {"SEQ_CLS": ("classifier", "score"), "QUESTION_ANS": ("qa_outputs",)}
"""Tasks whose files hold the head as well: how the names of those modules end."""


@dataclass(frozen=True)
class NamedModel:
    """A model in the names of its family."""

    model: Model
    family: Family
    head: HeadOf

    @staticmethod
    def of(model: Model, family: str, architecture: str) -> NamedModel:
        if family not in FAMILIES:
            raise unknown_name("families", family, FAMILIES)
        layout = NamedModel(model, FAMILIES[family], FAMILIES[family].head(architecture))
        layout._refuse_another()
        return layout

    def _refuse_another(self) -> None:
        """Stop where the model is not of this family and class: some parameter has no name there."""
        covered = {name for link in self.links() for name in link.ours}
        added = set() if self.model.adapter is None else {id(p) for p in self.model.adapter.own()}
        for name, parameter in self.model.named_parameters(remove_duplicate=False):
            if name not in covered and id(parameter) not in added:
                raise ConfigError(
                    f"This model is no {self.head.architecture}: that has no name for {name}. "
                    "Give the family and class that it was loaded as."
                )

    @property
    def trunk(self) -> Transformer:
        return transformer_of(self.model.trunk)

    @property
    def task(self) -> str:
        """What peft calls the task, which decides how it calls the model."""
        kind = self.head.output["kind"]
        if kind == "language_model" and self.model.trunk.writes:
            return "SEQ_2_SEQ_LM" if self.model.trunk.reads_source else "CAUSAL_LM"
        return {"classification": "SEQ_CLS", "span": "QUESTION_ANS"}.get(kind, "FEATURE_EXTRACTION")

    def links(self, *, bare: bool = False) -> list[Link]:
        known = {name for name, _ in self.model.named_parameters(remove_duplicate=False)}
        return self.family.links(self.head, self.trunk.layers, known, bare=bare)

    def maps(self, *, bare: bool = False) -> dict[str, Map]:
        """Their linear modules, by name; `bare`: as the trunk alone names them."""
        links = {}
        for link in self.links(bare=bare):
            module, _, leaf = link.theirs.rpartition(".")
            ours = tuple(name.rpartition(".")[0] for name in link.ours)
            if leaf == "weight" and all(isinstance(self.model.get_submodule(n), nn.Linear) for n in ours):
                links[module] = Map(ours, link.transposed)
        return links

    # ------------------------------------------------------------ the head beside the adapter
    def head_out(self, adapter: Adapter) -> tuple[Tensors, list[str]]:
        """The head's tensors and its modules, for tasks whose files hold it."""
        known = {name for link in self._head_links() for name in link.ours}
        for name in adapter.borrowed:
            if self.task not in HEADED or name not in known:
                raise ConfigError(
                    f"{name} is trained in addition to the adapter, and of the model itself peft's files "
                    "hold only heads of classes and of answers; train the adapter alone, or save the whole "
                    "model."
                )
        own = dict(self.model.named_parameters())
        usual = HEADED.get(self.task, ())
        links = [
            link
            for link in self._head_links()
            if self._module(link).endswith(usual) or any(name in adapter.borrowed for name in link.ours)
        ]  # what peft saves whether it was trained or not, and what was
        tensors = {link.theirs: link.outward([own[n].detach() for n in link.ours]) for link in links}
        return tensors, list(dict.fromkeys(map(self._module, links)))

    def _head_links(self) -> Iterator[Link]:
        return (link for link in self.links() if link.ours[0].startswith("head."))

    def _module(self, link: Link) -> str:
        """The module that is saved as one: down to where its name ends as a head's does, or its path."""
        path = link.theirs.split(".")[:-1]
        ends = [i for i, part in enumerate(path) if part.endswith(HEADED.get(self.task, ()))]
        return ".".join(path[: ends[0] + 1] if ends else path)

    def head_in(self, tensors: Tensors) -> Tensors:
        """Our head's parameters from theirs, which are taken out of `tensors`."""
        own = dict(self.model.named_parameters())
        parameters: Tensors = {}
        for link in self._head_links():
            if link.theirs in tensors:
                theirs = tensors.pop(link.theirs)
                wanted = link.shape([own[name].shape for name in link.ours])
                if tuple(theirs.shape) != wanted:
                    raise ConfigError(
                        f"{link.theirs} has shape {list(theirs.shape)}, and this model's head asks for "
                        f"{list(wanted)}."
                    )
                parts = link.inward(theirs, [len(own[name]) for name in link.ours])
                parameters |= dict(zip(link.ours, parts, strict=True))
        return parameters


@dataclass(frozen=True)
class Map:
    """Ours of a linear module of theirs: several where theirs is fused."""

    ours: tuple[str, ...]
    transposed: bool
