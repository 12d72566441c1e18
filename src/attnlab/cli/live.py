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
    from attnlab.studies.pool import Task, View

KEEP = 0.95  # of what was seen before: a few dozen steps decide the speed that is shown
COLUMNS = ("arm", "seed", "state", "progress", "loss", "tokens/s", "left")
COLOURS = {"running": "cyan", "finished": "green", "failed": "bold red", "stopped": "yellow"}


class Follower:
    """Reads a run's metrics.jsonl as it grows."""

    def __init__(self, task: Task):
        self.task, self.place = task, 0
        self.progress = self.seconds = self.tokens = self.spent = 0.0
        self.loss = ""

    def look(self) -> None:
        try:
            with (self.task.folder / "metrics.jsonl").open("rb") as stream:
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
        if self.task.status != "running" or not self.progress:
            return ""
        if self.progress >= 1:
            return "measuring"
        seconds = round(self.spent / self.progress * (1 - self.progress))
        return f"{seconds // 60}:{seconds % 60:02d}"


@contextmanager
def live() -> Iterator[View]:
    """A view of the tasks on stderr; stdout stays for results."""
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

    def __call__(self, tasks: Sequence[Task]) -> None:
        for task in tasks:
            before = self.seen.get(str(task.folder), "waiting")
            if task.status != before:
                self.seen[str(task.folder)] = task.status
                done = sum(t.status in ("finished", "failed") for t in tasks)
                why = f": {task.result['reason']}" if task.status == "failed" else ""
                err.print(
                    f"[{done}/{len(tasks)}] {task.name}: {task.status}{why}",
                    highlight=False,
                    markup=False,
                    soft_wrap=True,
                )


class Rows:
    """A row a run: progress, loss, tokens a second, time left."""

    def __init__(self, screen: Live):
        self.screen = screen
        self.followers: dict[str, Follower] = {}

    def __call__(self, tasks: Sequence[Task]) -> None:
        for task in tasks:
            follower = self.followers.setdefault(str(task.folder), Follower(task))
            follower.task = task
            if task.status == "running":
                follower.look()
        self.screen.update(self.table(tasks))

    def table(self, tasks: Sequence[Task]) -> Table:
        """Runs that go on or have failed, and as many others as there is room for."""
        room = max(4, self.screen.console.height - 6)
        first = ("running", "failed", "stopped")
        shown = sorted(tasks, key=lambda task: task.status not in first)[:room]
        done = sum(task.status in ("finished", "failed") for task in tasks)
        table = Table(*COLUMNS, title=f"{done} of {len(tasks)} runs")
        for task in (t for t in tasks if t in shown):
            table.add_row(*self.row(self.followers[str(task.folder)]))
        return table

    @staticmethod
    def row(follower: Follower) -> tuple[Any, ...]:
        task = follower.task
        colour = COLOURS.get(task.status, "dim")
        share = 1.0 if task.status == "finished" else follower.progress
        bar = ProgressBar(total=1.0, completed=share, width=24)
        state = f"[{colour}]{task.status}[/]"
        return task.arm, str(task.seed), state, bar, follower.loss, follower.speed, follower.left
