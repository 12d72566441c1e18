"""`attnlab serve`: the laboratory as a local web page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attnlab.cli.console import err
from attnlab.config.values import ConfigError
from attnlab.documents.nodes import muted, strong

PORT = 8420


def serve(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder with the runs.")] = Path("runs"),
    port: Annotated[int, typer.Option(help="0: any that is free.", min=0, max=65535)] = PORT,
    host: Annotated[
        str, typer.Option(help="The address to listen on. Others than this machine's own ask for a token.")
    ] = "127.0.0.1",
    memory: Annotated[
        float, typer.Option(help="GB that a process may use which holds an opened model.", min=0.5, max=1024)
    ] = 4.0,
) -> None:
    """Show the runs of a folder on a local web page, live. Ctrl-C ends the page; what trains goes on."""
    try:
        from attnlab.web.serving import bound, serve_on
    except ModuleNotFoundError as error:
        raise ConfigError(
            f'The page needs {error.name}, which is not installed: pip install "attnlab[web]"'
        ) from None
    with bound(host, port) as (listening, door):
        err.say(
            "The runs in ",
            strong(str(folder)),
            " are on ",
            strong(door.address),
            muted("  (Ctrl-C ends the page)"),
        )
        serve_on(listening, door, folder, memory=int(memory * 2**30))
