"""Imports go one way."""

import ast
from pathlib import Path

import attnlab

SOURCE = Path(attnlab.__file__).parent
LAYERS = """
config
runs metrics
data model
tasks
training generation
evaluation
checks explain
experiment
studies
web cli
demo
"""
RANK = {name: rank for rank, names in enumerate(LAYERS.strip().splitlines()) for name in names.split()}


def imported(file):
    for node in ast.walk(ast.parse(file.read_text())):
        names = [node.module] if isinstance(node, ast.ImportFrom) else getattr(node, "names", [])
        for name in (
            names if isinstance(node, ast.ImportFrom) else [a.name for a in names if isinstance(a, ast.alias)]
        ):
            if name and name.startswith("attnlab."):
                yield name.split(".")[1]


def test_every_import_goes_down_or_stays():
    for file in SOURCE.rglob("*.py"):
        own = file.relative_to(SOURCE).parts[0].removesuffix(".py")
        if own == "__init__":
            continue
        assert own in RANK, f"{own} has no place in the order of layers"
        for other in imported(file):
            allowed = own == other or RANK[other] < RANK[own]
            assert allowed, f"{file.relative_to(SOURCE)} imports {other}: data flows the other way"
