"""`attnlab explain …`: what a config means before anything is trained, and what a model does inside."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from attnlab.cli.console import MOST, JsonOption, SetOption, emit, out
from attnlab.cli.explain_inside import attention, cost, gradients, heads, masked_positions, reach, scores
from attnlab.cli.explain_query import query, superposition
from attnlab.config.files import load
from attnlab.config.values import ConfigError, written
from attnlab.documents.nodes import Inline, Sentence, Table, TableColumn, TableRow, Tone, muted, toned

app = typer.Typer(help="Explain what a model is made of and what it does inside.", no_args_is_help=True)

MAY, MAY_NOT = toned(Tone.GOOD, "■"), muted("·")

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
    costs = count(model, length=length, source_length=length, batch=batch)
    if json:
        return emit(costs.as_json())
    letters = letters_in(term.formula for term in [*costs.parameters, *costs.flops])
    meanings = ", ".join(f"{letter} {meaning}" for letter, meaning in letters.items())
    out.show(_parameter_table(costs), _flops_table(costs), _memory_table(costs))
    out.show(Sentence(f"Letters: {meanings}."))
    return None


def _parameter_table(costs: Any) -> Table:
    rows = [TableRow((term.name, term.formula, term.count)) for term in costs.parameters]
    agrees = "= the model's own count" if costs.closed_form == costs.total else "≠ the model's own count!"
    rows.append(TableRow(("closed form", agrees, costs.closed_form), apart=True))
    if costs.closed_form != costs.total:
        rows.append(TableRow((toned(Tone.WRONG, "the model's own"), "", costs.total)))
    return Table(("part", "formula", "parameters"), rows, title="Parameters")


def _flops_table(costs: Any) -> Table:
    rows = [
        TableRow((term.name, term.formula, _short(term.count), f"{term.count / costs.forward:.1%}"))
        for term in costs.flops
    ]
    forward = costs.forward / costs.length
    rows.append(TableRow(("per token, forward", "", _short(forward), ""), apart=True))
    rows.append(TableRow(("per token, backward", "2 × forward", _short(2 * forward), "")))
    columns = ("part", "grows as", TableColumn("forward", right=True), TableColumn("share", right=True))
    title = f"Operations for one row of {costs.length} tokens (multiply and add counted separately)"
    return Table(columns, rows, title=title)


def _memory_table(costs: Any) -> Table:
    title = f"Memory of a training step, {costs.batch} × {costs.length} tokens, float32, AdamW"
    rows = [
        TableRow((name + " (estimate)" * (name == "activations"), _bytes(size)), apart=name == "total")
        for name, size in costs.memory.items()
    ]
    return Table(("part", TableColumn("bytes", right=True)), rows, title=title)


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
    out.show(
        _drawing(words, grid),
        Sentence(("Rows attend to columns. ", MAY, " may attend, ", MAY_NOT, " may not.")),
        Sentence(
            f"model.mask = {settings.model.mask}, model.attention = {written(settings.model.attention)}"
        ),
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
    columns = [TableColumn(), *(TableColumn(str(number), right=True) for number in range(len(words)))]
    rows: list[tuple[Inline, ...]] = [
        (f"{number} {word}", *(MAY if seen else MAY_NOT for seen in row))
        for number, (word, row) in enumerate(zip(words, grid, strict=True))
    ]
    return Table(columns, rows)


for command in (attention, heads, query, superposition, scores, reach, gradients, masked_positions, cost):
    app.command()(command)
