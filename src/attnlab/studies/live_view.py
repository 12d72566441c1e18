"""A study as it runs: a row a run on a terminal, a line a change elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from attnlab.documents.numbers import duration
from attnlab.documents.terminal import PlainConsole
from attnlab.runs.display import EVERY, Display, redraws
from attnlab.runs.follower import Follower

if TYPE_CHECKING:
    from attnlab.studies.engines.engine import Job, View

COLUMNS = ("arm", "seed", "state", "progress", "loss", "tokens/s", "left")
COLOURS = {"running": "cyan", "finished": "green", "failed": "bold red", "stopped": "yellow"}


@contextmanager
def live(console: PlainConsole | None = None, *, shown: bool = True) -> Iterator[View]:
    """A view of the work on stderr; stdout stays for results."""
    console = console or PlainConsole(stderr=True)
    if shown and redraws(console):
        with Live(Spinner("dots", "Preparing the text …"), console=console, refresh_per_second=4) as screen:
            yield TableView(screen)
        return
    with Display(console, shown=shown) as display:
        display.work("Preparing the text")
        yield LineView(display)


class LineView:
    """Says what changes, and now and then how far the runs are, where there is no terminal to draw on."""

    def __init__(self, display: Display) -> None:
        self.display = display
        self.seen: dict[str, str] = {}
        self.followers: dict[str, Follower] = {}

    def __call__(self, work: Sequence[Job]) -> None:
        done = sum(job.status in ("finished", "failed") for job in work)
        for job in work:
            before = self.seen.get(str(job.folder), "waiting")
            if job.status != before:
                self.seen[str(job.folder)] = job.status
                why = f": {job.result.reason}" if job.status == "failed" and job.result else ""
                self.display.say(f"[{done}/{len(work)}] {job.name}: {job.status}{why}")
        if self.display.silent_for >= EVERY / 2:  # the files are read only when a line is due
            self.display.update(f"[{done}/{len(work)}] " + ", ".join(map(self.state, running(work))))

    def state(self, job: Job) -> str:
        follower = self.followers.setdefault(str(job.folder), Follower(job.folder))
        follower.look()
        loss = "" if follower.loss is None else f", loss {follower.loss:.3f}"
        return f"{job.name}: {follower.progress:.0%}{loss}"


def running(work: Sequence[Job]) -> list[Job]:
    return [job for job in work if job.status == "running"]


class TableView:
    """A row a run: progress, loss, tokens per second, time left."""

    def __init__(self, screen: Live):
        self.screen = screen
        self.followers: dict[str, Follower] = {}

    def __call__(self, work: Sequence[Job]) -> None:
        for job in work:
            follower = self.followers.setdefault(str(job.folder), Follower(job.folder))
            if job.status == "running":
                follower.look()
        self.screen.update(self.table(work))

    def table(self, work: Sequence[Job]) -> Table:
        """Runs that go on or have failed, and as many others as there is room for."""
        room = max(4, self.screen.console.height - 6)
        first = ("running", "failed", "stopped")
        shown = sorted(work, key=lambda job: job.status not in first)[:room]
        done = sum(job.status in ("finished", "failed") for job in work)
        table = Table(*COLUMNS, title=f"{done} of {len(work)} runs")
        for job in (t for t in work if t in shown):
            table.add_row(*row(job, self.followers[str(job.folder)]))
        return table


def row(job: Job, follower: Follower) -> tuple[Any, ...]:
    colour = COLOURS.get(job.status, "dim")
    share = 1.0 if job.status == "finished" else follower.progress
    bar = ProgressBar(total=1.0, completed=share, width=24)
    state = Text(job.status, colour)
    loss = "" if follower.loss is None else f"{follower.loss:.3f}"
    speed = "" if follower.tokens_per_second is None else f"{follower.tokens_per_second:,.0f}"
    return job.arm, str(job.seed), state, bar, loss, speed, time_left(job, follower)


def time_left(job: Job, follower: Follower) -> str:
    if job.status != "running" or follower.seconds_left is None:
        return ""
    if follower.progress >= 1:
        return "measuring"
    return duration(follower.seconds_left, decimals=0)
