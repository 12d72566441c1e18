"""Tokens for a person's eyes: their borders show, and no line ends inside of one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from rich.cells import cell_len
from rich.padding import Padding
from rich.text import Text

from attnlab.cli.console import out
from attnlab.config.visible_text import visible

MARGIN = 2
SHADES = ("black on cyan", "black on bright_cyan")

Piece = tuple[str, str]
"""Text that stays in one line if it can, and its style."""


def show_pieces(pieces: Iterable[Piece]) -> None:
    out.print(Padding(in_lines(pieces, out.width - 2 * MARGIN), (0, MARGIN)))


def segmented(tokens: Sequence[str], special: Sequence[bool] = ()) -> Iterator[Piece]:
    """Tokens in two shades by turns, special ones in a third; bars between them without colours."""
    last = len(tokens) - 1
    for number, (token, stands_out) in enumerate(zip_longest(tokens, special[: len(tokens)])):
        bar = "|" if out.color_system is None and number < last else ""
        yield visible(token) + bar, "bold magenta" if stands_out else SHADES[number % 2]


def in_lines(pieces: Iterable[Piece], width: int) -> Text:
    """Pieces one after another; one that does not fit begins the next line."""
    text, used = Text(), 0
    for piece, style in pieces:
        size = cell_len(piece)
        if used and used + size > width:
            text.append("\n")
            used = 0
        text.append(piece, style)
        used += size if size <= width else size % width  # one that no line holds is folded
    return text
