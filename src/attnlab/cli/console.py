"""What every command shares: the terminal, JSON for machines, and the options that repeat."""

from __future__ import annotations

import json
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
