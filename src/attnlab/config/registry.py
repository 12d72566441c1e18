"""Named choices: one table a folder, from which command line, errors, docs and tests all read.

A constructor's own signature says what it needs: its positional parameters are *given* by the
model (sizes, masking, dropout), its keyword-only parameters are the person's *options*. A
parameter whose type is the table's own base class is a nested choice.
"""

from __future__ import annotations

import importlib
import inspect
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar

from attnlab.config.elsewhere import unknown_setting
from attnlab.config.values import (
    Choice,
    ConfigError,
    choice_of,
    choices_of,
    coerce,
    kind_phrase,
    unknown_name,
)

T = TypeVar("T")
DEEPEST = 20
"""Choices inside a choice; what builds and writes them calls itself for each."""

TABLES = {
    "trunks": "attnlab.model.trunks:TRUNKS",
    "attention": "attnlab.model.attention:ATTENTION",
    "masks": "attnlab.model.masks:MASKS",
    "positions": "attnlab.model.positions:POSITIONS",
    "inputs": "attnlab.model.inputs:INPUTS",
    "fusions": "attnlab.model.fusion:FUSIONS",
    "projections": "attnlab.model.projections:PROJECTIONS",
    "norms": "attnlab.model.norms:NORMS",
    "residuals": "attnlab.model.blocks:RESIDUALS",
    "feedforwards": "attnlab.model.feedforward:FEEDFORWARDS",
    "heads": "attnlab.model.heads:HEADS",
    "adapters": "attnlab.model.adapters:ADAPTERS",
    "decoding": "attnlab.generation:DECODING",
    "corpora": "attnlab.data.corpora:CORPORA",
    "tokenizers": "attnlab.data.tokenizers:TOKENIZERS",
    "encodings": "attnlab.data.encode:ENCODINGS",
    "batching": "attnlab.data.batching:BATCHING",
    "tasks": "attnlab.tasks:TASKS",
    "metrics": "attnlab.metrics:METRICS",
    "optimizers": "attnlab.training.optimizers:OPTIMIZERS",
    "schedules": "attnlab.training.schedules:SCHEDULES",
    "listeners": "attnlab.training.listeners:LISTENERS",
    "strategies": "attnlab.training.strategies:STRATEGIES",
    "checks": "attnlab.checks:CHECKS",
    "engines": "attnlab.studies.engines:ENGINES",
}
"""Every extension point: what `attnlab list` shows, and where its table stands."""


def table(name: str) -> Registry[Any]:
    """The table of an extension point, imported when it is first asked for."""
    if name not in TABLES:
        raise unknown_name("Tables", name, TABLES)
    return typing.cast("Registry[Any]", locate(TABLES[name]))


def choice(of: str, kind: str, /, **options: Any) -> Choice:
    """A variant of a table with options, checked: `choice("masks", "window", size=8)`."""
    return table(of).resolve(Choice(kind, options))


def locate(path: str) -> Any:
    """The object at "package.module:name"."""
    module, name = path.split(":")
    return getattr(importlib.import_module(module), name)


@dataclass(frozen=True)
class Option:
    """One option of a variant, as its constructor declares it."""

    name: str
    kind: Any
    default: Any
    nested: bool

    @property
    def required(self) -> bool:
        """Whether its constructor has no default for it."""
        return self.default is inspect.Parameter.empty

    @property
    def kind_phrase(self) -> str:
        return "a choice of this table" if self.nested else kind_phrase(self.kind)


class Registry(Generic[T]):
    """A table of names and classes. A class is imported when it is first used.

    `kept` names the options that stay as a person set them when another variant takes the place.
    """

    def __init__(
        self, name: str, *, base: str, default: str, variants: Mapping[str, str], kept: tuple[str, ...] = ()
    ):
        self.name, self.default, self.kept = name, default, kept
        self._base, self._variants = base, dict[str, str | type[T]](variants)

    def __iter__(self) -> Iterator[str]:
        return iter(self._variants)

    def __contains__(self, name: object) -> bool:
        return name in self._variants

    def __getitem__(self, name: str) -> type[T]:
        if name not in self._variants:
            raise unknown_name(self.name, name, self)
        variant = self._variants[name]
        return typing.cast(type[T], locate(variant)) if isinstance(variant, str) else variant

    @property
    def registered(self) -> list[str]:
        """The variants that were added from outside."""
        return [name for name, variant in self._variants.items() if not isinstance(variant, str)]

    @property
    def base(self) -> type[T]:
        return typing.cast(type[T], locate(self._base))

    def name_of(self, variant: type[T]) -> str:
        """The name of a variant; of one that is not in the table, its class's."""
        return next((name for name in self if self[name] is variant), variant.__name__.lower())

    def register(self, name: str, variant: type[T]) -> type[T]:
        """Add a variant from anywhere; from this line on it is listed, checked, built and tested.

        A class that is defined again, as in a notebook's cell, takes the place of its earlier self.
        """
        if not name.isidentifier():
            raise ConfigError(f'"{name}" cannot name a variant; use letters, digits and underscores.')
        if name in self and not self._is_again(name, variant):
            raise ConfigError(
                f'{self.name} already has "{name}"; choose another name or unregister it first.'
            )
        self.check(variant)
        self._variants[name] = variant
        return variant

    def check(self, variant: type[T]) -> None:
        """Refuse a class that is not of the table's base, or lacks methods of it where that is a protocol."""
        base = self.base
        if not getattr(base, "_is_protocol", False):  # typing.is_protocol is not in Python 3.11 and 3.12
            if not issubclass(variant, base):
                raise ConfigError(
                    f"{variant.__name__} is not a {base.__name__}; {self.name} holds those only."
                )
            return
        methods = [name for name, member in vars(base).items() if callable(member)]
        missing = [name for name in methods if not hasattr(variant, name)]
        if missing:
            raise ConfigError(
                f"{variant.__name__} is not a {base.__name__}: it has no {', '.join(missing)}. "
                f"{base.__module__} says what each of them gives."
            )

    def _is_again(self, name: str, variant: type[T]) -> bool:
        """Whether a class is the one that was registered under this name, defined once more."""
        registered = self._variants[name]
        return not isinstance(registered, str) and _place(registered) == _place(variant)

    def unregister(self, name: str) -> None:
        """Take a variant out of the table again."""
        self[name]
        del self._variants[name]

    def options(self, name: str) -> dict[str, Option]:
        """The options of a variant, read off its constructor."""
        return {p.name: p for p in self._parameters(name)[1]}

    def read(self, value: Any, where: str) -> Choice:
        """The choice that a person wrote. A table whose values may also be paths reads them here."""
        return choice_of(value, where)

    def instead(self, old: Any, new: Any, where: str) -> Any:
        """What is set in the place of an older choice: itself, with those options that stay."""
        if not self.kept:
            return new
        choice, before = self.read(new, where), self.read(old, where)
        if choice.kind not in self or before.kind not in self:
            return new  # told when it is resolved
        stay = {n: v for n, v in before.options.items() if n in self.kept and n in self.options(choice.kind)}
        usual = self.options(before.kind)
        meant = {name: value for name, value in stay.items() if value != usual[name].default}
        return {"kind": choice.kind, **meant, **choice.options}

    def resolve(self, value: Any, where: str = "") -> Choice:
        """The complete choice: every option there and of its declared type."""
        where = where or self.name
        if where.count(".") > DEEPEST:
            short = ".".join(where.split(".")[:2])
            raise ConfigError(f"{short}: choices are nested too deep, more than {DEEPEST} in each other.")
        choice = self.read(value, where)
        if choice.kind not in self:
            raise unknown_name(where, choice.kind, self)
        known = self.options(choice.kind)
        for name, given in choice.options.items():
            if name not in known:
                raise unknown_setting(f"{where}: options of {choice.kind}", name, given, known)
        complete = {}
        for option in known.values():
            place = f"{where}.{option.name}"
            value = choice.options.get(option.name, option.default)
            if value is inspect.Parameter.empty:
                raise ConfigError(
                    f"{where}: {choice.kind} needs the option {option.name} ({option.kind_phrase}); "
                    f"write {choice.kind}({option.name}=…)."
                )
            complete[option.name] = self._resolved(value, option, place)
        for name in getattr(self[choice.kind], "later", ()):  # recorded where it is not at its default
            if complete[name] == known[name].default:
                del complete[name]
        return Choice(choice.kind, complete)

    def resolve_each(self, value: Any, where: str) -> Choice | tuple[Choice, ...]:
        """The complete choice, or those of a list with one for each layer."""
        entries = choices_of(value)
        if entries is None:
            return self.resolve(value, where)
        return tuple(self.resolve(entry, f"{where}[{i}]") for i, entry in enumerate(entries))

    def build(self, choice: Any, **given: Any) -> T:
        """The part itself: options from the choice, everything else from what the model gives."""
        resolved = self.resolve(choice)
        variant = self[resolved.kind]
        needs, options = self._parameters(resolved.kind)
        arguments = {name: given[name] for name in needs if name in given}
        self._refuse_unknown_needs(resolved.kind, [name for name in needs if name not in given], given)
        for option in options:
            value = resolved.options.get(option.name, option.default)
            arguments[option.name] = self._built(value, given) if option.nested else value
        return variant(**arguments)

    def _refuse_unknown_needs(self, name: str, missing: Iterable[str], given: Mapping[str, Any]) -> None:
        """A constructor that asks for what nobody gives it: the first mistake with a part of one's own."""
        variant: Any = self[name]
        wanted = [option for option in missing if option in _required(variant)]
        if wanted:
            raise ConfigError(
                f'{self.name} "{name}": its constructor asks for {", ".join(wanted)}, and is given '
                f"{', '.join(given) or 'nothing'}. Ask for those alone; an option that a person sets stands "
                "after a * and has a default."
            )

    def _parameters(self, name: str) -> tuple[tuple[str, ...], tuple[Option, ...]]:
        variant: Any = self[name]
        base: Any = self.base
        return _parameters(variant, base, self.default)

    def _built(self, value: Any, given: Mapping[str, Any]) -> Any:
        if isinstance(value, tuple):
            return tuple(self.build(item, **given) for item in value)
        return self.build(value, **given)

    def _resolved(self, value: Any, option: Option, where: str) -> Any:
        if not option.nested:
            number = coerce(value, option.kind, where)
            if isinstance(number, int) and number < 0:
                raise ConfigError(f"{where} is {number}; a whole number here must be at least 0.")
            return number
        if typing.get_origin(option.kind) is tuple:
            if not isinstance(value, (list, tuple)):
                raise ConfigError(f"{where} takes a list of choices, not {value!r}.")
            return tuple(self.resolve(item, f"{where}[{i}]") for i, item in enumerate(value))
        return self.resolve(value, where)


def _place(variant: type) -> tuple[str, str]:
    return variant.__module__, variant.__qualname__


@cache
def _required(variant: Any) -> frozenset[str]:
    """The parameters that a constructor cannot do without."""
    any_number = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    asked = inspect.signature(variant).parameters.items()
    return frozenset(n for n, p in asked if p.default is p.empty and p.kind not in any_number)


@cache
def _parameters(variant: Any, base: Any, default_nested: str) -> tuple[tuple[str, ...], tuple[Option, ...]]:
    """What the model gives to a constructor, and the options that it leaves to a person."""
    hints = typing.get_type_hints(variant.__init__, include_extras=True)
    needs, options = [], []
    for parameter in inspect.signature(variant).parameters.values():
        kind = hints.get(parameter.name, Any)
        default = parameter.default
        nested = kind is base or base in typing.get_args(kind)
        if nested and default is inspect.Parameter.empty:
            default = () if typing.get_origin(kind) is tuple else Choice(default_nested)
        if nested or parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            options.append(Option(parameter.name, kind, default, nested))
        else:
            needs.append(parameter.name)
    return tuple(needs), tuple(options)


def as_json(value: Any) -> Any:
    """Choices as tables with `kind`, the form that files hold."""
    if isinstance(value, Choice):
        return {"kind": value.kind} | {name: as_json(option) for name, option in value.options.items()}
    if isinstance(value, (tuple, list)):
        return [as_json(item) for item in value]
    return value


@dataclass(frozen=True)
class Card:
    """What a variant is: its class's docstring, and its options."""

    table: str
    name: str
    summary: str
    text: str
    options: tuple[Option, ...]

    def as_json(self) -> dict[str, Any]:
        options = {
            option.name: {
                "default": None if option.required else as_json(option.default),
                "takes": option.kind_phrase,
            }
            for option in self.options
        }
        names = {"table": self.table, "name": self.name, "summary": self.summary}
        return {**names, "card": self.text, "options": options}


def card(registry: Registry[Any], name: str) -> Card:
    """A variant's card. The first line of the docstring is its summary."""
    text = inspect.cleandoc(registry[name].__doc__ or "")
    summary, _, rest = text.partition("\n")
    return Card(registry.name, name, summary, rest.strip(), tuple(registry.options(name).values()))
