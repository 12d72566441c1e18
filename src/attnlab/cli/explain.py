from __future__ import annotations

import typer

app = typer.Typer(help="Explain a part.", no_args_is_help=True)
