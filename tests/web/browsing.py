"""A tab of a browser on a server of the small runs, and what a person does there."""

from __future__ import annotations

import json

import pytest

from tests.browser import chromium
from tests.web.serving import server


class Person:
    def __init__(self, own, tab):
        self.own, self.tab, self.run = own, tab, tab.run

    def go(self, path):
        self.tab.open("about:blank")
        self.tab.errors.clear()
        self.tab.requests.clear()
        self.tab.open(self.own.address + path)
        self.tab.until("'ready' in document.body.dataset", 90)

    def fill(self, **fields):
        for name, value in fields.items():
            self.run(f"document.getElementById({json.dumps(name)}).value = {json.dumps(value)}")

    def submit(self, section):
        """Sends a form, and gives what it says then."""
        form = f"document.querySelector('#{section} form')"
        self.run(f"{form}.requestSubmit()")
        self.tab.until(f"!{form}.hasAttribute('aria-busy')", 60)
        return self.run(f"{form}.querySelector('[data-said]').textContent")

    def text(self, selector):
        return self.run(f"document.querySelector({json.dumps(selector)}).textContent")

    def texts(self, selector):
        return self.run(f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => e.textContent)")

    def shown(self, selector):
        return self.run(f"document.querySelector({json.dumps(selector)}).checkVisibility()")

    def quiet(self):
        """Nothing was complained of, and nothing left the machine."""
        assert not self.tab.errors
        assert all(
            place.startswith((self.own.address, "data:", "blob:", "about:")) for place in self.tab.requests
        )


@pytest.fixture(scope="module")
def own(served):
    """A server of a run of each kind."""
    with server(served) as running:
        yield running


@pytest.fixture(scope="module")
def tab():
    with chromium() as page:
        page.size(1280, 900)
        yield page


@pytest.fixture
def page(own, tab):
    """A page of the server, with what a person does there."""
    return Person(own, tab)
