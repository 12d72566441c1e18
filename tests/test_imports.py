"""Imports go one way."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import attnlab
from attnlab.config.registry import TABLES, table
from attnlab.targets import TARGETS
from attnlab.tasks import TASKS

SOURCE = Path(attnlab.__file__).parent
WORDING = "wording"
"""A folder's `wording`, a module or a folder: the sentences of its records. It imports `config`,
numbers as they are written (`documents`, `metrics`) and other wordings alone, so that whoever holds a record
can say it."""
LAYERS = """
config
choices
documents metrics
wording
runs
data model
targets
tasks
generation
evaluation
training
checks explain
interop
session testing pytest_plugin
studies
web
cli
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
                yield layer_of(name.split(".")[1:])


def layer_of(parts):
    """The layer of a module by the names of its path below the package."""
    return WORDING if [*parts[1:2]] == [WORDING] and parts[0] != "config" else parts[0]


def test_every_import_goes_down_or_stays():
    for file in SOURCE.rglob("*.py"):
        own = layer_of(file.relative_to(SOURCE).with_suffix("").parts)
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
        nodes = list(executed(ast.parse(file.read_text())))
        needed[name] = {
            full if (full := f"{node.module}.{alias.name}") in known else node.module
            for node in nodes
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
        }
        needed[name] |= {a.name for node in nodes if isinstance(node, ast.Import) for a in node.names}
        needed[name] = (needed[name] & known.keys()) - {name}
    list(TopologicalSorter(needed).static_order())  # raises CycleError, which names the cycle


NAMED_AFTER = (
    "cli",
    "targets",
    "web.actions",
    "web.views",
    "studies.builtin",
    "studies.report.sections",
    "interop.peft",
)
"""Folders whose files are named after what they are for: a command, a target, a question, what is shown, an
adapter."""


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
        if file.name not in ("__init__.py", f"{WORDING}.py")
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


def called_apart(node):
    """A call of a model's trunk, or of its head or the head's loss: wrappers see nothing but model(...)."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    owner = ast.unparse(node.func.value)
    of_head = node.func.attr == "head" and owner.removesuffix(".eval()").endswith("model")
    return node.func.attr == "trunk" or of_head or (node.func.attr == "loss" and ".head" in owner)


def test_a_model_is_asked_through_its_forward_alone():
    """Tasks and others get the head as an argument of their objective, inside the forward."""
    asked = (
        "model.trunk(ids)",
        "self.model.head(x)",
        "model.head.loss(x)",
        "language_head(model.head).loss(x)",
    )
    assert all(called_apart(ast.parse(code).body[0].value) for code in asked)
    for file in SOURCE.rglob("*.py"):
        if file.relative_to(SOURCE).parts[0] != "model":
            for node in ast.walk(ast.parse(file.read_text())):
                where = f"{file.relative_to(SOURCE)}:{getattr(node, 'lineno', 0)}"
                assert not called_apart(node), f"{where} calls a part of a model"


def labels_told_apart(node):
    """A comparison of which kind of target or label it is with a name."""
    if not isinstance(node, ast.Compare):
        return False
    sides = [ast.unparse(side) for side in (node.left, *node.comparators)]
    kinds = any(side.endswith(("labels.kind", "target.name", "label_kind")) for side in sides)
    return kinds and any(side in map(repr, TARGETS) for side in sides)


def test_what_is_predicted_is_asked_of_its_target():
    """Other projects' files have a table of their own by the targets' names."""
    assert labels_told_apart(ast.parse("task.target.name == 'class'").body[0].value)
    for file in SOURCE.rglob("*.py"):
        if file.relative_to(SOURCE).parts[0] not in ("targets", "interop"):
            for node in ast.walk(ast.parse(file.read_text())):
                where = f"{file.relative_to(SOURCE)}:{getattr(node, 'lineno', 0)}"
                assert not labels_told_apart(node), f"{where} compares kinds of labels"


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


SERIALISERS = {"as_json", "results"}
"""Methods that give JSON: a record, serialised."""


def test_results_are_records():
    """What studies, evaluations and sessions find is typed; only its JSON is a dict of anything."""
    for folder in ("studies", "evaluation", "session"):
        for file in (SOURCE / folder).rglob("*.py"):
            if "report" in file.relative_to(SOURCE).parts:
                continue  # the arguments of figures
            for node in ast.walk(ast.parse(file.read_text())):
                loose = isinstance(node, ast.FunctionDef) and node.name not in SERIALISERS and node.returns
                where = f"{file.relative_to(SOURCE)}:{getattr(node, 'lineno', 0)}"
                assert not (loose and "dict[str, Any]" in ast.unparse(node.returns)), f"{where} gives a dict"
