"""`attnlab publish`: a study as one file that others run."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from attnlab.cli.console import JsonOption, emit, out
from attnlab.config.wording import first_few
from attnlab.documents.nodes import strong


def publish(
    study: Annotated[Path, typer.Argument(help="The folder of a study.")],
    target: Annotated[Path, typer.Argument(help="The file to write, such as study.zip.")],
    with_data: Annotated[
        bool,
        typer.Option("--with-data", help="Pack its data files, too: only where you may pass them on."),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Write a study as one file: its settings, own code and hashes, for attnlab run elsewhere."""
    from attnlab.studies.publishing import publish as write

    published = write(study, target, with_data=with_data)
    if json:
        return emit({**asdict(published), "file": str(target)})
    code = f", code {first_few(published.code)}" if published.code else ""
    data = f", data {first_few(published.data)}" if published.data else ""
    out.say(f"Written: study.json and study.toml{code}{data}.")
    if published.left_out:
        out.say(
            f"Not packed, but named by their hashes: {first_few(published.left_out)}. Whoever runs the study "
            "puts them in its folder; --with-data packs them."
        )
    if published.needs:
        out.say(f"Not packed: the models that arms begin from ({first_few(published.needs)}).")
    out.say("Run it elsewhere: ", strong(f"attnlab run {target.name}"))
    return None
