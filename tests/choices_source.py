"""What attnlab/choices.py must be by the tables; `python -m tests.choices_source` writes it."""

from __future__ import annotations

import subprocess
import sys
import types
import typing
from dataclasses import fields
from pathlib import Path

import attnlab
from attnlab.config import ranges
from attnlab.config.registry import TABLES, Option, card, table
from attnlab.config.schema import SECTIONS, Config
from attnlab.config.values import JOINED, Choice

FILE = Path(attnlab.__file__).parent / "choices.py"
HEADER = '''"""Every variant of the tables that a config chooses from, as a function that gives the choice.

Made by `python -m tests.choices_source` from the tables and the constructors of their classes. A name that
two tables of parts have (Window, None) is asked for with its table: `lab.choice("masks", "window", size=8)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from attnlab.config import ranges
from attnlab.config.registry import choice
from attnlab.config.values import Choice
'''


def tables() -> list[str]:
    """Those that a setting is chosen from, and the rules of decoding."""
    sections = [*SECTIONS.values(), Config]
    named = (f.metadata["table"] for section in sections for f in fields(section) if "table" in f.metadata)
    return list(dict.fromkeys([*named, "decoding"]))


def named_choices() -> dict[str, tuple[str, str]]:
    """Table and name of each variant, by its public name; a part of the model goes before others.

    Masks are joined with & and |, not by name.
    """
    found: dict[str, list[tuple[str, str]]] = {}
    for of in tables():
        for kind in [kind for kind in table(of) if kind not in JOINED]:
            found.setdefault(kind.title().replace("_", ""), []).append((of, kind))
    chosen = {}
    for name, places in sorted(found.items()):
        parts = [of for of in places if is_part(of[0])] or places
        if len(parts) == 1:
            chosen[name] = parts[0]
    return chosen


def is_part(of: str) -> bool:
    """Whether a table holds parts of a model; an adapter is put on one."""
    return TABLES[of].startswith("attnlab.model") and of != "adapters"


def written_type(kind: object) -> str:
    """A type as source, ranges by their names."""
    for name, known in vars(ranges).items():
        if typing.get_origin(known) is typing.Annotated and kind == known:
            return f"ranges.{name}"
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return " | ".join(map(written_type, arguments))
    if origin is typing.Literal:
        return f"Literal[{', '.join(map(repr, arguments))}]"
    if origin is tuple:
        return f"Sequence[{written_type(arguments[0])}]"
    if origin is typing.Annotated:
        ends = {n: v for n, v in vars(arguments[1]).items() if v is not None}
        rule = ", ".join(f"{name}={end}" for name, end in ends.items())
        return f"Annotated[{written_type(arguments[0])}, ranges.Range({rule})]"
    assert isinstance(kind, type)
    return kind.__name__


def parameter(option: Option) -> str:
    many = typing.get_origin(option.kind) is tuple
    kind = ("Sequence[Choice | str]" if many else "Choice | str") if option.nested else None
    default = str(option.default) if isinstance(option.default, Choice) else option.default
    ending = "" if option.required else f" = {default!r}"
    return f"{option.name}: {kind or written_type(option.kind)}{ending}"


def function(name: str, of: str, kind: str) -> str:
    options = table(of).options(kind).values()
    star = "*, " if options else ""
    given = ", **locals()" if options else ""
    summary = card(table(of), kind).summary
    return f'''def {name}({star}{", ".join(map(parameter, options))}) -> Choice:
    """{summary}"""
    return choice("{of}", "{kind}"{given})
'''


def source() -> str:
    chosen = named_choices()
    body = "\n\n".join(function(name, *place) for name, place in chosen.items())
    names = "".join(f'    "{name}",\n' for name in chosen)
    return f"{HEADER}\n__all__ = [\n{names}]\n\n\n{body}"


if __name__ == "__main__":
    FILE.write_text(source(), encoding="utf-8")
    for command in (["check", "--fix"], ["format"]):
        subprocess.run([sys.executable, "-m", "ruff", *command, str(FILE)], check=True)
