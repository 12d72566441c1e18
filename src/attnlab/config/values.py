"""Values from files and the command line, checked against the type that the code declares."""

from __future__ import annotations

import ast
import difflib
import json
import math
import re
import sys
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from attnlab.config.ranges import Range

LONGEST_WORD, LONGEST_MESSAGE = 300, 1900
"""Characters of a word, and of all, that an error shows: what it quotes may be a file's whole content."""


Settings = dict[str, Any]
"""Settings as a person or a file writes them, before the schema has read them."""


class ConfigError(ValueError):
    """A setting that cannot be used, in words for the person who wrote it."""

    def __init__(self, message: object):
        super().__init__(shortened(str(message)))


def shortened(message: str) -> str:
    """A message without the middle of what is too long to read."""
    if len(message) <= LONGEST_WORD:
        return message
    message = re.sub(
        rf"\S{{{LONGEST_WORD + 1},}}", lambda word: without_middle(word[0], LONGEST_WORD), message
    )
    return without_middle(message, LONGEST_MESSAGE)


def without_middle(text: str, most: int) -> str:
    """A text of at most about so many characters, which says how many it leaves out."""
    if len(text) <= most:
        return text
    return f"{text[: most // 2]}…({len(text) - most:,} more characters)…{text[len(text) - most // 2 :]}"


class NumberError(ConfigError):
    """A number that a setting cannot have, whatever else it takes."""


LARGEST = 2**63
"""What whole numbers are below, in torch and in files."""
SHOWN = 200
"""Characters of a value that an error shows."""
JOINED = {"all": " & ", "any": " | "}
"""How masks that are joined are written."""


@dataclass(frozen=True)
class Choice:
    """A named variant with its options: `dot`, or `group(groups=4, inner=linear)`."""

    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        if self.kind in JOINED and self.options.get("of"):
            return JOINED[self.kind].join(
                f"({c})" if c.kind in JOINED else str(c) for c in self.options["of"]
            )
        options = ", ".join(f"{name}={written(value)}" for name, value in self.options.items())
        return f"{self.kind}({options})" if options else self.kind

    def __and__(self, other: Choice | str) -> Choice:
        return Choice("all", {"of": (self, choice_of(other, "&"))})

    def __or__(self, other: Choice | str) -> Choice:
        return Choice("any", {"of": (self, choice_of(other, "|"))})


def quoted(value: Any) -> str:
    """A value that does not fit, as it was given."""
    return str(value) if isinstance(value, Choice) else repr(value)


def written(value: Any) -> str:
    """A value as a person writes it in a setting."""
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(map(written, value)) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def choice_of(value: Any, where: str) -> Choice:
    """A Choice from what a person can write: itself, text, or a table with `kind`."""
    if isinstance(value, Choice):
        return value
    if isinstance(value, str):
        return _parse_choice(value, where)
    if isinstance(value, Mapping):
        if "kind" not in value:
            raise ConfigError(
                f'{where} is a table without `kind`; write {{ kind = "name", option = value }} or "name".'
            )
        return Choice(str(value["kind"]), {k: v for k, v in value.items() if k != "kind"})
    raise ConfigError(f"{where} takes a name, or a table with `kind` and options, not {value!r}.")


def choices_of(value: Any) -> list[Any] | None:
    """The entries of a list of choices, which may also be text: `[dot, linear]`; None for a single choice."""
    if isinstance(value, str) and value.strip().startswith("["):
        value = _parse(value, "a list of choices")
    return list(value) if isinstance(value, (list, tuple)) else None


def _parse_choice(text: str, where: str) -> Choice:
    parsed = _parse(text, where)
    if not isinstance(parsed, Choice):
        raise ConfigError(f'{where} = "{text}" is not a name; write a name, or name(option=value, …).')
    return parsed


def _parse(text: str, where: str) -> Any:
    """`name`, `name(option=value, …)`, and masks joined with & and |, by Python's own grammar."""
    try:
        return _from_syntax(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
        raise ConfigError(
            f'{where} = "{shown}" cannot be read; write a name, or name(option=value, …).'
        ) from error


def _from_syntax(node: ast.expr) -> Any:
    match node:
        case ast.Name(id="true" | "false" as word):
            return word == "true"
        case ast.Name(id=name):
            return Choice(name)
        case ast.Call(func=ast.Name(id=name), args=[], keywords=keywords):
            return Choice(name, {str(k.arg): _from_syntax(k.value) for k in keywords})
        case ast.BinOp(left=left, op=ast.BitAnd(), right=right):
            return choice_of(_from_syntax(left), "&") & _from_syntax(right)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return choice_of(_from_syntax(left), "|") | _from_syntax(right)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return tuple(_from_syntax(item) for item in items)
        case _:
            return ast.literal_eval(node)


def coerce(value: Any, kind: Any, where: str) -> Any:
    """`value` as the declared type `kind`, or a ConfigError that says what would fit."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        return within(coerce(value, arguments[0], where), arguments[1:], where)
    if origin in (typing.Union, types.UnionType):
        for option in arguments:
            try:
                return coerce(value, option, where)
            except NumberError:
                raise
            except ConfigError:
                continue
        raise ConfigError(f"{where} takes {kind_phrase(kind)}, not {quoted(value)}.")
    if kind is Choice:
        return choice_of(value, where)
    if isinstance(value, Choice) and not value.options:
        value = value.kind  # a bare word inside name(option=word)
    if isinstance(value, str):
        refuse_halves(value, where)
    if origin is Literal:
        for word in arguments:
            if value == word or str(value) == word:  # TOML reads -inf as a number
                return word
        near = nearest(value, arguments)
        raise ConfigError(f"{where} takes {kind_phrase(kind)}, not {quoted(value)}.{near}")
    if origin is tuple and isinstance(value, (list, tuple)):
        return tuple(coerce(item, arguments[0], f"{where}[{i}]") for i, item in enumerate(value))
    if kind in (int, float) and isinstance(value, (int, float)) and not isinstance(value, bool):
        refuse_number(value, kind, where)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is not float and isinstance(value, bool) and kind is not bool:
        raise ConfigError(f"{where} takes {kind_phrase(kind)}, not {str(value).lower()}.")
    if isinstance(kind, type) and isinstance(value, kind):
        return value
    fix = f"; write [{json.dumps(value)}]" if origin is tuple and isinstance(value, (str, int, float)) else ""
    raise ConfigError(f"{where} takes {kind_phrase(kind)}, not {quoted(value)}{fix}.")


def refuse_halves(text: str, where: str) -> None:
    """Text that no file takes: JSON can write half of a character, and a file's name can hold other bytes."""
    for number, character in enumerate(text if not text.isascii() else ()):
        if "\ud800" <= character <= "\udfff":
            raise NumberError(
                f"{where} holds half of a character (U+{ord(character):04X}, place {number}); write it anew."
            )


def within(value: Any, declared: Iterable[object], where: str) -> Any:
    """A value that is in the range of its annotation."""
    for allowed in declared:
        if isinstance(allowed, Range) and value not in allowed:
            raise NumberError(f"{where} is {value}; it must be {allowed.rule(value)}.")
    return value


def refuse_out_of_range(value: Any, kind: Any, where: str) -> None:
    """Of a value whose type is right, refuse what its annotation does not allow."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated and isinstance(value, (int, float)):
        within(value, arguments[1:], where)
    elif origin in (typing.Union, types.UnionType):
        for option in arguments:
            refuse_out_of_range(value, option, where)


def refuse_number(value: float, kind: type[int | float], where: str) -> None:
    """Numbers that no setting can mean, and that libraries underneath answer with errors of their own."""
    if isinstance(value, float) and not math.isfinite(value):
        raise NumberError(f"{where} is {value}; it must be a finite number.")
    largest, limit = (LARGEST, "2^63 (9.2 × 10^18)") if kind is int else (sys.float_info.max, "1.8 × 10^308")
    if abs(value) >= largest:
        raise NumberError(f"{where} is about 10^{int(math.log10(abs(value)))}; it must be below {limit}.")


def kind_phrase(kind: Any) -> str:
    """A declared type in a person's words."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        return kind_phrase(arguments[0])
    if origin is Literal:
        choices = [str(word) for word in arguments if word != ""]
        return "one of " + ", ".join(choices) if len(choices) > 1 else f'"{choices[0]}"'
    if origin in (typing.Union, types.UnionType):
        return " or ".join(map(kind_phrase, arguments))
    if origin is tuple:
        return f"a list of {kind_phrase(arguments[0])}"
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "text", Choice: "a choice"}
    return words.get(kind, getattr(kind, "__name__", str(kind)))


def nearest(word: object, known: Iterable[object]) -> str:
    """` Did you mean "x"?`, or nothing when no known word is close."""
    close = difflib.get_close_matches(str(word), [str(k) for k in known], n=1, cutoff=0.6)
    return f' Did you mean "{close[0]}"?' if close else ""


def nearest_three(word: object, known: Iterable[object]) -> list[str]:
    """The three known words that are most like a word, which one that holds it is."""
    names, wanted = [str(name) for name in known], str(word).lower()

    def likeness(name: str) -> float:
        short, long = sorted((wanted, name.lower()), key=len)
        inside = len(short) > 2 and short in long
        return difflib.SequenceMatcher(None, wanted, name.lower()).ratio() + 0.2 * inside

    return sorted(names, key=likeness, reverse=True)[:3]


MANY = 40
"""Names that are more than a person wants to read when the right one is at hand."""


def unknown_name(where: str, word: object, known: Iterable[object], none: str = "no") -> ConfigError:
    """The error for a name that does not exist: the nearest one, and all of them."""
    names = [str(k) for k in known]
    valid = f"Known: {', '.join(names)}." if names else "There are none."
    near = nearest(word, names)
    hint = near if near and len(names) > MANY else f"{near} {valid}"
    return ConfigError(f'{where}: there is {none} "{word}".{hint}')
