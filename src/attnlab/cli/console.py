"""What every command shares: the terminal, JSON for machines, and the options that repeat."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from attnlab.cli.encoding import is_utf8
from attnlab.config.visible_text import visible, visible_json
from attnlab.runs.display import PlainConsole, escape

MOST = 2**31 - 1
"""The largest number that an option takes whose command has no smaller limit: a range that is told, and that
every library underneath can count to."""

out = PlainConsole()
err = PlainConsole(stderr=True)

SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Change one setting, e.g. --set model.width=256. Repeatable."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Machine-readable output on stdout.")]


OF_LEARNING = frozenset({"majority", "collapse"})
"""Checks that doubt what a model has learned, not how it was measured."""


def emit(value: Any) -> None:
    """JSON on stdout, and nothing else."""
    typer.echo(visible_json(json.dumps(value, ensure_ascii=not is_utf8(sys.stdout), indent=2)))


def fail(message: str) -> None:
    """An error, for a person. Its lines are ours; what else it quotes may be anything."""
    shown = "\n".join(map(visible, message.split("\n")))
    err.print(f"[bold red]Error:[/] {escape(shown)}", highlight=False, soft_wrap=True)


def warn(message: str) -> None:
    """Something that a person should know, which stops nothing."""
    err.print(f"[yellow]Warning:[/] {escape(visible(message))}", highlight=False, soft_wrap=True)


def not_sound(unsound: Iterable[str]) -> str:
    """What stands with every number of a run that failed checks: "majority", or "majority (step 8)"."""
    failed = list(unsound)
    measured = all(one.split()[0] in OF_LEARNING for one in failed)
    follows = "it is not shown to be better than a baseline" if measured else "its numbers cannot be trusted"
    return f"[bold red]Not sound:[/] failed {escape(visible(', '.join(failed)))}; {follows}."


def say_first(collapsed: str) -> None:
    """A collapse, before any number; nothing where there is none."""
    if collapsed:
        out.print(f"[bold red]{escape(visible(collapsed))}[/]", highlight=False, soft_wrap=True)
