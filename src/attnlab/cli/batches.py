"""What a model reads and is to predict, decoded for a person's eyes."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text

from attnlab.cli.console import emit, out
from attnlab.config.schema import Config

ROWS, COLUMNS = 4, 14


def show(config: Config, *, json: bool) -> None:
    """Print the first rows of the first batch as the objective prepares them."""
    rows = pairs(config)
    if json:
        return emit(rows)
    for number, row in enumerate(rows[:ROWS], start=1):
        if "source" in row:
            out.print(Text(f"row {number} · the encoder reads: {' '.join(row['source'])}"))
        tokens = list(zip(row["input"], row["target"], strict=True))
        for begin in range(0, min(len(tokens), 4 * COLUMNS), COLUMNS):
            out.print(block(tokens[begin : begin + COLUMNS], f"row {number}, from place {begin}"))
    out.print("Above: what the model reads. Below: what it is to predict there; · is no target.")
    return None


def pairs(config: Config) -> list[dict[str, Any]]:
    """Every row of the first batch: its input tokens, and the target at each, None for none."""
    from attnlab.config.streams import stream_seed
    from attnlab.experiment import default_cache, set_up

    setup = set_up(config, cache=default_cache())
    loader = setup.dataset.loader("train", seed=stream_seed(config.seed, "data"))
    prepared = setup.objective.prepare(next(iter(loader)), stream_seed(config.seed, "masking", 0, 0))
    token = setup.dataset.tokenizer.token
    rows = []
    for line, ids in enumerate(prepared.ids.tolist()):
        targets = prepared.targets[line].tolist()
        row: dict[str, Any] = {"input": [token(i) for i in ids]}
        row["target"] = [token(t) if t >= 0 else None for t in targets]
        if prepared.source is not None:
            row["source"] = [token(i) for i in prepared.source[line].tolist()]
        if prepared.tokens.source is not None:
            row["in_source"] = prepared.tokens.source[line].tolist()
        rows.append(row)
    return rows


def block(tokens: list[tuple[str, str | None]], title: str) -> Table:
    table = Table(title=title, title_justify="left", show_header=False, box=None, padding=(0, 1))
    table.add_row(*(Text(read) for read, _ in tokens))
    table.add_row(*(Text("·", "dim") if wanted is None else Text(wanted, "green") for _, wanted in tokens))
    return table
