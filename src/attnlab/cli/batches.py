"""What a model reads and is to predict, decoded for a person's eyes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from attnlab.cli.console import emit, out
from attnlab.config.schema import Config
from attnlab.config.visible_text import CONTROLS, visible
from attnlab.documents.nodes import Sentence, Tone, strong, toned
from attnlab.documents.terminal_text import STYLES

if TYPE_CHECKING:
    from torch import Tensor

    from attnlab.data.tokenizers.tokenizer import Tokenizer
    from attnlab.model.tokens import Tokens
    from attnlab.tasks.task import Prepared, Task

ROWS, LINES = 4, 4
SHOWN = CONTROLS | {ord(" "): "␣"}

Cell = tuple[str, str | None]
"""What is read, and what is to be predicted there; None where nothing is."""


def show(config: Config, *, json: bool) -> None:
    """Print the first rows of the first batch as the task prepares them."""
    rows = pairs(config)
    if json:
        return emit(rows)
    for number, row in enumerate(rows[:ROWS], start=1):
        out.say(strong(f"row {number}"))
        if "source" in row:
            out.show(Sentence(f"the encoder reads: {' '.join(row['source'])}"))
        targets = [wanted and visible(wanted) for wanted in row.get("target", [None] * len(row["input"]))]
        cells = list(zip(row["input"], targets, strict=True))
        for line, part in enumerate(wrapped(cells, out.width - 10)):
            if line == LINES:
                out.print("…")
                break
            show_line(part, predicted="target" in row)
        if "second" in row:
            out.show(Sentence(f"apart     {' '.join(row['second'])}"))
        if "label" in row:
            out.show(Sentence(toned(Tone.GOOD, f"label     {row['label']}")))
    if "label" in rows[0]:
        out.print("The label is predicted from all that is read.")
        return None
    out.print("Top row: input tokens. Bottom row: targets; · means no target.")
    return None


def show_line(cells: list[Cell], *, predicted: bool) -> None:
    reads, predicts = Text("reads     "), Text("predicts  ")
    for read, wanted in cells:
        width = max(cell_len(read), cell_len(wanted or "·")) + 1
        reads.append(set_cell_size(read, width))
        predicts.append(
            set_cell_size(wanted or "·", width), STYLES[Tone.MUTED if wanted is None else Tone.GOOD]
        )
    out.print(reads, no_wrap=True)
    if predicted:
        out.print(predicts, no_wrap=True)


def wrapped(cells: list[Cell], width: int) -> Iterator[list[Cell]]:
    """Cells in lines that fit the terminal."""
    line: list[Cell] = []
    used = 0
    for read, wanted in cells:
        size = max(cell_len(read), cell_len(wanted or "·")) + 1
        if line and used + size > width:
            yield line
            line, used = [], 0
        line.append((read, wanted))
        used += size
    if line:
        yield line


def label(task: Task, prepared: Prepared, line: int) -> str | float:
    """What is to be predicted of a row."""
    columns = task.truth(prepared) | {"targets": prepared.targets}
    return task.target.shown({name: column[line].tolist() for name, column in columns.items()}, task.labels)


def pairs(config: Config) -> list[dict[str, Any]]:
    """Every row of the first batch: its input tokens, and the target at each, None for none.

    Padding is left out.
    """
    from attnlab.config.streams import stream_seed
    from attnlab.data.inspection import readable
    from attnlab.session.session import Session, default_cache

    session = Session(config, cache=default_cache())
    _ = session.model  # what cannot be trained is refused, not shown
    prepared = session.task.prepare(
        next(iter(session.dataset.trained(config.seed))), stream_seed(config.seed, "masking", 0, 0)
    )
    pad = session.tokenizer.pad

    def text(token: int, tokenizer: Tokenizer = session.tokenizer.target) -> str:
        return (tokenizer.decode([token], specials=True) or tokenizer.token(token)).translate(SHOWN)

    def read(
        ids: Tensor, tokens: Tokens | None, line: int, text: Callable[[int], str]
    ) -> list[tuple[int, str]]:
        patch = None if tokens is None else tokens.patch
        patches = () if patch is None else patch.expand(len(ids), -1)[line].tolist()
        listed = ids[line].tolist()
        return [entry for entry in readable(listed, patches, text) if listed[entry[0]] != pad]

    rows = []
    for line in range(len(prepared.ids)):
        entries = read(prepared.ids, prepared.tokens, line, text)
        kept = [place for place, _ in entries]
        row: dict[str, Any] = {"input": [word for _, word in entries]}
        if prepared.second is not None:
            second = read(prepared.second, prepared.second_tokens, line, text)
            row["second"] = [word for _, word in second]
        if prepared.words is not None:
            names, tags = session.task.labels.names, prepared.targets[line].tolist()
            rows.append(row | {"target": [names[tags[i]] if tags[i] >= 0 else None for i in kept]})
            continue
        if prepared.of_examples:
            rows.append(row | {"label": label(session.task, prepared, line)})
            continue
        targets = prepared.targets[line].tolist()
        row["target"] = [text(targets[i]) if targets[i] >= 0 else None for i in kept]
        if prepared.source is not None:
            source = partial(text, tokenizer=session.tokenizer)
            entries = read(prepared.source, prepared.source_tokens, line, source)
            row["source"] = [word for _, word in entries]
        if prepared.tokens.source is not None:
            row["in_source"] = [bool(prepared.tokens.source[line, i]) for i in kept]
        rows.append(row)
    return rows
