"""Every command, option and setting that a message, card or help names is one that exists."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from typer.main import get_command

import attnlab
from attnlab.cli import COMMANDS, app
from attnlab.config.setting_cards import setting_cards
from tests.session.commands import answer, command

SOURCE = Path(attnlab.__file__).parent
KEY = re.compile(r"(?<![\w./])(?:model|data|training)(?:\.[a-z_]+)+\b(?![\w(/])")
OPTION = re.compile(r"(?<![\w(-])--[a-z]+(?:-[a-z]+)*(?![\w:-])")
COMMAND = re.compile(r"\battnlab ([a-z]+)(?: ([a-z]+))?([^\n.,;)`]*)")
PROSE = re.compile(r"attnlab [a-z]+(?: [a-z]|[.:])")
"""A sentence goes on in small letters or ends with a stop; a command goes on with RUN or an option."""
FILES = (".safetensors", ".onnx", ".json")
OTHERS = {"--max-restarts", "--logdir", "--partition", "--cpus-per-task", "--noheader", "--format", "--user"}
"""Options of other programs: tensorboard's, and those of Slurm."""
APART = ("config/upgrade.py", "documents/")
"""Names of before, and variables of style sheets."""


def texts():
    """Every string of the source with where it stands; what an f-string fills in is …"""
    for file in sorted(SOURCE.rglob("*.py")):
        place = str(file.relative_to(SOURCE))
        if place.startswith(APART):
            continue
        tree, inside = ast.parse(file.read_text()), set()
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                inside |= {id(part) for part in node.values}
                parts = (part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
                yield f"{place}:{node.lineno}", "".join(map(str, parts))
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
                yield f"{place}:{node.lineno}", node.value


@cache
def options_of(name, sub=""):
    """The options of a command, or of a command of a group."""
    found = get_command(app).get_command(None, name)
    inner = getattr(found, "commands", {})
    chosen = [inner[sub]] if sub in inner else [found, *inner.values()]
    return {option for c in chosen for p in c.params for option in (*p.opts, *p.secondary_opts)} | {"--help"}


@cache
def all_options():
    return {option for name in COMMANDS for option in options_of(name)} | {"--version", *OTHERS}


def wrong_in(text):
    """What a text names that there is not."""
    for key in KEY.findall(text):
        if not key.endswith(FILES) and not setting_cards(key):
            yield f"there is no setting {key}"
    for match in COMMAND.finditer(text):
        name, sub, rest = match.groups()
        if name not in COMMANDS:
            yield from () if PROSE.match(text, match.start()) else [f"there is no command attnlab {name}"]
        else:
            own = options_of(name, sub)
            yield from (f"attnlab {name} has no {o}" for o in OPTION.findall(rest) if o not in own)
    yield from (f"no command has {option}" for option in OPTION.findall(text) if option not in all_options())


def test_what_messages_advise_exists():
    found = [f"{place}: {wrong}" for place, text in texts() for wrong in wrong_in(text)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("Set training.bugdet.steps.", "there is no setting training.bugdet.steps"),
        ("Use model.attention.grups=4", "there is no setting model.attention.grups"),
        ("Ask it: attnlab query RUN", "there is no command attnlab query"),
        ("attnlab train X --resum", "attnlab train has no --resum"),
        ("attnlab explain counts X --allow y", "attnlab explain has no --allow"),
        ("go on with --continue", "no command has --continue"),
    ],
)
def test_what_does_not_is_found(text, wrong):
    assert wrong in list(wrong_in(text))


def test_every_setting_is_shown_with_its_type_default_and_choices():
    cards = {card.key: card for card in setting_cards()}
    assert cards["training.budget.epochs"].default == "1.0"
    assert cards["training.accumulate"].note == "batches of one step"
    assert (
        "linear" in cards["model.attention"].choices and cards["training.clip"].takes == 'a number or "off"'
    )
    assert all(card.takes and card.default for card in cards.values())
    (steps,) = answer("show", "training.budget.steps")
    assert steps["takes"] == 'a whole number or "unlimited"'
    of = {card["of"]: card["default"] for card in answer("show", "training.optimizer.learning_rate")}
    assert of["adamw"] == "0.0005"
    shown = command("show", "training.budget").output
    assert "Whichever limit is reached first ends the run" in shown and "training.budget.flops" in shown
    for key in ("imports", "model.preset", "seed"):
        assert [card["key"] for card in answer("show", key)] == [key]
    assert 'Did you mean "training.clip", ' in str(command("show", "training.clp").exception)
