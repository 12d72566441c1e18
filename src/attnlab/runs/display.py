"""What is being done, on stderr: a moving line in a terminal or notebook, elsewhere a line now and then."""

from __future__ import annotations

import threading
import time
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console

from attnlab.documents.nodes import Inline
from attnlab.documents.terminal import PlainConsole

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

EVERY = 10.0
"""Seconds without a word after which a line says what is being done, where nothing can be redrawn."""


class Display:
    """One piece of work after another, each with its name and, where it is known, how much of it is done.

    `shown=False` says nothing at all. What is said is never on stdout, which is for results.
    """

    def __init__(self, console: PlainConsole | None = None, *, shown: bool = True, every: float = EVERY):
        self.console = console or PlainConsole(stderr=True)
        self.shown, self.every = shown, every
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._doing, self._began, self._spoke = "", time.monotonic(), time.monotonic()
        self._ended = threading.Event()

    def __enter__(self) -> Display:
        if self.shown and redraws(self.console):
            from attnlab.documents.live_terminal import work_progress

            self._bar = work_progress(self.console)
            self._bar.start()
        elif self.shown:
            threading.Thread(target=self._speak, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._bar is not None:
            self._bar.stop()

    def work(self, text: str) -> None:
        """What begins now; it takes the place of what was done before."""
        self._doing, self._began = text, time.monotonic()
        if self._bar is not None:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task(f"{text} …", total=None)

    def update(self, text: str, share: float | None = None) -> None:
        """How far it is: in words, and as a share of the whole."""
        self._doing = text
        if self._bar is not None and self._task is not None:
            total = None if share is None else 1.0
            self._bar.update(self._task, description=text, completed=share or 0.0, total=total)

    def say(self, *parts: Inline) -> None:
        """A line that stays."""
        if self.shown:
            self.console.say(*parts)
            self._spoke = time.monotonic()

    @property
    def silent_for(self) -> float:
        """Seconds since the last line."""
        return time.monotonic() - self._spoke

    def preparing(self, work: str) -> PreparationProgress:
        """The progress of text that is being made ready; `work` says for what."""
        self.work(work)
        return PreparationProgress(self, work)

    def counting(self, rows: int, share: float | None) -> None:
        """The progress of a text whose rows are being counted."""
        read = "" if share is None else f" ({share:.0%} of the text)"
        self.update(f"Counting rows, classes and duplicates: {rows:,} rows{read}", share)

    def _speak(self) -> None:
        while not self._ended.wait(min(self.every, 0.5)):
            if self._doing and self.silent_for >= self.every:
                self.say(f"{self._doing} … {time.monotonic() - self._began:.0f} s")


class PreparationProgress:
    """Rows and tokens, as they are counted."""

    def __init__(self, display: Display, work: str):
        self.display, self.work = display, work

    def __call__(self, rows: int, tokens: int, share: float | None = None) -> None:
        counted = f"{rows:,} rows" + (f", {tokens:,} tokens" if tokens else "")
        read = "" if share is None else f" ({share:.0%} of the text)"
        self.display.update(f"{self.work}: {counted}{read}", share)


def redraws(console: Console) -> bool:
    """Whether a line can be drawn anew; in a notebook, rich needs its widgets for it."""
    return console.is_terminal or (console.is_jupyter and find_spec("ipywidgets") is not None)
