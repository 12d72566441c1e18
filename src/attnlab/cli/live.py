"""A study as it runs: a row a run on a terminal, a line a change elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table

from attnlab.cli.console import err

if TYPE_CHECKING:
    from attnlab.studies.pool import Job, View

KEEP = 0.95  # of what was seen before: a few dozen steps decide the speed that is shown
COLUMNS = ("arm", "seed", "state", "progress", "loss", "tokens/s", "left")
COLOURS = {"running": "cyan", "finished": "green", "failed": "bold red", "stopped": "yellow"}


class Follower:
    """Reads a run's metrics.jsonl as it grows."""

    def __init__(self, job: Job):
        self.job, self.place = job, 0
        self.progress = self.seconds = self.tokens = self.spent = 0.0
        self.loss = ""

    def look(self) -> None:
        try:
            with (self.job.folder / "metrics.jsonl").open("rb") as stream:
                stream.seek(self.place)
                text = stream.read()
        except FileNotFoundError:
            return
        whole = text[: text.rfind(b"\n") + 1]  # a line that is being written is read the next time
        self.place += len(whole)
        for line in whole.splitlines():
            self.take(json.loads(line))

    def take(self, event: dict[str, Any]) -> None:
        if event["event"] == "stepped":
            self.progress, self.loss = event["progress"], f"{event['loss']:.3f}"
            self.seconds = KEEP * self.seconds + event["seconds"]
            self.tokens = KEEP * self.tokens + event["tokens"]
            self.spent += event["seconds"]

    @property
    def speed(self) -> str:
        return f"{self.tokens / self.seconds:,.0f}" if self.seconds else ""

    @property
    def left(self) -> str:
        if self.job.status != "running" or not self.progress:
            return ""
        if self.progress >= 1:
            return "measuring"
        seconds = round(self.spent / self.progress * (1 - self.progress))
        return f"{seconds // 60}:{seconds % 60:02d}"


@contextmanager
def live() -> Iterator[View]:
    """A view of the work on stderr; stdout stays for results."""
    preparing = "Preparing the text …"
    if not err.is_terminal:
        err.print(preparing)
        yield Lines()
        return
    with Live(Spinner("dots", preparing), console=err, refresh_per_second=4) as screen:
        yield Rows(screen)


class Lines:
    """Says what changes, where there is no terminal to draw on."""

    def __init__(self) -> None:
        self.seen: dict[str, str] = {}

    def __call__(self, work: Sequence[Job]) -> None:
        for job in work:
            before = self.seen.get(str(job.folder), "waiting")
            if job.status != before:
                self.seen[str(job.folder)] = job.status
                done = sum(t.status in ("finished", "failed") for t in work)
                why = f": {job.result['reason']}" if job.status == "failed" else ""
                err.print(
                    f"[{done}/{len(work)}] {job.name}: {job.status}{why}",
                    highlight=False,
                    markup=False,
                    soft_wrap=True,
                )


class Rows:
    """A row a run: progress, loss, tokens a second, time left."""

    def __init__(self, screen: Live):
        self.screen = screen
        self.followers: dict[str, Follower] = {}

    def __call__(self, work: Sequence[Job]) -> None:
        for job in work:
            follower = self.followers.setdefault(str(job.folder), Follower(job))
            follower.job = job
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
            table.add_row(*self.row(self.followers[str(job.folder)]))
        return table

    @staticmethod
    def row(follower: Follower) -> tuple[Any, ...]:
        job = follower.job
        colour = COLOURS.get(job.status, "dim")
        share = 1.0 if job.status == "finished" else follower.progress
        bar = ProgressBar(total=1.0, completed=share, width=24)
        state = f"[{colour}]{job.status}[/]"
        return job.arm, str(job.seed), state, bar, follower.loss, follower.speed, follower.left
