"""What viewers are told, and when a page is made: without a server, on an index that says what changed."""

from __future__ import annotations

import asyncio
import json
import threading
import time

import pytest

from attnlab.config.values import ConfigError
from attnlab.web import live as module
from attnlab.web.live import Live


class ToldIndex:
    """An index whose version a test sets."""

    version = turns = 0
    seconds = 0.0

    def look(self, seconds):
        pass

    def refresh(self):
        return set()


def shown_html(shown):
    return json.dumps({"mark": shown.mark, **shown})


async def first_of(events):
    async for event in events:
        if b"data: " in event:
            return json.loads(event.partition(b"data: ")[2])
    return None


def test_who_asks_while_a_page_is_made_gets_the_one_before():
    async def asked():
        live, value, slow = Live(ToldIndex()), ["old"], threading.Event()

        def regions():
            made = value[0]
            if made == "new":
                slow.wait(5)
            return {"one": made}

        topic = live.topic("page", regions)
        assert json.loads((await live.page(topic, shown_html)).body)["one"] == "old"
        value[0] = "new"
        await asyncio.sleep(module.FRESH + 0.05)
        began = time.monotonic()
        answers = [json.loads((await live.page(topic, shown_html)).body)["one"] for _ in range(3)]
        assert answers == ["old"] * 3
        assert time.monotonic() - began < 0.1  # nobody waited for what takes long
        slow.set()
        await asyncio.sleep(0.1)
        assert json.loads((await live.page(topic, shown_html)).body)["one"] == "new"

    asyncio.run(asked())


def test_no_page_is_older_than_a_second():
    async def asked():
        live, value = Live(ToldIndex()), ["old"]
        topic = live.topic("page", lambda: {"one": value[0]})
        await live.page(topic, shown_html)
        value[0] = "new"
        await asyncio.sleep(module.OFTEN + 0.01)
        assert json.loads((await live.page(topic, shown_html)).body)["one"] == "new"

    asyncio.run(asked())


def test_what_changes_while_a_page_is_rendered_is_told_to_its_viewer():
    async def asked():
        live, value = Live(ToldIndex()), ["old"]
        topic, loop = live.topic("page", lambda: {"one": value[0]}), asyncio.get_running_loop()

        def render(shown):
            value[0] = "new"
            asyncio.run_coroutine_threadsafe(live._compute(topic), loop).result(5)
            return shown_html(shown)

        page = json.loads((await live.page(topic, render)).body)
        assert page["one"] == "old"
        told = await asyncio.wait_for(first_of(live.events(topic, page["mark"])), 2)
        assert told == {"one": "new"}

    asyncio.run(asked())


def test_a_page_whose_run_is_gone_does_not_end_what_others_are_told():
    async def asked():
        live, value, index = Live(ToldIndex()), ["old"], ToldIndex()
        live.index = index

        def gone():
            if value[0] == "new":
                raise ConfigError('There is no run "a" here.')
            return {"one": "old"}

        topics = [live.topic("gone", gone), live.topic("here", lambda: {"one": value[0]})]
        page = json.loads((await live.page(topics[1], shown_html)).body)
        await live.page(topics[0], shown_html)
        watching = asyncio.create_task(live.run())
        mark = page["mark"]
        streams = [live.events(topic, mark) for topic in topics]
        begun = [asyncio.create_task(first_of(stream)) for stream in streams]
        await asyncio.sleep(0.1)
        value[0] = "new"
        index.version, index.turns = 1, 1
        assert await asyncio.wait_for(begun[1], 4) == {"one": "new"}
        assert not watching.done()
        with pytest.raises(ConfigError, match="no run"):
            await asyncio.sleep(module.OFTEN)
            await live.page(topics[0], shown_html)
        begun[0].cancel()
        watching.cancel()

    asyncio.run(asked())


def test_what_is_no_longer_there_is_emptied_on_the_page():
    async def asked():
        live, parts = Live(ToldIndex()), {"one": "here", "two": "here, too"}
        topic = live.topic("page", lambda: dict(parts))
        page = json.loads((await live.page(topic, shown_html)).body)
        del parts["two"]
        await live._compute(topic)
        told = await asyncio.wait_for(first_of(live.events(topic, page["mark"])), 2)
        assert told == {"two": ""}
        parts["two"] = "again"
        await live._compute(topic)
        told = await asyncio.wait_for(first_of(live.events(topic, page["mark"])), 2)
        assert told == {"two": "again"}

    asyncio.run(asked())


def test_a_page_whose_run_is_gone_is_told_so():
    async def asked():
        live, value = Live(ToldIndex()), ["here"]

        def regions():
            if value[0] == "gone":
                raise ConfigError('There is no run "a" here.')
            return {"headline": value[0], "curves": "drawn"}

        topic = live.topic("page", regions)
        page = json.loads((await live.page(topic, shown_html)).body)
        watching = asyncio.create_task(live.run())
        begun = asyncio.create_task(first_of(live.events(topic, page["mark"])))
        await asyncio.sleep(0.1)
        value[0], live.index.turns = "gone", 1
        told = await asyncio.wait_for(begun, 4)
        assert told == {"headline": 'There is no run "a" here.', "curves": ""}
        watching.cancel()

    asyncio.run(asked())


def test_what_changed_while_nobody_looked_at_it_is_told_at_once_to_who_comes():
    async def asked():
        live, value = Live(ToldIndex()), ["old"]
        live.index = ToldIndex()
        topics = {name: live.topic(name, lambda: {"one": value[0]}) for name in ("watched", "left")}
        marks = {
            name: json.loads((await live.page(t, shown_html)).body)["mark"] for name, t in topics.items()
        }
        watching = asyncio.create_task(live.run())
        elsewhere = asyncio.create_task(first_of(live.events(topics["watched"], marks["watched"])))
        await asyncio.sleep(0.1)
        value[0], live.index.version = "new", 1
        assert await asyncio.wait_for(elsewhere, 4) == {"one": "new"}
        began = time.monotonic()
        told = await asyncio.wait_for(first_of(live.events(topics["left"], marks["left"])), 4)
        assert told == {"one": "new"}
        assert time.monotonic() - began < module.OFTEN + module.RAREST < module.SLOWEST
        watching.cancel()

    asyncio.run(asked())


def test_pages_that_nobody_looks_at_are_remembered_up_to_a_number(monkeypatch):
    monkeypatch.setattr(module, "KEPT", 10)
    live = Live(ToldIndex())
    first = live.topic("first", dict)
    first.viewers.add(asyncio.Event())
    for number in range(10):
        live.topic(f"page {number}", dict)
    assert len(live.topics) == 11, "as many as may be kept"
    for number in range(10, 30):
        live.topic(f"page {number}", dict)
    assert live.topics["first"] is first and "page 29" in live.topics
    assert 11 <= len(live.topics) <= 12 and "page 15" not in live.topics


def test_what_changes_while_regions_are_computed_is_computed_again_and_nothing_old_comes_after_it():
    async def asked():
        live, value, slow = Live(ToldIndex()), ["old"], threading.Event()
        live.index = ToldIndex()

        def regions():
            made = value[0]
            if made == "old":
                slow.wait(5)
            return {"one": made}

        slow.set()
        topic = live.topic("page", regions)
        page = json.loads((await live.page(topic, shown_html)).body)
        slow.clear()
        first = asyncio.create_task(live._compute(topic))  # begins with what is old
        await asyncio.sleep(0.05)
        value[0], live.index.version = "new", 1
        watching = asyncio.create_task(live.run())
        viewer = asyncio.create_task(first_of(live.events(topic, page["mark"])))
        await asyncio.sleep(0.2)
        slow.set()
        began = time.monotonic()
        assert await asyncio.wait_for(viewer, 4) == {"one": "new"}
        assert time.monotonic() - began < module.OFTEN + module.RAREST
        await first
        assert topic.known["one"][1] == "new"
        watching.cancel()

    asyncio.run(asked())
