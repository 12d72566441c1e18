"""A study as it runs: a row a run on a terminal, a line a change elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from attnlab.documents.live_terminal import LiveNodes, live_nodes
from attnlab.documents.nodes import Bar, Inline, Number, Sentence, Table, TableColumn, muted, state
from attnlab.documents.numbers import duration
from attnlab.documents.terminal import PlainConsole
from attnlab.runs.display import EVERY, Display, redraws
from attnlab.runs.follower import Follower

if TYPE_CHECKING:
    from attnlab.studies.engines.engine import Job, View

COLUMNS = ("arm", "seed", "state", "progress", "loss", "tokens/s", TableColumn("left", right=True))
BAR = 0.5
"""Of the length that bars elsewhere have: seven columns share 80."""


@contextmanager
def live(console: PlainConsole | None = None, *, shown: bool = True) -> Iterator[View]:
    """A view of the work on stderr; stdout stays for results."""
    console = console or PlainConsole(stderr=True)
    if shown and redraws(console):
        with live_nodes(console, Sentence("Preparing the text …")) as screen:
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
            if job.shown != before:
                self.seen[str(job.folder)] = job.shown
                why = f": {job.result.reason}" if job.status == "failed" and job.result else ""
                self.display.say(f"[{done}/{len(work)}] {job.name}: {job.shown}{why}")
        if self.display.silent_for >= EVERY / 2:  # the files are read only when a line is due
            states = ", ".join(map(self.state, running(work))) or "waiting for room"
            self.display.update(f"[{done}/{len(work)}] {states}")

    def state(self, job: Job) -> str:
        follower = self.followers.setdefault(str(job.folder), Follower(job.folder))
        follower.look()
        loss = "" if follower.loss is None else f", loss {follower.loss:.3f}"
        return f"{job.name}: {follower.progress:.0%}{loss}"


def running(work: Sequence[Job]) -> list[Job]:
    return [job for job in work if job.shown == "running"]


class TableView:
    """A row a run: progress, loss, tokens per second, time left."""

    def __init__(self, screen: LiveNodes):
        self.screen = screen
        self.followers: dict[str, Follower] = {}

    def __call__(self, work: Sequence[Job]) -> None:
        for job in work:
            follower = self.followers.setdefault(str(job.folder), Follower(job.folder))
            if job.status == "running":
                follower.look()
        self.screen.show(self.table(work))

    def table(self, work: Sequence[Job]) -> Table:
        """Runs that go on or have failed, and as many others as there is room for."""
        room = max(4, self.screen.console.height - 6)
        first = ("running", "failed", "stopped")
        shown = sorted(work, key=lambda job: job.shown not in first)[:room]
        done = sum(job.status in ("finished", "failed") for job in work)
        rows = [row(job, self.followers[str(job.folder)]) for job in work if job in shown]
        return Table(COLUMNS, rows, title=f"{done} of {len(work)} runs")


def row(job: Job, follower: Follower) -> tuple[Inline, ...]:
    share = 1.0 if job.status == "finished" else follower.progress
    progress = (Bar(share, room=BAR), muted(f" {share:.0%}")) if share else ""
    loss, speed = Number(follower.loss, decimals=3), Number(follower.tokens_per_second, decimals=0)
    return job.arm, job.seed, state(job.shown), progress, loss, speed, time_left(job, follower)


def time_left(job: Job, follower: Follower) -> str:
    if job.shown != "running" or follower.seconds_left is None:
        return ""
    if follower.progress >= 1:
        return "measuring"
    return duration(follower.seconds_left, decimals=0)
