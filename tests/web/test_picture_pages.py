"""Pictures in a browser: chosen as a file or by number, classified, described, found and looked into."""

from __future__ import annotations

import http.client
from urllib.parse import quote

import pytest

from tests.browser import CHROMIUM, without_axe
from tests.web.picture_runs import drawing, sent
from tests.web.serving import server
from tests.web.test_pictures import bomb

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="not run: no Chromium")


@pytest.fixture(scope="module")
def own(pictures_served):
    with server(pictures_served) as running:
        yield running


def choose(page, section, file):
    """A file in the field of a section, as by the browser's own dialogue; waits for what is said of it."""
    parts = f"document.querySelectorAll('#{section} figcaption, #{section} [role=alert]')"
    page.run(f"{parts}.forEach((part) => {{ part.textContent = ''; }})")
    wanted = f"document.querySelector('#{section} [type=file]')"
    node = page.tab.call("Runtime.evaluate", expression=wanted)["result"]["objectId"]
    page.tab.call("DOM.setFileInputFiles", files=[str(file)], objectId=node)
    said = f"document.querySelector('#{section} [role=alert]')"
    page.tab.until(
        f"document.querySelector('#{section} figcaption').textContent || {said}.textContent", seconds=60
    )
    return page.run(f"{said}.textContent")


def test_a_file_is_seen_as_the_model_sees_it_and_classified(page, ask_about_pictures, tmp_path):
    content = drawing("RGBA", (40, 24))
    (tmp_path / "two.png").write_bytes(content)
    page.go("/try/classify")
    page.tab.until("!document.querySelector('#classify figure').hidden")  # the first of the run's own
    assert page.text("#classify figcaption").startswith("shapes, dev 1 ")
    assert not page.shown("#classified")
    assert choose(page, "classify", tmp_path / "two.png") == ""
    assert page.text("#classify figcaption").startswith("two.png 40 × 24 pixels; transparent: laid on white")
    seen = ask_about_pictures.done("picture", "classify", picture=sent(content))
    assert page.run("document.querySelector('#classify img').src") == f"data:image/png;base64,{seen['png']}"
    assert page.run("document.querySelector('#classify img').naturalWidth") == 16
    assert page.submit("classify") == ""
    done = ask_about_pictures.done("classify", "classify", picture=sent(content))
    assert page.text("#classes .answer") == done["answer"]
    assert page.texts("#classes tbody th") == [score["label"] for score in done["scores"]]
    assert page.texts("#classes td.number") == [f"{100 * s['probability']:.1f}%" for s in done["scores"]]
    page.quiet()


def test_a_number_is_kept_in_the_address_and_takes_the_place_of_a_file(page, ask_about_pictures, tmp_path):
    (tmp_path / "two.png").write_bytes(drawing())
    done = ask_about_pictures.done("picture", "matching", picture={"number": 3})
    page.go(f"/try/matching#classify?number=3&text={quote(done['text'])}")
    page.tab.until("document.querySelector('#classify figcaption').textContent.startsWith('shapes, dev 3')")
    page.tab.until(f"document.getElementById('classified').value === {done['text']!r}")
    choose(page, "classify", tmp_path / "two.png")
    page.run(
        "{const n = document.querySelector('#classify [name=number]'); n.value = 5;"
        "n.dispatchEvent(new Event('input', {bubbles: true}));}"
    )
    page.tab.until("document.querySelector('#classify figcaption').textContent.startsWith('shapes, dev 5')")
    other = ask_about_pictures.done("picture", "matching", picture={"number": 5})
    page.tab.until(f"document.getElementById('classified').value === {other['text']!r}")
    page.submit("classify")
    told = ask_about_pictures.done("classify", "matching", picture={"number": 5}, text=other["text"])
    assert page.text("#classes .answer") == told["answer"]
    page.quiet()


def test_what_is_no_picture_is_a_sentence_and_the_page_goes_on(page, tmp_path):
    page.go("/try/classify")
    (tmp_path / "bomb.png").write_bytes(bomb())
    assert "bomb.png cannot be used: it is too large" in choose(page, "classify", tmp_path / "bomb.png")
    page.tab.errors.clear()  # the browser tells of the status itself
    assert "bomb.png cannot be used" in page.submit("classify")
    page.tab.errors.clear()
    with (tmp_path / "large.png").open("wb") as file:
        file.truncate(50 << 20)
    asked = len(page.tab.requests)
    assert "large.png is too large: 50.0 MB, limit 10 MB" in choose(page, "classify", tmp_path / "large.png")
    assert len(page.tab.requests) == asked, "it was not sent"
    assert "No picture was given" in page.submit("classify")
    page.tab.errors.clear()
    (tmp_path / "two.png").write_bytes(drawing())
    assert choose(page, "classify", tmp_path / "two.png") == "" and page.submit("classify") == ""
    page.quiet()


def test_a_file_is_not_part_of_the_address_and_the_page_says_so(page, tmp_path):
    (tmp_path / "two.png").write_bytes(drawing())
    (tmp_path / "empty.png").touch()
    page.go("/try/caption")
    assert choose(page, "caption", tmp_path / "two.png") == ""
    assert page.submit("caption") == "" and page.texts("#captions .answer")
    there = page.run("location.hash")
    assert choose(page, "caption", tmp_path / "empty.png").startswith("empty.png is empty")
    page.go(f"/try/caption{there}")
    said = "document.querySelector('#caption [role=alert]')"
    page.tab.until(f"{said}.textContent.includes('A file is not part of the')")
    page.tab.errors.clear()
    page.quiet()


def test_fifty_megabytes_are_refused_before_they_are_read(own):
    connection = http.client.HTTPConnection("127.0.0.1", own.port, timeout=30)
    headers = {"Host": f"127.0.0.1:{own.port}", "Origin": own.address, "Content-Type": "application/json"}
    for path, most in (("/api/ask/classify/classify", 50 << 20), ("/api/stop/classify", 2 << 20)):
        connection.request("POST", path, headers=headers | {"Content-Length": str(most)})
        answer = connection.getresponse()
        assert answer.status == 403 and b"too large: limit" in answer.read()
        connection.close()
    picture = sent(drawing() + bytes(3 << 20))  # more than other requests may have
    assert own.ask("/api/ask/classify/classify", "POST", {"picture": picture}).status == 200


def test_captions_and_pictures_that_are_found(page, ask_about_pictures):
    page.go("/try/caption")
    page.submit("caption")
    done = ask_about_pictures.done("caption", "caption", picture={"number": 1})["candidates"]
    shown = page.texts("#captions tbody th")
    assert [text.removesuffix(" …") for text in shown] == [one["text"] or "(nothing)" for one in done]
    page.go("/try/clip")
    page.fill(wanted="a red circle", folder="pictures")
    assert "of 6 pictures" in page.submit("search_pictures")
    found = ask_about_pictures.done("search_pictures", "clip", query="a red circle", folder="pictures")[
        "hits"
    ]
    assert page.texts("#pictures-found bdi") == [hit["name"] for hit in found]
    page.quiet()


def test_a_head_is_clicked_away_on_the_picture_and_the_words_change(page, ask_about_pictures):
    page.go("/inside/caption")
    page.run("document.getElementById('read-text').value = 'a red circle left of a blue square'")
    assert page.submit("heads") == ""
    text = "a red circle left of a blue square"
    drawn = ask_about_pictures.done("attention", "caption", picture={"number": 1}, text=text)["picture"]
    names = page.texts("#picture-heads b")
    assert names == [head["name"] for head in drawn["heads"]][:12]
    first = drawn["heads"][0]
    key = f"{first['layer']},{first['head']}"
    page.run(f"document.querySelector('[data-on-picture=\"{key}\"]').click()")
    assert page.text("#remove") == f"Remove {first['name']}"
    assert (
        page.run(f"document.querySelector('[data-on-picture=\"{key}\"]').getAttribute('aria-pressed')")
        == "true"
    )
    words = [word["text"] for word in first["words"]]
    assert page.texts("#words-shown bdi") == (words if len(words) > 1 else [])
    # The brightest patch of the drawing is that of the largest weight.
    top = max(range(len(first["cells"])), key=first["cells"].__getitem__)
    label = page.run(
        f"document.querySelector('[data-on-picture=\"{key}\"] canvas').getAttribute('aria-label')"
    )
    assert label.startswith(f"most at row {top // drawn['side']}, column {top % drawn['side']}: ")
    page.run(f"document.querySelector('[data-on-picture=\"{key}\"]').focus()")
    page.run(
        "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'Delete', bubbles: true}))"
    )
    page.tab.until("!document.getElementById('without').hidden")
    done = ask_about_pictures.done(
        "without_heads", "caption", picture={"number": 1}, text=text, heads=[[first["layer"], first["head"]]]
    )
    assert page.texts("#without-tokens .token") == [token["text"] for token in done["tokens"]]
    assert page.run(f"document.querySelector('[data-on-picture=\"{key}\"]').classList.contains('gone')")
    page.run("document.querySelector('#removed button').click()")
    page.tab.until("document.getElementById('without').hidden")
    assert not page.run("document.querySelector('#picture-heads .gone')")
    page.quiet()


def test_a_vector_moves_without_a_head(page, ask_about_pictures):
    page.go("/inside/clip")
    page.submit("heads")
    page.run("document.getElementById('remove').click()")
    page.tab.until("!document.getElementById('without').hidden")
    name = page.text("#remove").removeprefix("Bring back ")
    assert page.text("#without-title").startswith(f"Without {name}: 0.")
    page.quiet()


PAGES = {"/try/classify": "classify", "/inside/caption": "heads"}


@pytest.mark.skipif(bool(without_axe()), reason=without_axe())
@pytest.mark.parametrize("path", PAGES)
def test_nobody_is_kept_out_of_pictures(page, path):
    for width in (1280, 390):
        for dark in (False, True):
            page.tab.size(width, 900, dark=dark)
            page.go(path)
            page.submit(PAGES[path])
            page.run("new Promise((done) => setTimeout(done, 800))")
            assert page.tab.barriers() == []
            assert page.run("document.documentElement.scrollWidth") <= width
    page.tab.size(1280, 900)
