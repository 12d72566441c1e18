"""A published family: its settings and its names, each in a table that is read in both directions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from attnlab.config.files import plain, section_of
from attnlab.config.schema import BIASED, biased_parts
from attnlab.config.values import ConfigError, unknown_name
from attnlab.interop.fields import Field, Settings, Theirs, get, put, whole
from attnlab.interop.names import Link, Table, links

MANY = 1 << 20
TRAINING_ONLY = ("dropout", "attention_dropout", "feedforward.dropout")
"""Settings that change no answer of a trained model."""


@dataclass(frozen=True)
class HeadOf:
    """A class of theirs: what it puts on the trunk."""

    architecture: str
    output: Mapping[str, Any]
    names: Table = field(default_factory=dict)
    fields: tuple[Field, ...] = ()
    beside: tuple[str, ...] = ()
    """Patterns of what its files may also hold, unused."""
    bare: bool = False
    """Whether it is the trunk's own class, whose names have no prefix."""
    copies: tuple[str, ...] = ()
    """Second names of a tensor, which files hold as well and whose content is not looked at."""
    own_table: tuple[str, str] | None = None
    """Where config.json does not say whether the head is tied: its table, and the one it may be tied to."""


@dataclass(frozen=True)
class Family:
    """Their `model_type`, and what is needed to read and write its files."""

    model_type: str
    preset: Mapping[str, Any]
    prefix: str
    fields: tuple[Field, ...]
    names: Table
    heads: tuple[HeadOf, ...]
    beside: tuple[str, ...] = ()
    """Patterns of tensors that are no parameters: masks and tables that old files hold."""
    pictured: bool = False
    """Whether it reads pictures alone, and so has no tokenizer."""
    colours: tuple[tuple[float, ...], ...] | None = None
    """Mean and deviation of pixels that its library takes where a folder does not say; None: no pictures."""
    processor: str = ""
    """The class of its library that makes numbers of pictures."""
    old: Mapping[str, str] = field(default_factory=dict)
    """How names of old files end, and how they end today."""

    def head(self, architecture: str) -> HeadOf:
        for head in self.heads:
            if head.architecture == architecture:
                return head
        raise unknown_name(f"Heads of {self.model_type}", architecture, [h.architecture for h in self.heads])

    def head_of(self, theirs: Theirs) -> HeadOf:
        """The head that a config.json names; the first one where it names none."""
        named = theirs.get("architectures")
        return self.head(str(named[0])) if isinstance(named, list) and named else self.heads[0]

    def read(self, theirs: Theirs, head: HeadOf, *, largest: int = MANY, untied: bool = False) -> Settings:
        """Our [model] settings for a config.json. No size may be above `largest`, the file's own.

        `untied`: the file has a table of the head's own, where only that shows it.
        """
        ours: Settings = plain(section_of("model", self.preset))
        ours["output"] = dict(head.output)
        for rule in (*self.fields, *head.fields):
            rule.read(theirs, ours)
        if head.own_table is not None:
            put(ours, "output.tied", not untied)
        for name in ("vocabulary", "width", "layers", "heads", "token_types"):
            if whole(ours[name]) and ours[name] > largest:
                raise ConfigError(
                    f"config.json asks for {name} {ours[name]:,}, and no tensor of the file is that large."
                )
        try:
            return dict(plain(section_of("model", ours)))
        except ConfigError as error:
            raise ConfigError(f"config.json does not describe a {self.model_type} model: {error}") from error

    def write(self, ours: Settings, head: HeadOf, base: Theirs | None = None) -> Theirs:
        """The config.json for our settings, over facts that are kept from `base`."""
        theirs: Theirs = dict(base or {}) | {
            "model_type": self.model_type,
            "architectures": [head.architecture],
        }
        for rule in (*self.fields, *head.fields):
            rule.write(ours, theirs)
        return theirs

    def notes(self, theirs: Theirs, head: HeadOf) -> list[str]:
        return [note for rule in (*self.fields, *head.fields) for note in rule.notes(theirs)]

    def links(self, head: HeadOf, layers: int, known: Iterable[str], *, bare: bool = False) -> list[Link]:
        """Their tensors for the parameters of a model; `bare`: the trunk's names have no prefix."""
        names = set(known)
        prefix = "" if bare or head.bare or not self.prefix else f"{self.prefix}."
        return [*links(self.names, layers, names, prefix=prefix), *links(head.names, layers, names)]

    def today(self, name: str) -> str:
        """A tensor's name as files have it today."""
        for before, now in self.old.items():
            if name.endswith(before):
                return name.removesuffix(before) + now
        return name

    def unused(self, name: str, head: HeadOf) -> bool:
        """Whether a tensor is one that files of this head may hold in vain."""
        inner = name.removeprefix(f"{self.prefix}.") if self.prefix else name
        patterns = (*self.beside, *head.beside)
        return any(fnmatchcase(n, pattern) for n in (name, inner) for pattern in patterns)

    def of_a_head(self, name: str) -> bool:
        """Whether a tensor belongs to one of this family's heads."""
        return any(
            name.startswith(theirs.split("{")[0]) for head in self.heads for theirs in head.names
        ) or any(self.unused(name, head) for head in self.heads)


KIND = ".kind"


@dataclass(frozen=True)
class Misfit:
    """A setting that a family cannot express, and what it has there."""

    path: str
    ours: Any
    theirs: Any
    setting: str
    """What makes a model fit, as --set takes it."""

    def __str__(self) -> str:
        return f"model.{self.path} is {self.ours}, there {self.theirs}"


def misfits(wanted: Settings, given: Settings) -> Iterator[Misfit]:
    """What a family cannot express of a model: the settings that would come back otherwise."""
    ours, theirs = _essential(wanted), _essential(given)
    kinds = [path for path in ours if path.endswith(KIND) and ours[path] != theirs.get(path)]
    others = tuple(path.removesuffix(KIND) + "." for path in kinds)  # whose options are others too
    for path in dict.fromkeys((*ours, *theirs)):
        if ours.get(path) != theirs.get(path) and (path in kinds or not path.startswith(others)):
            values = ours.get(path, "absent"), theirs.get(path, "absent")
            yield Misfit(path, *values, _setting(given, path.removesuffix(KIND)))


def _setting(given: Settings, path: str) -> str:
    """The setting at a path, or the nearest above it that a config has: `bias` for one of its parts."""
    while (value := get(given, path)) is None and "." in path:
        path = path.rpartition(".")[0]
    if isinstance(value, Mapping):
        value = value["kind"]
    return f"model.{path}={value if isinstance(value, str) else json.dumps(value)}"


def _essential(settings: Settings) -> dict[str, Any]:
    """Settings by dotted path, in one form for those that mean the same, without what changes no answer."""
    essential = dict(settings)
    if essential["head_width"] == "even":
        essential["head_width"] = essential["width"] / essential["heads"]
    if essential["embedding_scale"] == "root":
        essential["embedding_scale"] = essential["width"] ** 0.5
    if isinstance(essential["attention"], list):  # one for each layer, which no family has
        essential["attention"] = {
            "kind": f"[{', '.join(choice['kind'] for choice in essential['attention'])}]"
        }
    if essential["projections"] == {
        "kind": "grouped",
        "shared": essential["heads"],
        "query_key_norm": "none",
    }:
        essential["projections"] = {"kind": "separate", "query_key_norm": "none"}
    essential["bias"] = {
        part: part in biased_parts(essential["bias"])
        for part in BIASED
        if part != "norm" or essential["norm"]["kind"] == "layer"  # which alone of norms has one
    }
    if essential["family"] != "encoder_decoder":
        del essential["cross_attention"]
    hidden = essential["feedforward"].get("expand")
    if hidden is not None:
        essential["feedforward"] = essential["feedforward"] | {
            "expand": round(hidden * essential["width"]) / essential["width"]
        }
    flat = dict(_flat(essential, ""))
    return {path: value for path, value in flat.items() if path not in TRAINING_ONLY}


def _flat(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        yield path, value
        return
    for name, inner in value.items():
        yield from _flat(inner, f"{path}.{name}" if path else name)
