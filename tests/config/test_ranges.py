"""Ranges of settings and options: declared by annotations, refused when a config loads."""

import dataclasses
import math
import typing

import pytest

from attnlab.config import schema
from attnlab.config.files import load
from attnlab.config.ranges import Count, Range
from attnlab.config.registry import TABLES, table
from attnlab.config.schema import Budget, DataSettings, ModelSettings
from attnlab.config.values import ConfigError, shortened


@pytest.mark.parametrize(
    "key, value, rule",
    [
        ("model.layers", 10**6, "at least 1 and at most 4,096"),
        ("model.width", 0, "at least 1"),
        ("model.width", 2**40, "at least 1 and at most 2,147,483,647"),
        ("model.dropout", 1, "at least 0 and below 1"),
        ("training.budget.epochs", 0, "above 0"),
        ("training.accumulate", -3, "at least 1"),
        ("training.keep", 1, "at least 2"),
        ("data.tokenizer", {"kind": "word", "minimum_count": -1}, "at least 0"),
        ("data.tokenizer", {"kind": "bpe", "vocabulary": 10**9}, "at least 1 and at most 10,000,000"),
        ("data.corpus", {"kind": "modular_addition", "modulus": 10**6}, "at least 1 and at most 2,000"),
        ("model.attention", {"kind": "window", "size": 0}, "at least 1"),
        ("training.optimizer", {"kind": "muon", "momentum": 1.5}, "at least 0 and below 1"),
        ("training.schedule", {"kind": "cosine", "warmup": -0.1}, "at least 0 and at most 1"),
        ("task", {"kind": "masked", "share": 3.0}, "at least 0 and at most 1"),
    ],
)
def test_what_is_out_of_range_is_refused_with_its_name_value_and_rule(key, value, rule):
    with pytest.raises(ConfigError) as error:
        load("mini-gpt", set={key: value})
    assert key in str(error.value) and str(error.value).endswith(f"it must be {rule}.")


@pytest.mark.parametrize(
    "make",
    [
        lambda: ModelSettings(width=-1, heads=1),
        lambda: DataSettings(length=1),
        lambda: Budget(steps=0),
    ],
)
def test_sections_that_python_makes_are_held_to_the_same(make):
    with pytest.raises(ConfigError, match="it must be at least"):
        make()


def test_every_default_is_in_its_own_range():
    for name in TABLES:
        for kind in table(name):
            needed = [o.name for o in table(name).options(kind).values() if o.required]
            if not needed:
                table(name).resolve({"kind": kind})


def test_an_error_never_shows_more_than_a_person_reads():
    with pytest.raises(ConfigError) as error:
        load("mini-gpt", set={"model.family": "x" * 10_000})
    assert len(str(error.value)) < 600 and "more characters" in str(error.value)
    assert shortened("a b " * 50) == "a b " * 50


def test_half_of_a_character_is_refused_with_its_place():
    with pytest.raises(ConfigError, match=r"corpus.*half of a character \(U\+D800, place 5\)"):
        load({"data": {"corpus": {"kind": "files", "path": "file-\ud800"}}})


ANY_NUMBER = {("tasks", "answering", "threshold")}
"""Options for which every finite number means something: a threshold of a difference of scores."""


def undeclared(kind):
    """The numbers in a declared type that have no range."""
    origin = typing.get_origin(kind)
    if origin is typing.Annotated:
        base, *declared = typing.get_args(kind)
        return [] if any(isinstance(one, Range) for one in declared) else undeclared(base)
    if kind in (int, float):
        return [kind]
    inner = () if origin is typing.Literal else typing.get_args(kind)
    return [number for one in inner for number in undeclared(one)]


def numeric(kind):
    """Whether a number can be written here, and whether in a list."""
    origin = typing.get_origin(kind)
    if origin is typing.Annotated:
        return numeric(typing.get_args(kind)[0])
    return kind in (int, float) or any(
        map(numeric, () if origin is typing.Literal else typing.get_args(kind))
    )


OPTIONS = [
    (name, kind, option)
    for name in TABLES
    for kind in table(name)
    for option in table(name).options(kind).values()
]
SECTIONS = [
    (section.__name__, name, declared)
    for section in vars(schema).values()
    if dataclasses.is_dataclass(section) and section.__module__ == schema.__name__
    for name, declared in typing.get_type_hints(section, include_extras=True).items()
]


def test_every_number_has_a_range():
    options = {(name, kind, option.name) for name, kind, option in OPTIONS if undeclared(option.kind)}
    assert options == ANY_NUMBER
    assert not [(section, name) for section, name, kind in SECTIONS if undeclared(kind)]
    assert undeclared(float | typing.Literal["a"]) and undeclared(tuple[int, ...]) and not undeclared(Count)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_no_option_takes_a_number_that_is_not_finite(number):
    for name, kind, option in OPTIONS:
        if numeric(option.kind):
            value = [number, number] if typing.get_origin(option.kind) is tuple else number
            with pytest.raises(ConfigError, match=r"must be a finite number|takes a whole number"):
                table(name).resolve({"kind": kind, option.name: value})


@pytest.mark.parametrize(
    "name, choice, rule",
    [
        ("attention", {"kind": "dot", "scale": 0}, "above 0"),
        ("positions", {"kind": "rotary", "base": 1}, "above 1"),
        ("adapters", {"kind": "lora", "alpha": -16}, "above 0"),
        ("decoding", {"kind": "sample", "repetition": 0}, "above 0"),
        ("optimizers", {"kind": "adamw", "betas": [0.9, 1.0]}, "at least 0 and below 1"),
        ("masks", {"kind": "window", "size": 0}, "at least 1"),
        ("heads", {"kind": "language_model", "scale": -1.0}, "above 0"),
    ],
)
def test_scales_bases_and_windows_have_ranges(name, choice, rule):
    with pytest.raises(ConfigError, match=f"it must be {rule}"):
        table(name).resolve(choice)
