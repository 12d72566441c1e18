"""`attnlab convert`: checkpoints of other projects, in and out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from attnlab.cli.console import JsonOption, emit, out


def convert(
    source: Annotated[
        str, typer.Argument(help="A folder in transformers' layout, a hub's owner/name, or a run.")
    ],
    target: Annotated[Path, typer.Argument(help="The folder to write, or a run's model.onnx.")],
    head: Annotated[
        str,
        typer.Option(help="Replace the head with a new, untrained one: classification(classes=3), span, …"),
    ] = "",
    tokenizer: Annotated[
        Path | None, typer.Option(help="The model's tokenizer, if the folder has none.")
    ] = None,
    accept: Annotated[
        list[str] | None,
        typer.Option(help="A tensor that may be missing, unused or of another type; or `tokenizer`."),
    ] = None,
    vocabulary: Annotated[
        int | None,
        typer.Option(help="Resize the vocabulary to this many tokens; new rows start near the mean.", min=1),
    ] = None,
    length: Annotated[
        int | None,
        typer.Option(help="Resize to this many positions; learned ones are repeated or cut.", min=1),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Import or export a model (transformers, ONNX), with every tensor accounted for."""
    from attnlab.experiment.convert import convert as run

    certificate = run(
        source,
        target,
        output=head or None,
        tokenizer=tokenizer,
        accept=tuple(accept or ()),
        vocabulary=vocabulary,
        length=length,
    )
    if json:
        return emit(certificate.as_json())
    for line in certificate.lines():
        out.print(escape(line), highlight=False, soft_wrap=True)
    out.print(f"Written to [bold]{escape(str(target))}[/].", highlight=False, soft_wrap=True)
    return None
