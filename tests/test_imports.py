"""Imports go one way."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import attnlab
from attnlab.config.registry import TABLES, table
from attnlab.tasks import TASKS

SOURCE = Path(attnlab.__file__).parent
LAYERS = """
config
documents metrics
runs
data model
tasks
training generation
evaluation
checks explain
interop
session testing pytest_plugin
studies
web cli
demo __main__
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


def modules():
    """Every module by its name, but the package itself, which is the door to all of them."""
    for file in SOURCE.rglob("*.py"):
        parts = file.relative_to(SOURCE).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if parts:
            yield ".".join(("attnlab", *parts)), file


def executed(node):
    """Every node that is run, sooner or later: imports for type checkers alone are not."""
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)):
            yield child
            yield from executed(child)


def test_no_two_modules_need_each_other_not_even_in_a_function():
    known = dict(modules())
    needed = {}
    for name, file in known.items():
        found = {
            full if (full := f"{node.module}.{alias.name}") in known else node.module
            for node in executed(ast.parse(file.read_text()))
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
        }
        needed[name] = (found & known.keys()) - {name}
    list(TopologicalSorter(needed).static_order())  # raises CycleError, which names the cycle


NAMED_AFTER = ("cli", "studies.builtin", "studies.report.sections", "interop.peft")
"""Folders whose files are named after what they are for: a command, a question, what is shown, an adapter."""


def variants():
    """Every variant of every table, with its module: those of different tables may share a name."""
    return [table(name)[kind] for name in TABLES for kind in table(name)]


def confusable(named):
    """The names that more than one has that is no variant: {name: where}."""
    where = {}
    for name, place in named:
        where.setdefault(name, []).append(place)
    return {name: places for name, places in where.items() if len(places) > 1}


def test_no_two_modules_have_one_name_that_a_reader_could_confuse():
    of_variants = {variant.__module__ for variant in variants()}
    named = [
        (name.rpartition(".")[2], name)
        for name, file in modules()
        if file.name != "__init__.py"
        and name not in of_variants
        and name.removeprefix("attnlab.").rpartition(".")[0] not in NAMED_AFTER
    ]
    assert not confusable(named)


def test_no_two_classes_have_one_name_that_a_reader_could_confuse():
    of_variants = {(variant.__module__, variant.__name__) for variant in variants()}
    named = [
        (node.name, name)
        for name, file in modules()
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.ClassDef) and (name, node.name) not in of_variants
    ]
    assert not confusable(named)


INSIDE = {"main", "encoder", "decoder", "blocks", "embedding"}
"""What a transformer is made of; another trunk has none of it."""


def test_nothing_outside_the_model_reaches_into_a_trunk():
    """What others need of a trunk is in its protocol. Data has decoders of its own, of other libraries."""
    for file in SOURCE.rglob("*.py"):
        if file.relative_to(SOURCE).parts[0] in ("model", "data"):
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            reached = isinstance(node, ast.Attribute) and node.attr in INSIDE
            assert not reached, f"{file.relative_to(SOURCE)}:{node.lineno} reaches for .{node.attr}"


def tasks_named(node):
    """A comparison of which task it is, an import of one of them, or whether a head is a language model."""
    if isinstance(node, ast.Compare):
        return any("task.kind" in ast.unparse(side) for side in (node.left, *node.comparators))
    if isinstance(node, ast.ImportFrom):
        return (node.module or "").removeprefix("attnlab.tasks.") in TASKS
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance"
    return called and "LanguageModel" in ast.unparse(node.args[1])


def test_what_a_model_is_for_is_asked_of_its_task():
    for file in SOURCE.rglob("*.py"):
        if file.relative_to(SOURCE).parts[0] not in ("model", "tasks"):
            for node in ast.walk(ast.parse(file.read_text())):
                assert not tasks_named(node), f"{file.relative_to(SOURCE)}:{node.lineno} compares tasks"
