"""One fact of a config.json and of our [model] section each: read and written by the same line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from attnlab.config.schema import Biased, biased_parts
from attnlab.config.values import LARGEST, ConfigError

Settings = dict[str, Any]
"""Our [model] section, complete and plain: choices are tables with `kind`."""
Theirs = dict[str, Any]
"""A config.json."""


def get(settings: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path; None where there is none."""
    value: Any = settings
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def put(settings: Settings, path: str, value: Any) -> None:
    *above, last = path.split(".")
    place = settings
    for name in above:
        place = place[name]
    place[last] = value


class Field:
    """Reads a fact of theirs into our settings, and writes it back."""

    def read(self, theirs: Theirs, ours: Settings) -> None:
        raise NotImplementedError

    def write(self, ours: Settings, theirs: Theirs) -> None:
        raise NotImplementedError

    def notes(self, theirs: Theirs) -> Iterator[str]:
        """What of theirs we do not keep, though it changes no answer."""
        yield from ()


@dataclass(frozen=True)
class Same(Field):
    """The same value under two names. `default` is what their library takes where the file is silent."""

    theirs: str
    ours: str
    default: Any

    def read(self, theirs: Theirs, ours: Settings) -> None:
        put(ours, self.ours, theirs.get(self.theirs, self.default))

    def write(self, ours: Settings, theirs: Theirs) -> None:
        if (value := get(ours, self.ours)) is not None:
            theirs[self.theirs] = value


@dataclass(frozen=True)
class Some(Same):
    """The same, where their class always has at least one."""

    def write(self, ours: Settings, theirs: Theirs) -> None:
        theirs[self.theirs] = max(1, get(ours, self.ours))


@dataclass(frozen=True)
class Also(Field):
    """Another name of theirs for a rate of dropout that we hold once."""

    theirs: str
    ours: str
    first: str

    def read(self, theirs: Theirs, ours: Settings) -> None:
        pass

    def write(self, ours: Settings, theirs: Theirs) -> None:
        theirs[self.theirs] = get(ours, self.ours)

    def notes(self, theirs: Theirs) -> Iterator[str]:
        value, used = theirs.get(self.theirs), theirs.get(self.first)
        if value is not None and used is not None and value != used:
            yield f"{self.theirs} {value} is taken as {used}, the model's one rate of dropout"


@dataclass(frozen=True)
class Biases(Field):
    """Whether these parts have biases, all of them or none."""

    theirs: str
    parts: tuple[Biased, ...]

    def read(self, theirs: Theirs, ours: Settings) -> None:
        has = theirs.get(self.theirs, False)
        if not isinstance(has, bool):
            raise ConfigError(f"config.json has {self.theirs} = {has!r}; it must be true or false.")
        others = [part for part in biased_parts(ours["bias"]) if part not in self.parts]
        ours["bias"] = [*others, *(self.parts if has else ())]

    def write(self, ours: Settings, theirs: Theirs) -> None:
        theirs[self.theirs] = set(self.parts) <= set(biased_parts(ours["bias"]))


@dataclass(frozen=True)
class Named(Field):
    """Their word for one of our choices."""

    theirs: str
    ours: str
    words: Mapping[str, Mapping[str, Any]]
    default: str

    def read(self, theirs: Theirs, ours: Settings) -> None:
        word = theirs.get(self.theirs, self.default)
        if not isinstance(word, str) or word not in self.words:
            raise ConfigError(
                f"config.json has {self.theirs} = {word!r}, which is not known here; "
                f"known are {', '.join(self.words)}."
            )
        put(ours, self.ours, dict(self.words[word]))

    def write(self, ours: Settings, theirs: Theirs) -> None:
        held = get(ours, self.ours)
        fitting = [
            word
            for word, choice in self.words.items()
            if all(held.get(name) == value for name, value in choice.items())
        ]
        if fitting and theirs.get(self.theirs) not in fitting:  # of two words for one thing theirs stays
            theirs[self.theirs] = fitting[0]


@dataclass(frozen=True)
class Hidden(Field):
    """The width of the hidden layer, which we hold as a multiple of the model's."""

    theirs: str
    default: int | None = None

    def read(self, theirs: Theirs, ours: Settings) -> None:
        hidden, width = theirs.get(self.theirs, self.default), ours["width"]
        if hidden is None:
            hidden = 4 * width if whole(width) else width
        if not whole(hidden) or not whole(width):
            raise ConfigError(
                f"config.json has {self.theirs} = {hidden!r}; it must be a whole number above 0, below 2^63."
            )
        put(ours, "feedforward.expand", hidden / width)

    def write(self, ours: Settings, theirs: Theirs) -> None:
        theirs[self.theirs] = round(get(ours, "feedforward.expand") * ours["width"])


@dataclass(frozen=True)
class Fixed(Field):
    """What must have this value, since our trunk has no other."""

    theirs: str
    value: Any
    otherwise: str
    alike: tuple[Any, ...] = field(default=())

    def read(self, theirs: Theirs, ours: Settings) -> None:
        value = theirs.get(self.theirs, self.value)
        if value != self.value and value not in self.alike:
            raise ConfigError(f"config.json has {self.theirs} = {value!r}: {self.otherwise}.")

    def write(self, ours: Settings, theirs: Theirs) -> None:
        theirs[self.theirs] = self.value


@dataclass(frozen=True)
class Classes(Field):
    """How many classes there are: the number of their names."""

    def read(self, theirs: Theirs, ours: Settings) -> None:
        names = theirs.get("id2label")
        put(ours, "output.classes", len(names) if isinstance(names, Mapping) else theirs.get("num_labels", 2))

    def write(self, ours: Settings, theirs: Theirs) -> None:
        names, classes = theirs.get("id2label"), get(ours, "output.classes")
        if not isinstance(names, Mapping) or len(names) != classes:  # names that were there are kept
            names = {str(n): f"LABEL_{n}" for n in range(classes)}
        theirs["id2label"] = dict(names)
        theirs["label2id"] = {name: int(n) for n, name in names.items()}


def whole(value: Any) -> bool:
    """Whether a value is a whole number above 0 that a size can be."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < LARGEST
