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
        str, typer.Option(help="Put this head on the trunk, new: classification(classes=3), span, …")
    ] = "",
    tokenizer: Annotated[
        Path | None, typer.Option(help="The model's tokenizer, where the folder has none.")
    ] = None,
    accept: Annotated[
        list[str] | None,
        typer.Option(help="A tensor that may be missing, left over or of another type; or `tokenizer`."),
    ] = None,
    vocabulary: Annotated[
        int | None, typer.Option(help="Words the model shall have; new ones begin near the mean.", min=1)
    ] = None,
    length: Annotated[
        int | None, typer.Option(help="Positions it shall have; learned ones are repeated or cut.", min=1)
    ] = None,
    json: JsonOption = False,
) -> None:
    """Take in a model of another project, or give one out, with every tensor accounted for."""
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
