"""`attnlab explain attention` and `heads`: where a trained model looks, and what its heads are worth."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnlab.cli.console import MOST, JsonOption, err, out
from attnlab.cli.explained_view import MOST_COLUMNS, HtmlOption, listing, present, save_page, shaded
from attnlab.cli.generate import RunArgument
from attnlab.config.visible_text import visible
from attnlab.runs.display import escape

if TYPE_CHECKING:
    from attnlab.explain.attention_maps import AttentionMaps

MODEL = "A run's folder, one of its checkpoints, or a folder in transformers' layout."
ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help=MODEL)]
STRONGEST = 3
"""Keys that are named for each query where a map does not fit a terminal."""


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

    found = Trained.at(model).attention(text, pair, layer=layer, head=head)
    if json:
        return present(found, json=True, html=html)
    save_page(found, html)
    out.print(escape(visible(found.summary)), highlight=False)
    out.print()
    _show_head(found)
    out.print()
    out.print(shaded(found.overview()), soft_wrap=True)
    out.print()
    table = found.table(found.most)
    out.print(listing(table))
    out.print(f"[dim]{escape(table.note)}[/]", highlight=False)
    return None


def _show_head(found: AttentionMaps) -> None:
    """The chosen head as shades with each query's strongest key, or as words where there is no room."""
    grid = found.large(found.chosen)
    strongest = [_strongest(row, grid.columns, 1) for row in grid.values]
    if len(grid.columns) <= MOST_COLUMNS:
        room = 80 - 16 - len(grid.columns) * (2 if len(grid.columns) <= 24 else 1)
        out.print(shaded(grid, strongest if room >= 22 else ()), soft_wrap=True)
    else:
        out.print(f"[bold]{escape(grid.title)}[/]", highlight=False)
        for name, row in zip(grid.rows, grid.values, strict=True):
            told = _strongest(row, grid.columns, STRONGEST)
            out.print(f"{escape(visible(name)):>16} {escape(told)}", highlight=False)
    out.print(f"[dim]{escape(grid.note)}[/]", highlight=False)


def _strongest(row: Any, keys: Any, count: int) -> str:
    """Where a query looks most, in words."""
    order = sorted(range(len(row)), key=lambda place: -row[place])[:count]
    return "→ " + ", ".join(f"{visible(keys[place])[:14]} {row[place]:.2f}" for place in order)


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
