"""What a setting is: its type, default and choices, and the comment beside it in schema.py."""

from __future__ import annotations

import ast
import inspect
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import Field, dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from attnlab.config import schema
from attnlab.config.registry import TABLES, card, locate, table
from attnlab.config.schema import Config
from attnlab.config.values import Choice, kind_phrase


@dataclass(frozen=True)
class SettingCard:
    """One setting. `of` is the variant that has it, of an option of a choice."""

    key: str
    takes: str
    default: str
    choices: tuple[str, ...] = ()
    note: str = ""
    of: str = ""
    table: str = ""
    """From which its choices are."""
    words: tuple[str, ...] = ()
    """What it takes, where that is one of a few words."""


IMPORTS = SettingCard(
    "imports",
    "a list of text",
    "none",
    note="at the top of a config's or study's file: files in its folder, or modules, that register parts of "
    "your own. Their code is run only where you name it with --import",
)
"""A key of a file that is no setting of a run."""
PRESET = "model.preset"
"""A key that brings other settings of [model] with it."""


def setting_cards(key: str = "") -> list[SettingCard]:
    """The settings of a dotted key: itself, or all of its section; none where there is no such key."""
    if key == IMPORTS.key:
        return [IMPORTS]
    if key == PRESET:
        presets = tuple(locate("attnlab.model.presets:PRESETS"))
        return [SettingCard(PRESET, "a preset", "none", presets, "the settings of a published architecture")]
    path = [part for part in key.split(".") if part]
    return list(_below(Config(), path, ""))


def section_text(key: str) -> str:
    """What is said of a section as a whole."""
    holder: Any = Config()
    for part in key.split("."):
        holder = getattr(holder, part, None)
    whole = is_dataclass(holder) and not isinstance(holder, Choice)
    return inspect.cleandoc(holder.__doc__ or "") if whole else ""


def _below(holder: Any, path: list[str], above: str) -> Iterator[SettingCard]:
    """The settings below an object that has all defaults."""
    hints = schema.declared(type(holder))
    for f in fields(holder):
        if path and f.name != path[0]:
            continue
        default, key = getattr(holder, f.name), f"{above}{f.name}"
        if is_dataclass(default) and not isinstance(default, Choice):
            yield from _below(default, path[1:], f"{key}.")
        elif len(path) < 2:
            yield _card(type(holder), f, hints[f.name], key, default)
        elif "table" in f.metadata and len(path) == 2:
            yield from _options(f.metadata["table"], path[1], key)


def _card(holder: Any, f: Field[Any], kind: Any, key: str, default: Any) -> SettingCard:
    of = f.metadata.get("table", "listeners" if key == "training.listeners" else "")
    takes = f"a choice of {of}" if kind is Choice else kind_phrase(kind)
    shown = "none" if default == () else str(default).lower() if isinstance(default, bool) else str(default)
    choices, note = tuple(table(of)) if of else (), _comments(holder).get(f.name, "")
    words = tuple(map(str, get_args(kind))) if get_origin(kind) is Literal else ()
    return SettingCard(key, takes, shown, choices, note, table=of, words=words)


def _options(of: str, name: str, key: str) -> Iterator[SettingCard]:
    """The option of this name of every variant that has it."""
    for variant in table(of):
        option = table(of).options(variant).get(name)
        if option is not None:
            written = str(Choice("", {name: option.default}))[len(name) + 2 : -1]
            default = "needed" if option.required else written
            choices = tuple(table(of)) if option.nested else ()
            yield SettingCard(f"{key}.{name}", option.kind_phrase, default, choices, of=variant)


@cache
def _comments(holder: Any) -> dict[str, str]:
    """The comment beside each field of a class, as its source has it."""
    source = inspect.getsource(holder)
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    beside = {t.start[0]: t.string.lstrip("# ") for t in tokens if t.type == tokenize.COMMENT}
    (body,) = ast.parse(source).body
    assert isinstance(body, ast.ClassDef)
    comments = {}
    for node in body.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            comments[node.target.id] = " ".join(beside[line] for line in lines if line in beside)
    return comments


# ---------------------------------------------------------------- names and summaries of every table
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
