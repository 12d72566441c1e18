"""Ranges of settings and options: declared by annotations, refused when a config loads."""

import pytest

from attnlab.config.files import load
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
