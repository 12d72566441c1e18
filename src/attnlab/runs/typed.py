"""Whether what a file holds is of the types that a record declares: the field is named where it is not."""

from __future__ import annotations

import math
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Literal, NotRequired, Required

NAMES = {dict: "an object", list: "a list", str: "text", bool: "true or false", int: "a whole number"}
NAMES |= {float: "a number", type(None): "null"}
MARKS = (Required, NotRequired)
UNIONS, OBJECTS, LISTS = (typing.Union, types.UnionType), (dict, Mapping), (list, tuple, Sequence)

Value = str | int | float | bool | None | Sequence[Any] | Mapping[str, Any]
"""What a fact may hold from which a sentence is made: anything that JSON has."""


@cache
def declared(record: Any) -> dict[str, Any]:
    """The fields of a dataclass or TypedDict, and their types."""
    return typing.get_type_hints(record)


@cache
def needed(record: Any) -> frozenset[str]:
    """The keys that a TypedDict must have. Where annotations are only read later, as here, it does not know
    itself which are marked as required."""
    if not typing.is_typeddict(record):
        return frozenset()
    kinds = typing.get_type_hints(record, include_extras=True)
    marked = {mark: {n for n, kind in kinds.items() if typing.get_origin(kind) is mark} for mark in MARKS}
    return (record.__required_keys__ | marked[Required]) - marked[NotRequired]


def check_record(entries: Mapping[str, Any], record: Any, where: str = "") -> None:
    """TypeError where a field that is there is of another type, or one that is needed is not there.

    What is null in the file of a dataclass is not known: whoever reads it takes the default.
    """
    kinds = declared(record)
    unknown = is_dataclass(record)
    for name, value in entries.items():
        if name in kinds:
            check_type(value, kinds[name], f"{where}.{name}" if where else name, unknown=unknown)
    if missing := sorted(needed(record) - entries.keys()):
        raise TypeError(f"there is no {missing[0]}")


def check_type(value: Any, kind: Any, where: str, *, unknown: bool = False) -> None:
    """TypeError unless a value out of JSON is of a declared type; null fits where it means `unknown`."""
    if unknown and value is None:
        return
    if isinstance(value, int) and abs(value) > sys.float_info.max:
        raise TypeError(f"{where} is too large (about 10^{int(math.log10(abs(value)))})")
    if not test_of(kind)(value):
        raise TypeError(f"{where} is {NAMES.get(type(value), type(value).__name__)}, not {type_phrase(kind)}")
    if not isinstance(value, (dict, list)):
        return
    origin, arguments = parts_of(kind)
    if origin in UNIONS:
        chosen = next(option for option in arguments if test_of(option)(value))
        check_type(value, chosen, where, unknown=unknown)
    elif origin in OBJECTS and isinstance(value, dict):
        for name, inner in value.items():
            check_type(inner, arguments[1], f"{where}.{name}", unknown=unknown)
    elif origin in LISTS:
        for number, inner in enumerate(value):
            check_type(inner, arguments[0], f"{where}[{number}]", unknown=unknown)
    elif isinstance(value, dict) and has_fields(kind):
        check_record(value, kind, where)


@cache
def test_of(kind: Any) -> Callable[[Any], bool]:
    """Whether a value is of a type, as far as it can be seen from outside. Made once a type: a folder of runs
    has millions of values."""
    origin, arguments = parts_of(kind)
    if kind is Any:
        return lambda value: True
    if origin in UNIONS:
        tests = [test_of(option) for option in arguments]
        return lambda value: any(fits(value) for fits in tests)
    if origin is Literal:
        return lambda value: value in arguments
    if is_enum(kind):
        values = [member.value for member in kind]
        return lambda value: value in values
    if origin in OBJECTS or has_fields(kind):
        return lambda value: isinstance(value, dict)
    if origin in LISTS:
        return lambda value: isinstance(value, list)
    if kind in (int, float):
        allowed = (int, float) if kind is float else int
        return lambda value: isinstance(value, allowed) and not isinstance(value, bool)
    return lambda value: isinstance(value, kind)


@cache
def parts_of(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    return typing.get_origin(kind), typing.get_args(kind)


@cache
def has_fields(kind: Any) -> bool:
    return is_dataclass(kind) or typing.is_typeddict(kind)


def type_phrase(kind: Any) -> str:
    """A type in words."""
    origin, arguments = parts_of(kind)
    if origin in UNIONS:
        return " or ".join(map(type_phrase, arguments))
    if origin is Literal:
        return " or ".join(map(repr, arguments))
    if is_enum(kind):
        return " or ".join(repr(member.value) for member in kind)
    if origin in LISTS:
        return "a list"
    if origin in OBJECTS or has_fields(kind):
        return "an object"
    return NAMES.get(kind, str(kind))


def is_enum(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Enum)
