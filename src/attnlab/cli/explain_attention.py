"""`attnlab explain attention` and `heads`: where a trained model looks, and what its heads are worth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attnlab.cli.console import MOST, HtmlOption, JsonOption, err, present
from attnlab.cli.generate import RunArgument

MODEL = "A run's folder, one of its checkpoints, or a folder in transformers' layout."
ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help=MODEL)]


def attention(
    model: ModelArgument,
    text: Annotated[str, typer.Option(help="The text to read; the source of an encoder-decoder.")],
    pair: Annotated[str, typer.Option(help="A second text; the target of an encoder-decoder.")] = "",
    layer: Annotated[
        int, typer.Option(help="The layer to show; the most useful head by default.", min=-1, max=MOST)
    ] = -1,
    head: Annotated[int, typer.Option(help="The head to show.", min=-1, max=MOST)] = -1,
    html: HtmlOption = None,
    json: JsonOption = False,
) -> None:
    """Show where each head looks on a text, what kind it is of, and what happens without it."""
    from attnlab.session.trained import Trained

    present(Trained.at(model).attention(text, pair, layer=layer, head=head), json=json, html=html)


def heads(
    run: RunArgument,
    on: Annotated[
        Path | None, typer.Option(help="A file of texts; by default the dev split of the run's own corpus.")
    ] = None,
    texts: Annotated[int, typer.Option(help="Score at most this many texts.", min=2, max=MOST)] = 200,
    unit: Annotated[str, typer.Option(help="Take plain text by document, paragraph, line or sentence.")] = "",
    html: HtmlOption = None,
    json: JsonOption = False,
) -> None:
    """Remove each head in turn and measure how the loss changes, with its interval over texts."""
    from rich.progress import Progress

    from attnlab.session.evaluating import evaluate_heads
    from attnlab.session.trained import Trained

    trained = Trained.at(run)
    with Progress(console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task("Removing heads", total=None)
        reading = {"unit": unit} if unit else {}
        found = evaluate_heads(
            trained,
            on,
            texts=texts,
            progress=lambda done, of: bar.update(task, completed=done, total=of),
            **reading,
        )
    present(found, json=json, html=html)
