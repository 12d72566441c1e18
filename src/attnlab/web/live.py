"""What viewers see as it changes: one computation for all who look at the same, sent as server-sent events.

A topic is a page's live regions, pieces of HTML (or of a plot's data) by their names. Only regions that
changed are sent; who comes back after a while gets all that changed meanwhile.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from secrets import token_hex
from typing import TypeVar

from fastapi.responses import HTMLResponse

from attnlab.config.values import ConfigError
from attnlab.runs.faults import RunError
from attnlab.web.index import PAUSES, Index

LOOK, RAREST = 0.4, 0.8
"""Seconds between two looks at the folder, while anybody watches: the longer a look takes, the more."""
FRESH = 0.2
"""Seconds for which a page that was made for one is what the next one gets; longer where making it takes
long."""
OFTEN = 1.0
"""Seconds between two changes of a page, so that it can be read; a change of state is shown at once."""
SLOWEST = 5.0
"""Seconds after which regions are computed anew though no file has changed: they tell of time, too."""
ALIVE = 15.0
KEPT = 256
"""Topics without viewers that are remembered, so that who comes back is told only what changed."""

LOGGER = logging.getLogger("uvicorn.error")
"""On stderr, where the server's own warnings go."""

Regions = Mapping[str, str]
Made = TypeVar("Made")


class Shown(dict[str, str]):
    """The regions of a page at one moment. `mark` stands for it: what changes later is sent."""

    mark = ""


@dataclass(frozen=True)
class RenderedPage:
    """A whole page, what it was made of, and when that was computed."""

    html: bytes
    mark: str
    key: object
    at: float


@dataclass
class Topic:
    """The regions of one page. `regions` computes them; it may take a while, and runs in a thread."""

    name: str
    regions: Callable[[], Regions]
    known: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Each region with the number of its last change."""
    viewers: set[asyncio.Event] = field(default_factory=set)
    computed_at: float = 0.0
    seconds: float = 0.0
    """Processor time that it took."""
    stale: bool = False
    """Whether files have changed since it was computed."""
    latest: int = 0
    """The number of the last change."""
    rendered: RenderedPage | None = None
    making: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while its whole page is made."""
    computing: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while its regions are computed: what began later must not be followed by what began before."""
    _encoded: dict[int, bytes] = field(default_factory=dict)

    def update(self, regions: Regions, number: int) -> bool:
        """Whether anything is another than before."""
        self.computed_at = time.monotonic()
        now = dict.fromkeys(self.known, "") | dict(regions)  # viewers empty what is there no more
        changed = {name: html for name, html in now.items() if self.known.get(name, (0, None))[1] != html}
        self.known |= {name: (number, html) for name, html in changed.items()}
        if changed:
            self._encoded.clear()
            self.latest = number
        return bool(changed)

    def since(self, number: int, server: str) -> bytes:
        """The event that tells of the regions that changed after a number; made once for all who ask."""
        if number not in self._encoded:
            changed = {name: html for name, (at, html) in self.known.items() if at > number}
            content = json.dumps(changed, ensure_ascii=False)
            event = f"id: {server}-{self.latest}\nevent: regions\ndata: {content}\n\n"
            self._encoded[number] = event.encode()
        return self._encoded[number]


class Live:
    """All topics, and the loop that looks at the folder while anybody watches."""

    def __init__(self, index: Index):
        self.index = index
        self.topics: dict[str, Topic] = {}
        self.server = token_hex(4)
        """Numbers of another server mean nothing here."""
        self._numbers = itertools.count(1)
        self._working: set[asyncio.Task[RenderedPage]] = set()
        self._watched = asyncio.Event()
        self._closed = False

    def topic(self, name: str, regions: Callable[[], Regions]) -> Topic:
        if name not in self.topics:
            unwatched = [topic.name for topic in self.topics.values() if not topic.viewers]
            for old in unwatched[: max(0, len(unwatched) - KEPT)]:
                del self.topics[old]
            self.topics[name] = Topic(name, regions)
        self.topics[name] = self.topics.pop(name)  # the latest last
        return self.topics[name]

    def close(self) -> None:
        """End all streams: pages come back by themselves where there is a server again."""
        self._closed = True
        for topic in self.topics.values():
            for viewer in topic.viewers:
                viewer.set()

    async def page(self, topic: Topic, render: Callable[[Shown], str], *, key: object = None) -> HTMLResponse:
        """The whole page as it was at most a second ago: its events tell what came since. One that is not
        quite new is made again behind the back of who asks. `key` stands for what else it is made of."""
        known = topic.rendered
        age = time.monotonic() - known.at if known is not None and known.key == key else OFTEN
        if known is None or age >= OFTEN:
            return HTMLResponse((await self._made(topic, render, key)).html)
        if age >= self._pause(topic) and not topic.making.locked():
            task = asyncio.create_task(self._made(topic, render, key))
            self._working.add(task)
            task.add_done_callback(self._done)
        return HTMLResponse(known.html)

    def _pause(self, topic: Topic) -> float:
        """Seconds for which a page is new: the longer it takes to make, the more."""
        return min(OFTEN / 2, max(FRESH, PAUSES * (topic.seconds + self.index.seconds)))

    def _done(self, task: asyncio.Task[RenderedPage]) -> None:
        """What went wrong behind somebody's back is told to the next one who asks."""
        self._working.discard(task)
        if not task.cancelled():
            task.exception()

    async def _made(self, topic: Topic, render: Callable[[Shown], str], key: object) -> RenderedPage:
        async with topic.making:
            pause = self._pause(topic)
            if time.monotonic() - topic.computed_at > pause:
                await asyncio.to_thread(self.index.look, pause)
                await self._compute(topic)
            shown, at = Shown({name: html for name, (_, html) in topic.known.items()}), topic.computed_at
            shown.mark = f"{self.server}-{topic.latest}"
            known = topic.rendered
            if known is not None and (known.mark, known.key) == (shown.mark, key):
                made = replace(known, at=at)
            else:
                html, seconds = await asyncio.to_thread(timed, lambda: render(shown))
                topic.seconds += seconds
                made = RenderedPage(html.encode(), shown.mark, key, at)
            topic.rendered = made
            return made

    async def _compute(self, topic: Topic) -> None:
        async with topic.computing:
            topic.stale = False  # what changes from now on is not in it
            regions, topic.seconds = await asyncio.to_thread(timed, topic.regions)
            self._tell(topic, regions)

    def _tell(self, topic: Topic, regions: Regions) -> None:
        if topic.update(regions, next(self._numbers)):
            for viewer in topic.viewers:
                viewer.set()

    async def run(self) -> None:
        """Look again and again, while anybody watches. What goes wrong is logged, and looked at again."""
        seen, turns = -1, -1
        while True:
            await self._watched.wait()
            try:
                await asyncio.to_thread(self.index.refresh)
                changed, seen = self.index.version != seen, self.index.version  # whoever found it
                turned, turns = self.index.turns != turns, self.index.turns
                await self._compute_watched(changed=changed, turned=turned)
            except Exception:
                LOGGER.exception("A look at the folder failed.")
            await asyncio.sleep(min(RAREST, max(LOOK, PAUSES * self.index.seconds)))
            if not any(topic.viewers for topic in self.topics.values()):
                self._watched.clear()

    async def _compute_watched(self, *, changed: bool, turned: bool) -> None:
        """What is looked at, where it is time to; what is not is computed when somebody looks again."""
        for topic in self.topics.values():
            topic.stale |= changed
        for topic in [topic for topic in self.topics.values() if topic.viewers]:
            waited = time.monotonic() - topic.computed_at
            if turned or (topic.stale and waited >= OFTEN) or waited > SLOWEST:
                try:
                    await self._compute(topic)
                except (ConfigError, RunError, OSError) as error:  # what was looked at is gone
                    self._tell(topic, {"headline": str(error)})
                except Exception:
                    topic.computed_at, topic.stale = time.monotonic(), False
                    LOGGER.exception("%s cannot be shown.", topic.name)

    async def events(self, topic: Topic, after: str) -> AsyncIterator[bytes]:
        """What changes from now on, for one viewer, and first what changed since the mark of its page."""
        server, _, number = after.partition("-")
        seen = int(number[:18]) if server == self.server and number.isdecimal() else 0
        woken = asyncio.Event()
        woken.set()
        topic.viewers.add(woken)
        self._watched.set()
        try:
            yield b"retry: 1000\n\n"
            while True:
                try:
                    await asyncio.wait_for(woken.wait(), ALIVE)
                except TimeoutError:
                    yield b": alive\n\n"
                    continue
                if self._closed:
                    return
                woken.clear()
                if topic.latest > seen:
                    event, seen = topic.since(seen, self.server), topic.latest
                    yield event
        finally:
            topic.viewers.discard(woken)


def timed(work: Callable[[], Made]) -> tuple[Made, float]:
    """What it makes, and the processor time of that."""
    began = time.thread_time()
    return work(), time.thread_time() - began
