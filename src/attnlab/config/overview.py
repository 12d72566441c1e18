"""Names and summaries of every table, read off the source: importing the classes would import torch."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from attnlab.config.registry import TABLES

PACKAGE = Path(__file__).parents[1]


def overview() -> dict[str, dict[str, str]]:
    """Of every table its variants, each with the first line of its card."""
    return {
        name: {variant: _summary(*place) for variant, place in _variants(*path.split(":")).items()}
        for name, path in TABLES.items()
    }


def _variants(module: str, table: str) -> dict[str, tuple[str, str]]:
    """The lines of a table: a name, and where its class is."""
    definition = re.search(rf"^{table}\b.*?^\)$", _source(module), re.MULTILINE | re.DOTALL)
    assert definition is not None, f"{module} has no table {table}"
    found = re.findall(r'"(\w+)": "([\w.]+):(\w+)"', definition[0])
    return {name: (module, kind) for name, module, kind in found}


def _summary(module: str, kind: str) -> str:
    """The first line of a class's docstring."""
    found = re.search(rf'^class {kind}\b[^\n]*:\n    r?"""(.*?)(?:"""|$)', _source(module), re.MULTILINE)
    return "" if found is None else found[1].strip()


@cache
def _source(module: str) -> str:
    place = PACKAGE.joinpath(*module.split(".")[1:])
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return file.read_text(encoding="utf-8")
