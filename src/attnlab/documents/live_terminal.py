"""What is drawn anew in its place on a terminal: nodes that change, and how far a piece of work is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.progress_bar import ProgressBar
from rich.text import Text

from attnlab.documents.nodes import Node
from attnlab.documents.numbers import duration
from attnlab.documents.palette import SURFACES, on_any_ground
from attnlab.documents.terminal import PlainConsole, pieces
from attnlab.documents.terminal_text import BAR_COLOUR, MUTED

TRACK = on_any_ground(SURFACES["rule-strong"])
A_SECOND = 4
"""Drawings a second, at most."""


class LiveNodes:
    """Nodes of which only the last drawing is seen."""

    def __init__(self, live: Live, console: PlainConsole) -> None:
        self.live, self.console = live, console

    def show(self, *shown: Node) -> None:
        self.live.update(Group(*(piece for node in shown for piece in pieces(node, self.console))))


@contextmanager
def live_nodes(console: PlainConsole, *first: Node, transient: bool = False) -> Iterator[LiveNodes]:
    """A place on the terminal for nodes that change; a transient one is empty in the end."""
    live = Live(console=console, refresh_per_second=A_SECOND, transient=transient)
    with live:
        screen = LiveNodes(live, console)
        screen.show(*first)
        yield screen


class KnownBar(BarColumn):
    """A bar where the length of the work is known; else its words alone."""

    def __init__(self) -> None:
        super().__init__(20, style=TRACK, complete_style=BAR_COLOUR, finished_style=BAR_COLOUR)

    def render(self, task: Task) -> ProgressBar:
        bar = super().render(task)
        if task.total is None:
            bar.width, bar.pulse = 0, False
        return bar


class TimeLeft(ProgressColumn):
    """2 min 10 s left, once it can be told."""

    def render(self, task: Task) -> Text:
        left = task.time_remaining if task.total is not None else None
        return Text("" if left is None else f"{duration(left, 0)} left", MUTED)


def work_progress(console: PlainConsole) -> Progress:
    """One line for each piece of work, gone when it is done."""
    columns: Sequence[ProgressColumn] = (
        TextColumn("{task.description}", markup=False),
        KnownBar(),
        TimeLeft(),
    )
    return Progress(*columns, console=console, transient=True)
