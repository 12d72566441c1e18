"""`attnlab explain …`: what a config means before anything is trained, and what a model does inside."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from attnlab.cli.console import MOST, JsonOption, SetOption, emit, out
from attnlab.cli.explain_attention import attention, heads
from attnlab.cli.explain_inside import cost, gradients, masked_positions, reach, scores
from attnlab.cli.explain_query import query, superposition
from attnlab.config.files import load
from attnlab.config.values import ConfigError, written
from attnlab.config.visible_text import visible
from attnlab.runs.display import escape

app = typer.Typer(help="Explain what a model is made of and what it does inside.", no_args_is_help=True)

ConfigArgument = Annotated[str | None, typer.Argument(help="A TOML file or a preset (gpt2, bert, …).")]


@app.command()
def counts(
    config: ConfigArgument = None,
    set: SetOption = None,
    batch: Annotated[
        int, typer.Option(help="Rows of a training step, for its activations.", min=1, max=MOST)
    ] = 32,
    json: JsonOption = False,
) -> None:
    """Count parameters, operations and memory, term by term, in closed form."""
    settings = load(config, set=set or ())
    from attnlab.model.assemble import build_model
    from attnlab.model.counts import count
    from attnlab.model.terms import letters_in
    from attnlab.session.session import draft_settings

    model = build_model(draft_settings(settings), device="meta")
    length = settings.model.length
    found = count(model, length=length, source_length=length, batch=batch)
    if json:
        return emit(found.as_json())
    out.print(_parameter_table(found))
    out.print(_flops_table(found))
    out.print(_memory_table(found))
    letters = letters_in(term.formula for term in [*found.parameters, *found.flops])
    out.print("Letters: " + ", ".join(f"{letter} {meaning}" for letter, meaning in letters.items()) + ".")
    return None


def _parameter_table(found: Any) -> Table:
    table = Table(
        "part", "formula", "parameters", title="Parameters", title_justify="left", title_style="bold"
    )
    table.columns[2].justify = "right"
    for term in found.parameters:
        table.add_row(term.name, term.formula, f"{term.count:,}")
    table.add_section()
    agrees = "= the model's own count" if found.closed_form == found.total else "≠ the model's own count!"
    table.add_row("closed form", agrees, f"[bold]{found.closed_form:,}[/]")
    if found.closed_form != found.total:
        table.add_row("the model's own", "", f"[bold red]{found.total:,}[/]")
    return table


def _flops_table(found: Any) -> Table:
    title = f"Operations for one row of {found.length} tokens (multiply and add counted separately)"
    table = Table(
        "part", "grows as", "forward", "share", title=title, title_justify="left", title_style="bold"
    )
    table.columns[2].justify = table.columns[3].justify = "right"
    for term in found.flops:
        table.add_row(term.name, term.formula, _short(term.count), f"{term.count / found.forward:.1%}")
    table.add_section()
    table.add_row("per token, forward", "", _short(found.forward / found.length), "")
    table.add_row("per token, backward", "2 × forward", _short(2 * found.forward / found.length), "")
    return table


def _memory_table(found: Any) -> Table:
    title = f"Memory of a training step, {found.batch} × {found.length} tokens, float32, AdamW"
    table = Table("part", "bytes", title=title, title_justify="left", title_style="bold")
    table.columns[1].justify = "right"
    for name, size in found.memory.items():
        label = "activations (estimate)" if name == "activations" else name
        table.add_row(f"[bold]{label}[/]" if name == "total" else label, _bytes(size))
    return table


def _short(number: float) -> str:
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.2f} {letter}"
    return f"{number:.0f}"


def _bytes(number: float) -> str:
    for size, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number} B"


@app.command()
def mask(
    config: ConfigArgument = None,
    set: SetOption = None,
    text: Annotated[str, typer.Option(help="Words separated by spaces; | ends the source.")] = "",
    documents: Annotated[str, typer.Option(help="Lengths of packed documents, e.g. 4,3.")] = "",
    padding: Annotated[int, typer.Option(help="Number of padding tokens on the left.", min=0, max=1000)] = 0,
    json: JsonOption = False,
) -> None:
    """Draw which positions may attend to which: mask, attention layout, padding, documents."""
    settings = load(config, set=set or ())
    words, source = _words(text)
    lengths = _lengths(documents, len(words))
    import torch

    from attnlab.model.assemble import build_model
    from attnlab.model.tokens import Tokens
    from attnlab.session.session import draft_settings

    trunk = build_model(draft_settings(settings), device="meta").trunk
    words = ["[PAD]"] * padding + words
    lengths[:1] = [length + padding for length in lengths[:1]]  # padding goes with the first document
    real = (torch.arange(len(words)) >= padding)[None] if padding else None
    ids = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths)) if lengths else None
    tokens = Tokens.of(
        len(words),
        real=real,
        source=((torch.arange(len(words)) >= padding) & (torch.arange(len(words)) < padding + source))[None],
        document=None if ids is None else ids[None],
    )
    grid = trunk.ways(tokens)[0].near.tolist()
    if json:
        return emit({"words": words, "source": source, "may_attend": grid})
    out.print(_drawing(words, grid))
    shown = f"model.mask = {settings.model.mask}, model.attention = {written(settings.model.attention)}"
    out.print(
        f"Rows attend to columns. [green]■[/] may attend, [dim]·[/] may not.\n{escape(shown)}",
        highlight=False,
    )
    return None


def _words(text: str) -> tuple[list[str], int]:
    """The words, and how many of them stand before the bar."""
    default = "Jill Birt [MASK] outdoor activities | He was [MASK] hiking"
    before, bar, after = (text or default).partition("|")
    words = before.split() + after.split()
    if not words:
        raise ConfigError('--text has no words; write for example --text "the cat | le chat".')
    if len(words) > 40:
        raise ConfigError(f"--text has {len(words)} words; a drawing of more than 40 cannot be read.")
    return words, len(before.split()) if bar else 0


def _lengths(documents: str, total: int) -> list[int]:
    if not documents:
        return []
    try:
        lengths = [int(part) for part in documents.split(",")]
    except ValueError:
        lengths = [0]
    if min(lengths) < 1 or sum(lengths) != total:
        raise ConfigError(f"--documents {documents} must be whole lengths that add up to {total} words.")
    return lengths


def _drawing(words: list[str], grid: list[list[bool]]) -> Table:
    table = Table(show_header=True, header_style="", box=None, padding=(0, 1))
    table.add_column("")
    for number in range(len(words)):
        table.add_column(str(number), justify="center")
    for number, (word, row) in enumerate(zip(words, grid, strict=True)):
        marks = [Text("■", "green") if seen else Text("·", "dim") for seen in row]
        table.add_row(Text(f"{number} {visible(word)}"), *marks)
    return table


for command in (attention, heads, query, superposition, scores, reach, gradients, masked_positions, cost):
    app.command()(command)
