"""What a person chose and wrote is in the address: opened anew, it shows the same."""

from __future__ import annotations

import json

import pytest

from tests.browser import CHROMIUM

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="not run: no Chromium")


def again(page, ready="'ready' in document.body.dataset"):
    """Opens the address that the page has now, as somebody would who got it as a link."""
    there = page.run("location.href")
    page.tab.open("about:blank")
    page.tab.errors.clear()
    page.tab.open(there)
    page.tab.until(ready, 90)
    return there


def idle(section):
    return f"!document.querySelector('#{section} form').hasAttribute('aria-busy')"


def test_what_was_written_is_written_again(page):
    page.go("/try/causal")
    page.fill(prompt="the cat & <b>a dog</b> +1%")
    page.run("document.querySelector('#write [value=greedy]').click()")
    page.run("document.querySelector('#write [name=length]').value = 5")
    page.submit("write")
    text = page.text("#written")
    there = again(page)
    assert "temperature" not in there  # as it comes
    page.tab.until(f"document.querySelector('#written').textContent === {json.dumps(text)}", 60)
    assert page.run("document.getElementById('prompt').value") == "the cat & <b>a dog</b> +1%"
    assert page.run("document.querySelector('#write [name=temperature]').disabled")
    page.run("document.querySelector('#kinds [value=losses]').click()")
    assert page.run("location.hash") == "#losses"
    page.quiet()


def test_a_text_that_is_too_long_for_an_address_is_not_cut(page):
    page.go("/try/causal#losses")
    page.fill(scored="the cat sees a dog . " * 400)
    page.submit("losses")
    assert page.run("location.hash") == "#losses"
    page.tab.errors.clear()  # the text is longer than the model reads


OTHER_HEAD = """(() => {
  const chosen = document.getElementById('remove').textContent;
  const heads = [...document.querySelectorAll('.small-row [data-head]')];
  const other = heads.find((button) => !chosen.endsWith(button.title.split(':')[0]));
  other.click();
  document.getElementById('remove').click();
  return other.dataset.head;
})()"""
"""Removes another head than the one that is shown first, and gives it."""
CHANGE = """((field, value) => {
  field.value = value;
  for (const kind of ['input', 'change']) field.dispatchEvent(new Event(kind, { bubbles: true }));
})"""


def test_heads_that_were_removed_stay_removed(page):
    page.go("/inside/causal")
    page.fill(**{"read-text": "the cat sees a dog ."})
    page.submit("heads")
    other = page.run(OTHER_HEAD)
    page.tab.until("!document.getElementById('without').hidden", 60)
    title = page.text("#without-title")
    there = again(page)
    assert f"without={other.replace(',', '%2C')}" in there
    page.tab.until(f"document.getElementById('without-title').textContent === {json.dumps(title)}", 60)
    assert (
        page.texts("#removed button")
        and page.run("document.getElementById('read-text').value") == "the cat sees a dog ."
    )
    page.tab.open("about:blank")
    page.tab.open(there.replace(f"without={other.replace(',', '%2C')}", "without=9%2C9+x&head=7%2C7"))
    page.tab.until("'ready' in document.body.dataset", 90)
    page.tab.until(f"!document.getElementById('heads-shown').hidden && {idle('heads')}", 60)
    assert page.texts("#removed button") == []  # heads that are not there
    page.quiet()


def test_weights_that_were_dragged_stay(page):
    page.go("/inside#query")
    page.run("document.querySelectorAll('#query [name=example]')[1].click()")
    page.tab.until("document.querySelectorAll('.weight').length === 3")
    page.run("document.getElementById('weight-1').focus()")
    page.tab.press("End")
    page.tab.until("location.hash.includes('weights=0+1+0')")
    again(page)
    page.tab.until("document.querySelectorAll('.weight output').length === 3")
    page.tab.until("document.querySelectorAll('.weight output')[1].textContent === '100.0%'")
    page.quiet()


def test_a_list_stays_filtered_and_sorted(page):
    ready = "document.querySelector('#runs tbody tr') !== null"
    page.tab.open(page.own.address + "/")
    page.tab.until(ready)
    page.run(f"{CHANGE}(document.getElementById('wanted'), 'a')")
    page.run(f"{CHANGE}(document.getElementById('sorted'), 'name')")
    shown = "[...document.querySelectorAll('#runs tbody tr:not([hidden]) th')].map((e) => e.dataset.value)"
    before = page.run(shown)
    again(page, ready)
    page.tab.until(f"JSON.stringify({shown}) === {json.dumps(json.dumps(before, separators=(',', ':')))}")
    assert page.run("document.getElementById('sorted').value") == "name"
    assert len(before) > 1 and before == sorted(before) and all("a" in name for name in before)


def test_a_form_that_was_filled_is_filled(page):
    page.tab.open(page.own.address + "/new")
    page.tab.until("document.getElementById('command').textContent !== ''", 90)
    page.run(f"{CHANGE}(document.querySelector('[data-key=\"model.layers\"] input'), '3')")
    page.run(f"{CHANGE}(document.getElementById('name'), 'three')")
    page.tab.until("location.hash.includes('model.layers') && location.hash.includes('three')", 30)
    page.tab.until("document.getElementById('command').textContent.includes('model.layers=3')", 30)
    command = page.run("document.getElementById('command').textContent")
    again(page, "document.getElementById('command').textContent.includes('model.layers=3')")
    page.tab.until(f"document.getElementById('command').textContent === {json.dumps(command)}")
    assert page.run("document.getElementById('name').value") == "three"
