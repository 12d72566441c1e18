"""The page in a real browser: live, by keyboard, on a phone, in the dark; nothing leaves the machine."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
from itertools import product
from pathlib import Path
from urllib.parse import quote

import pytest

from attnlab.runs.folder import holder
from tests.browser import CHROMIUM, without_axe
from tests.web.serving import server, until

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="not run: no Chromium")
HOUSE = Path(__file__).parents[1] / "session" / "before_house" / "runs.tar.xz"
SMALL = (
    *("model.layers=1", "model.width=16", "model.heads=2", "data.tokenizer.vocabulary=200"),
    *("data.tokens=20000", "data.length=32", "training.evaluate_every=20"),
)


@pytest.fixture(scope="module")
def folder(served, tmp_path_factory):
    """Runs of every kind, a finished study, and one with a hostile name."""
    root = tmp_path_factory.mktemp("page") / "runs"
    shutil.copytree(served, root, ignore=shutil.ignore_patterns("broken"))  # another test's damaged one
    with tarfile.open(HOUSE) as house:
        house.extractall(root / "house", filter="data")
    shutil.copytree(root / "causal", root / "<b>bold & brave</b>")
    return root


@pytest.fixture(scope="module")
def page_server(folder):
    with server(folder) as own:
        yield own
    for record in (*folder.rglob("run.json"), *folder.rglob("study.json")):
        if process := holder(record.parent):  # what a failed test left training
            os.kill(process, signal.SIGKILL)


VIEWS = {
    "home": "/",
    "a run": "/runs/causal",
    "an invalid run": "/runs/house/study/runs/zero/seed-0",
    "a hostile name": f"/runs/{quote('<b>bold & brave</b>')}",
    "compare": "/compare?run=house/study/runs/dot/seed-0&run=house/study/runs/zero/seed-0",
    "studies": "/studies",
    "a study": "/studies/house/study",
    "parts": "/parts",
    "a part": "/parts/positions/rotary",
    "new run": "/new",
    "try": "/try/causal",
    "inside": "/inside/causal",
    "not found": "/runs/nothing",
}


BEYOND = """[...document.querySelectorAll('body *')]
  .filter((e) => e.getBoundingClientRect().right > document.documentElement.clientWidth)
  .map((e) => `${e.tagName} ${e.className} ${e.textContent.slice(0, 40)}`)"""
"""What makes a page scroll sideways."""


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_at_both_widths_and_in_both_schemes(page_server, tab, view):
    for width, dark in product((1280, 390), (False, True)):
        tab.errors.clear()
        tab.requests.clear()
        tab.size(width, 900, dark=dark)
        tab.open(page_server.address + VIEWS[view])
        tab.until("document.readyState === 'complete' && document.querySelector('h1') !== null")
        assert tab.run("document.documentElement.scrollWidth") <= width, tab.run(BEYOND)
        outside = [url for url in tab.requests if not url.startswith((page_server.address, "data:", "blob:"))]
        assert not outside, outside
        missing = ["Failed to load resource: the server responded with a status of 404 (Not Found)"]
        assert [error for error in tab.errors if view != "not found" or error not in missing] == []
        assert tab.run("document.querySelectorAll('b[onerror], img[onerror], h1 b').length") == 0
        if not without_axe():
            assert tab.barriers() == []


def test_sentences_of_failed_checks_are_read_whole_on_a_phone(page_server, tab):
    tab.size(390, 900)
    tab.open(page_server.address + VIEWS["an invalid run"])
    tab.until("document.querySelector('[data-live=checks] table') !== null")
    scrolls = (
        "[...document.querySelectorAll('[data-live=checks] .scroll')].filter((e) => e.checkVisibility())"
    )
    assert tab.run(f"{scrolls}.length && {scrolls}.every((e) => e.scrollWidth <= e.clientWidth)")
    tab.size(1280, 900)


def test_keyboard_reaches_what_can_be_pressed_and_the_focus_is_seen(page_server, tab):
    tab.size(1280, 900)
    tab.open(page_server.address + "/")
    tab.until("document.querySelectorAll('#runs tbody tr').length > 5")
    places = []
    for _ in range(12):
        tab.press("Tab")
        places.append(tab.run("document.activeElement.id || document.activeElement.textContent.trim()"))
    assert places[0] == "Skip to the content"
    assert {"Runs", "Studies", "New run", "Parts", "wanted"} <= set(places)
    assert tab.run("getComputedStyle(document.activeElement).outlineWidth") == "2px"


def test_runs_are_searched_filtered_and_sorted(page_server, tab):
    tab.size(1280, 900)
    tab.open(page_server.address + "/")
    tab.until("document.querySelectorAll('#runs tbody tr').length > 5")
    shown = "[...document.querySelectorAll('#runs tbody tr:not([hidden]) th')].map(c => c.dataset.value)"
    assert not any("seed" in name for name in tab.run(shown))  # those of studies are below their study
    tab.run("document.getElementById('studied').click()")
    every = tab.run(shown)
    tab.run("wanted.value = 'DOT'; wanted.dispatchEvent(new Event('input', {bubbles: true}))")
    assert tab.run(shown) and all("dot" in name for name in tab.run(shown))
    tab.run("wanted.value = ''; wanted.dispatchEvent(new Event('input', {bubbles: true}))")
    tab.run("document.querySelector('input[value=invalid]').click()")
    invalid = tab.run(shown)
    assert "house/study/runs/zero/seed-0" in invalid
    assert "house/study/runs/dot/seed-0" not in invalid
    tab.run("document.querySelector('input[value=all]').click()")
    tab.run("sorted.value = 'name'; sorted.dispatchEvent(new Event('change', {bubbles: true}))")
    assert sorted(tab.run(shown)) == sorted(every)
    assert tab.run(shown) == tab.run(f"{shown}.sort((a, b) => a.localeCompare(b, 'en', {{numeric: true}}))")
    assert tab.run("document.getElementById('compare').disabled")
    tab.run("[...document.querySelectorAll('#runs input')].slice(0, 2).forEach(b => b.click())")
    tab.run("document.getElementById('compare').click()")
    tab.until("location.pathname === '/compare'")


def become(folder, address, **values):
    """Another state of a run, as its record tells it."""
    file = folder / address / "run.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


ROW = "[...document.querySelectorAll('#runs tr')].find((row) => row.dataset.live === 'row:changing')"


def test_a_row_with_the_focus_goes_on_and_the_focus_stays(page_server, tab, folder):
    shutil.copytree(folder / "causal", folder / "changing")
    tab.size(1280, 900)
    tab.open(page_server.address + "/")
    tab.until(f"{ROW} !== undefined")
    tab.run(f"{ROW}.querySelector('input').focus()")
    for reason in ("the first", "the second"):
        become(folder, "changing", status="failed", error=reason)
        tab.until(f"{ROW}.textContent.includes({reason!r})")
        assert tab.run("document.activeElement.value") == "changing"
    shutil.rmtree(folder / "changing")


def test_what_is_being_typed_stays_until_the_focus_leaves_it(page_server, tab, folder):
    shutil.copytree(folder / "causal", folder / "typed")
    tab.size(1280, 900)
    tab.open(page_server.address + "/runs/typed")
    actions = "document.querySelector('[data-live=actions]')"
    tab.until(f"{actions}.textContent.includes('Train longer')")
    tab.run(f"{actions}.querySelector('input').focus()")
    headline = "document.getElementById('headline').textContent"
    before = tab.run(headline)
    become(folder, "typed", status="converted")
    tab.until(f"{headline} !== {before!r}")
    assert "Train longer" in tab.run(f"{actions}.textContent")
    tab.run("document.activeElement.blur()")
    tab.until(f"!{actions}.textContent.includes('Train longer')")
    # a control that goes gives the focus to the one in its place
    become(folder, "typed", status="finished")
    tab.until(f"{actions}.textContent.includes('Train longer')")
    tab.run(f"{actions}.querySelector('button').focus()")
    become(folder, "typed", status="converted")
    tab.until(f"!{actions}.textContent.includes('Train longer')")
    assert tab.run("document.activeElement.textContent") == "Try it"


def test_runs_are_picked_on_a_phone(page_server, tab):
    tab.size(390, 900)
    tab.open(page_server.address + "/")
    tab.until("document.querySelectorAll('#runs tbody tr').length > 5")
    boxes = "[...document.querySelectorAll('#runs tbody tr:not([hidden]) .picked label')]"
    sizes = tab.run(f"{boxes}.map((box) => [box.offsetWidth, box.offsetHeight])")
    assert sizes and all(width >= 44 and height >= 44 for width, height in sizes)
    tab.run(f"{boxes}.slice(0, 2).forEach((box) => box.click())")
    assert tab.run("document.getElementById('compare').textContent") == "Compare 2 runs"
    tab.size(1280, 900)


def test_scores_are_ranked_by_measure_and_the_latest_is_the_date_that_is_shown(page_server, tab):
    tab.size(1280, 900)
    tab.open(page_server.address + "/")
    tab.until("document.querySelectorAll('#runs tbody tr').length > 5")
    cells = "[...document.querySelectorAll('#runs tbody tr:not([hidden]) {}')].map((c) => c.{})"
    dates = tab.run(cells.format(".col-when", "textContent"))
    assert dates == sorted(dates, reverse=True) and tab.run("document.querySelector('[aria-sort]').ariaSort")
    tab.run("document.getElementById('studied').click()")
    tab.run("document.querySelector('[data-by=col-score]').click()")
    rows = [
        tuple(row)
        for row in tab.run(
            "[...document.querySelectorAll('#runs tbody tr:not([hidden])')].map((row) => {"
            "const {measure, better, value} = row.querySelector('.col-score').dataset;"
            "return [measure, row.querySelector('.col-state').dataset.value === 'invalid',"
            "better === 'higher' ? -value : +value]; })"
        )
    ]
    assert rows == sorted(rows) and len({measure for measure, *_ in rows}) > 3
    assert any(invalid for _, invalid, _ in rows)
    said = tab.run("document.getElementById('ranked').textContent")
    assert "accuracy, highest first" in said and "dev loss, lowest first" in said
    tab.run("document.querySelector('[data-by=name]').click()")
    assert tab.run("document.querySelector('[aria-sort] button').textContent") == "run"
    assert tab.run("document.getElementById('ranked').textContent") == ""


def test_nothing_found_is_a_sentence_and_the_headline_says_what_is_in_studies(page_server, tab):
    tab.size(1280, 900)
    tab.open(page_server.address + "/")
    tab.until("document.querySelectorAll('#runs tbody tr').length > 5")
    said = "document.getElementById('nothing-fits').checkVisibility() && "
    said += "document.getElementById('nothing-fits').textContent"
    assert tab.run(said) is False
    tab.run("document.querySelector('input[value=failed]').click()")
    tab.until("document.querySelectorAll('#runs tbody tr:not([hidden])').length === 0")
    assert tab.run(said).startswith("Nothing found: no failed run outside of studies. There are ")
    tab.run("document.getElementById('studied').click()")
    wrong = tab.run("document.querySelectorAll('#runs tbody tr:not([hidden])').length")
    tab.run("document.querySelector('input[value=invalid]').click()")
    wrong += tab.run("document.querySelectorAll('#runs tbody tr:not([hidden])').length")
    headline = tab.run("document.getElementById('headline').textContent")
    assert f"{wrong} invalid or failed (" in headline and "in studies)" in headline
    tab.run("wanted.value = 'nobody'; wanted.dispatchEvent(new Event('input', {bubbles: true}))")
    assert tab.run(said) == "Nothing found: no invalid run with “nobody” in its name."


def test_a_form_says_what_the_command_line_says_and_begins_the_run(page_server, tab, folder):
    tab.size(1280, 900)
    tab.errors.clear()
    tab.open(page_server.address + "/new?config=mini-gpt")
    tab.until("document.getElementById('command').textContent.includes('attnlab train mini-gpt')", 90)
    typed = "document.querySelector('[data-key=\"{}\"] input').value = '{}'; "
    typed += "document.querySelector('[data-key=\"{}\"] input')"
    typed += ".dispatchEvent(new Event('input', {{bubbles: true}}))"
    wrong = subprocess.run(
        [sys.executable, "-m", "attnlab", "train", "mini-gpt", "--set", "model.width=130"],
        capture_output=True,
        text=True,
        timeout=100,
    )
    tab.run(typed.format("model.width", "130", "model.width"))
    tab.until("[...document.querySelectorAll('.wrong-said')].some(p => p.textContent.includes('130'))", 60)
    said = tab.run("[...document.querySelectorAll('.wrong-said')].map(p => p.textContent).join('')")
    assert said.strip() in wrong.stderr.replace("\n", " ").replace("  ", " ")
    assert tab.run("document.getElementById('begin').disabled")
    chosen = [change.partition("=") for change in SMALL if not change.startswith("data.")]
    for key, _, value in chosen:
        tab.run(typed.format(key, value, key))
    tab.run(typed.format("training.budget.steps", "100000", "training.budget.steps"))
    tab.until("!document.getElementById('begin').disabled", 60)
    named = "{const n = document.getElementById('name'); n.value = '%s';"
    named += "n.dispatchEvent(new Event('input', {bubbles: true}));}"
    tab.run(named % "begun here/or there")
    said = "document.getElementById('name-said').checkVisibility()"
    tab.until(said, 60)
    assert tab.run("document.getElementById('begin').disabled")
    tab.run(named % "causal")
    tab.until("document.getElementById('name-said').textContent.includes('already; give another name')", 60)
    tab.run(named % "begun-here")
    out = f" --out {folder}/begun-here"
    tab.until(f"document.getElementById('command').textContent.endsWith({json.dumps(out)})", 60)
    tab.until("!document.getElementById('begin').disabled", 60)
    assert not tab.run(said)
    assert "--set model.width=16" in tab.run("document.getElementById('command').textContent")
    tab.run("document.getElementById('begin').click()")
    tab.until("location.pathname === '/runs/begun-here' && document.getElementById('headline') !== null", 90)
    # it goes on: numbers change in place, and it stops where it is asked to
    tab.until("/[1-9]\\d* steps?/.test(document.getElementById('headline').textContent)", 120)
    before = tab.run("document.getElementById('headline').textContent")
    tab.until(f"document.getElementById('headline').textContent !== {json.dumps(before)}", 60)
    assert tab.run("performance.getEntriesByType('navigation').length") == 1
    assert tab.errors == []
    tab.run("document.querySelector('[data-live=actions] form button').focus()")
    tab.press("Enter")
    tab.until("document.getElementById('headline').textContent.startsWith('Interrupted')", 90)
    tab.until("document.querySelector('[data-live=actions] form button').textContent === 'Resume'", 30)
    assert tab.run("document.activeElement.textContent") == "Resume"  # which took the place of Stop and save
    stopped = json.loads((folder / "begun-here" / "run.json").read_text())
    assert stopped["status"] == "interrupted"
    assert (folder / "begun-here" / "checkpoints" / f"step-{stopped['step']}").is_dir()
    # and resumes, up to a step that is given
    more = stopped["step"] + 3
    tab.until("document.querySelector('[data-live=actions] input[name=amount]') !== null", 30)
    tab.run(f"document.querySelector('input[name=amount]').value = '{more}'")
    tab.run("document.querySelector('[data-live=actions] form button').click()")
    until(lambda: f'"stepped", "step": {more},' in (folder / "begun-here" / "metrics.jsonl").read_text(), 120)
    tab.until(f"document.body.textContent.includes('{more:,} steps')", 60)


def test_on_a_phone_what_begins_a_run_stands_below_its_settings(page_server, tab):
    tab.size(390, 900)
    tab.open(page_server.address + "/new?config=mini-gpt")
    below = "document.getElementById('begin').getBoundingClientRect().top >"
    assert tab.run(f"{below} document.getElementById('config').getBoundingClientRect().top")
    tab.size(1280, 900)


def test_what_was_wrong_of_a_former_value_is_not_said_of_the_next(page_server, tab):
    tab.open(page_server.address + "/new?config=mini-gpt")
    tab.until("document.getElementById('command').textContent.includes('attnlab train mini-gpt')", 90)
    typed = "{const i = document.querySelector('[data-key=\"model.layers\"] input'); i.value = '%s';"
    typed += "i.dispatchEvent(new Event('input', {bubbles: true}));}"
    said = "document.querySelector('[data-key=\"model.layers\"] .wrong-said').textContent"
    tab.run(typed % "-3")
    tab.until(f"{said}.includes('-3')", 60)
    tab.run(typed % "99999999999999")
    assert tab.run(said) == "" and tab.run("document.getElementById('begin').disabled")
    tab.until(f"{said}.includes('99999999999999')", 60)


def test_a_study_from_click_to_verdict(page_server, tab, folder):
    lines = ['question = "Do positions matter?"', "seeds = 2", 'base = "mini-gpt"']
    lines += ["[set]", *(f"{json.dumps(k)} = {v}" for k, v in toml_settings())]
    lines += ["[arms.with]", "[arms.without]", '"model.positions" = "none"']
    (folder / "matter.toml").write_text("\n".join(lines))
    tab.size(1280, 900)
    tab.errors.clear()
    tab.open(page_server.address + "/studies")
    tab.until("document.getElementById('file') !== null", 90)
    tab.run("document.getElementById('file').value = 'matter.toml'")
    tab.run("document.getElementById('file').form.querySelector('button').click()")
    tab.until("location.pathname === '/studies/matter'", 120)
    tab.until("document.querySelectorAll('.grid-of-seeds tbody tr').length === 2", 60)
    tab.run("document.querySelector('main button').focus()")
    tab.until("document.querySelector('.contents a') !== null", 240)  # the report is there
    answer = json.loads((folder / "matter" / "results.json").read_text())
    assert {arm["name"] for arm in answer["arms"]} == {"with", "without"}
    assert tab.run("document.activeElement.id") == "headline", "the page was read anew, and kept the focus"
    assert tab.run("document.querySelectorAll('.grid-of-seeds tbody td').length") == 4
    again = page_server.ask("/api/studies/resume/matter", "POST", {"seeds": "2"})
    assert again.status == 400 and "has 2 seeds already" in again.text, "nothing would be trained"
    assert tab.errors == []


def toml_settings():
    for change in (*SMALL, "training.budget.steps=6"):
        key, _, value = change.partition("=")
        yield key, value if value.replace(".", "").isdigit() else json.dumps(value)


def test_a_tab_that_nobody_sees_leaves_its_connection_to_others_and_catches_up(page_server, tab, folder):
    """Browsers open six connections to one server: the seventh tab with a stream would wait for ever."""
    shutil.copytree(folder / "causal", folder / "unseen")
    record = json.loads((folder / "unseen" / "run.json").read_text())
    headline = "document.getElementById('headline').textContent"
    hidden = "Object.defineProperty(document, 'hidden', {value: %s, configurable: true});"
    hidden += "document.dispatchEvent(new Event('visibilitychange'))"
    try:
        tab.open(page_server.address + "/runs/unseen")
        tab.until("document.readyState === 'complete'")
        before = tab.run(headline)
        tab.run(hidden % "true")
        (folder / "unseen" / "run.json").write_text(
            json.dumps(record | {"status": "failed", "error": "no room"})
        )
        tab.run("new Promise((resolve) => setTimeout(resolve, 2500))")
        assert tab.run(headline) == before
        tab.run(hidden % "false")
        tab.until(f"{headline}.startsWith('Failed')", 5)
    finally:
        shutil.rmtree(folder / "unseen")


def test_a_page_finds_its_server_again_and_a_damaged_run_recovers(tab, served, tmp_path):
    """A server that is killed and started again knows of no page; what changed meanwhile is told."""
    shutil.copytree(served / "causal", tmp_path / "runs" / "one")
    record = tmp_path / "runs" / "one" / "run.json"
    whole = record.read_text()
    headline = "document.getElementById('headline').textContent"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with server(tmp_path / "runs", "--port", str(port)) as own:
        tab.size(1280, 900)
        tab.open(own.address + "/runs/one")
        tab.until(f"!{headline}.startsWith('Failed')")
        own.process.kill()
        own.process.wait()
        record.write_text(json.dumps(json.loads(whole) | {"status": "failed", "error": "no room"}))
        tab.until("document.getElementById('connection').textContent.startsWith('last heard')", 20)
        own.process.returncode = 0  # it was killed on purpose
    with server(tmp_path / "runs", "--port", str(port)):
        tab.until(f"{headline}.startsWith('Failed')", 20)
        assert tab.run("performance.getEntriesByType('navigation').length") == 1
        assert tab.run("document.getElementById('connection').textContent") == ""
        record.write_text('{"config"')
        tab.until(f"{headline}.startsWith('Damaged')", 10)
        tab.open(own.address + "/runs/one")
        tab.until(f"{headline}.startsWith('Damaged')", 10)
        record.write_text(whole)
        tab.until("document.querySelector('[data-live=curves]') !== null", 10)
        tab.open("about:blank")  # it would look for its server
    tab.errors.clear()


def test_the_command_is_selected_where_a_browser_lets_nothing_be_copied(page_server, tab):
    tab.open(page_server.address + "/new?config=mini-gpt")
    tab.until("document.getElementById('command').textContent.includes('attnlab train mini-gpt')", 90)
    tab.run("Object.defineProperty(navigator, 'clipboard', {value: undefined, configurable: true})")
    tab.run("document.getElementById('copy').click()")
    assert tab.run("getSelection().toString()") == tab.run("document.getElementById('command').textContent")
    assert tab.run("document.getElementById('begin-said').textContent") == "Selected: copy it with Ctrl-C."
    tab.run(
        "Object.defineProperty(navigator, 'clipboard', {configurable: true,"
        "value: {writeText: async (text) => { window.copied = text; }}})"
    )
    tab.run("document.getElementById('copy').click()")
    tab.until("document.getElementById('begin-said').textContent === 'Copied.'")
    assert tab.run("copied") == tab.run("document.getElementById('command').textContent")
