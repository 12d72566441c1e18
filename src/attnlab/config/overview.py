"""Names and summaries of every table, read off the source: importing the classes would import torch."""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path

from attnlab.config.registry import TABLES, card, table

PACKAGE = Path(__file__).parents[1]


CLASS = re.compile(r'^class (\w+)\b[^\n]*:\n    r?"""(.*?)(?:"""|$)', re.MULTILINE)
VARIANT = re.compile(r'"(\w+)": "([\w.]+):(\w+)"')


def overview() -> dict[str, dict[str, str]]:
    """Of every table its variants, each with the first line of its card."""
    return {name: _variants(*path.split(":")) | _registered(name, path) for name, path in TABLES.items()}


def _registered(name: str, path: str) -> dict[str, str]:
    """Variants of a person's own, whose registration has imported the table."""
    if path.partition(":")[0] not in sys.modules:
        return {}
    return {variant: card(table(name), variant).summary for variant in table(name).registered}


def _variants(module: str, table: str) -> dict[str, str]:
    """The lines of a table, up to the bracket that closes it: a name, and where its class is."""
    _, _, definition = f"\n{_source(module)}".partition(f"\n{table}")
    lines = VARIANT.findall(definition.partition("\n)\n")[0])
    return {name: _summaries(place).get(kind, "") for name, place, kind in lines}


@cache
def _summaries(module: str) -> dict[str, str]:
    """The first line of the docstring of each class that has one."""
    return {kind: summary.strip() for kind, summary in CLASS.findall(_source(module))}


def _source(module: str) -> str:
    place = PACKAGE.joinpath(*module.split(".")[1:])
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return file.read_text(encoding="utf-8")
