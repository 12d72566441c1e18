"""A study as it runs: a row a run on a terminal, a line a change elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table

from attnlab.cli.console import err
from attnlab.runs.follower import Follower

if TYPE_CHECKING:
    from attnlab.studies.pool import Job, View

COLUMNS = ("arm", "seed", "state", "progress", "loss", "tokens/s", "left")
COLOURS = {"running": "cyan", "finished": "green", "failed": "bold red", "stopped": "yellow"}


@contextmanager
def live() -> Iterator[View]:
    """A view of the work on stderr; stdout stays for results."""
    preparing = "Preparing the text …"
    if not err.is_terminal:
        err.print(preparing)
        yield LineView()
        return
    with Live(Spinner("dots", preparing), console=err, refresh_per_second=4) as screen:
        yield TableView(screen)


class LineView:
    """Says what changes, where there is no terminal to draw on."""

    def __init__(self) -> None:
        self.seen: dict[str, str] = {}

    def __call__(self, work: Sequence[Job]) -> None:
        for job in work:
            before = self.seen.get(str(job.folder), "waiting")
            if job.status != before:
                self.seen[str(job.folder)] = job.status
                done = sum(t.status in ("finished", "failed") for t in work)
                why = f": {job.result.reason}" if job.status == "failed" and job.result else ""
                err.print(
                    f"[{done}/{len(work)}] {job.name}: {job.status}{why}",
                    highlight=False,
                    markup=False,
                    soft_wrap=True,
                )


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
    state = f"[{colour}]{job.status}[/]"
    loss = "" if follower.loss is None else f"{follower.loss:.3f}"
    speed = "" if follower.tokens_per_second is None else f"{follower.tokens_per_second:,.0f}"
    return job.arm, str(job.seed), state, bar, loss, speed, time_left(job, follower)


def time_left(job: Job, follower: Follower) -> str:
    if job.status != "running" or follower.seconds_left is None:
        return ""
    if follower.progress >= 1:
        return "measuring"
    seconds = round(follower.seconds_left)
    return f"{seconds // 60}:{seconds % 60:02d}"
