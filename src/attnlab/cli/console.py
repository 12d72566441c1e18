"""What every command shares: the terminal, JSON for machines, and the options that repeat."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

out = Console()
err = Console(stderr=True)

SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Change one setting, e.g. --set model.width=256. Repeatable."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Machine-readable output on stdout.")]


def emit(value: Any) -> None:
    """JSON on stdout, and nothing else."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2))


def fail(message: str) -> None:
    """An error, for a person."""
    err.print(f"[bold red]Error:[/] {escape(message)}", highlight=False, soft_wrap=True)


def not_sound(unsound: Iterable[str]) -> str:
    """What stands beside every number of a run that failed a check."""
    return f"[bold red]Not sound:[/] failed {', '.join(unsound)}; its numbers do not mean what they say."


COLOURS = {"pass": "green", "warn": "yellow", "fail": "bold red"}
MARKS = {"pass": "✓", "warn": "!", "fail": "✗", "not applicable": "–"}


def checked(outcomes: Mapping[str, str], seconds: float) -> str:
    """One line on checks that were made, with what they cost."""
    named = (f"[{COLOURS[o]}]{MARKS[o]}[/] {name}" for name, o in outcomes.items())
    return f"Checks ({seconds:.1f} s): {', '.join(named)}"
