"""`attnlab evaluate`: what a trained language model is worth, the usual way and the honest way."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from attnlab.cli.console import JsonOption, emit, not_sound, out
from attnlab.cli.generate import RunArgument


def evaluate(
    run: RunArgument,
    split: Annotated[str, typer.Option(help="The split to score: dev, test or train.")] = "dev",
    on: Annotated[
        Path | None, typer.Option(help="Another text file to score, in overlapping windows.")
    ] = None,
    probe: Annotated[
        list[str] | None, typer.Option(help="A sentence to score by itself. Repeatable.")
    ] = None,
    rows: Annotated[
        int, typer.Option(help="Rows for the honest loss, each token from its prefix.", min=2)
    ] = 32,
    json: JsonOption = False,
) -> None:
    """Score a trained language model: loss, perplexity and bits per byte, with their denominators."""
    from attnlab.experiment.scores import of_probes, of_split, of_text
    from attnlab.experiment.trained import open_run

    trained = open_run(run)
    result: dict[str, Any] = {"run": str(trained.folder), "step": trained.step}
    result |= {"sound": not trained.unsound, "unsound": trained.unsound}
    if on is not None:
        result["text"] = of_text(trained, on)
    else:
        result["split"] = of_split(trained, split, rows=rows)
    if probe:
        result["probes"] = of_probes(trained, probe)
    if json:
        return emit(result)
    show(result)
    if trained.unsound:
        out.print(not_sound(trained.unsound), highlight=False)
    return None


def show(result: dict[str, Any]) -> None:
    scored = result.get("split") or result["text"]
    table = Table("measure", "value", "definition", title=scored["name"], title_justify="left")
    for name, value, definition in scored["measures"]:
        table.add_row(name, f"{value:,.4f}" if isinstance(value, float) else f"{value:,}", definition)
    out.print(table)
    honest = scored.get("honesty")
    if honest is not None:
        low, high = honest["interval"]
        colour = "green" if honest["sound"] else "bold red"
        out.print(
            f"Honest loss (each token from its prefix alone, {honest['rows']} rows): {honest['alone']:.4f}, "
            f"the usual on the same rows {honest['usual']:.4f}; difference {honest['difference']:.4f} "
            f"(95 % interval {low:.4f} to {high:.4f}). [{colour}]{escape(honest['meaning'])}[/]",
            highlight=False,
        )
    if "probes" in result:
        columns = ("sentence", "loss", "perplexity", "tokens", "unknown")
        probes = Table(*columns, title="Probe sentences", title_justify="left")
        for entry in result["probes"]:
            value = entry["perplexity"]
            shown = f"{value:,.1f}" if math.isfinite(value) else "∞"
            counts = str(entry["tokens"]), str(entry["unknown"])
            probes.add_row(escape(entry["text"]), f"{entry['loss']:.3f}", shown, *counts)
        out.print(probes)
