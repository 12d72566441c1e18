"""Models asked and looked into in a browser: by pointer and keyboard, on a phone and a wide screen."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from urllib.parse import quote

import pytest

from tests.browser import CHROMIUM, without_axe

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="not run: no Chromium")

SENTENCE = "the cat sees a dog in the garden ."
FOCUSED = "document.activeElement"


# ---------------------------------------------------------------- try it
def test_a_text_is_written_and_each_token_tells_what_else_could_stand_there(page, ask):
    page.go("/try/causal")
    assert page.texts("#kinds label:not([hidden])") == ["write", "say what surprises it"]
    page.fill(prompt="the cat")
    page.run("document.querySelector('#write [value=greedy]').click()")
    assert page.run("document.querySelector('#write [name=temperature]').disabled")
    page.run("document.querySelector('#write [name=length]').value = 6")
    said = page.submit("write")
    parts, last = ask("write", "causal", prompt="the cat", length=6, rule="greedy")
    assert page.text("#written").rstrip(" …") == "the cat" + last["done"]["text"].rstrip(" …")
    assert said.startswith(f"{len(parts)} token")
    page.run("document.querySelector('#written .token').focus()")
    page.tab.press("ArrowRight")
    assert page.run(f"{FOCUSED}.getAttribute('aria-pressed')") == "true"
    pieces = page.texts("#written-more tbody .piece")
    assert pieces == [other["piece"].strip() for other in parts[1]["alternatives"]]
    assert page.text("#written-more tr[data-chosen] .piece") == parts[1]["piece"].strip()
    page.tab.press("End")
    assert f"Token {len(parts)}:" in page.text("#written-more caption")
    page.quiet()


STOP_SOON = """new Promise((done) => {
  const look = () => {
    if (document.querySelectorAll('#written .token').length < 3) return requestAnimationFrame(look);
    document.querySelector('#write [data-stop]').click();
    return done();
  };
  look();
})"""
"""As soon as something is written: a small model on a quiet machine is done before a test looks twice."""


def test_a_mistake_is_a_sentence_and_long_writing_stops_when_asked(page):
    page.go("/try/causal")
    page.fill(prompt="the cat")
    page.run("document.querySelector('#write [name=length]').value = 400")
    assert "trained on 24" in page.submit("write")
    page.tab.errors.clear()  # the browser tells of the status itself
    page.run("document.querySelector('#write [name=window]').click()")
    page.run("document.querySelector('#write [value=greedy]').click()")  # which never ends by itself
    page.run("document.querySelector('#write form').requestSubmit()")
    page.run(STOP_SOON)
    page.tab.until("document.querySelector('#write [data-said]').textContent === 'Stopped.'")
    page.fill(prompt="a dog")
    page.run("document.querySelector('#write [name=length]').value = 2")
    assert "token" in page.submit("write")  # by another process
    page.quiet()


def test_the_shade_of_a_token_is_its_loss(page, ask):
    page.go("/try/causal#losses")
    page.fill(scored=SENTENCE)
    page.submit("losses")
    done = ask.done("losses", "causal", text=SENTENCE)
    labels = page.run(
        "[...document.querySelectorAll('#losses-shown .token')].map((t) => t.getAttribute('aria-label'))"
    )
    assert labels == [f"{t['text']}: {t['loss']:.2f} nats" for t in done["tokens"]]
    assert page.text("#losses-shown").startswith(SENTENCE)
    assert f"{done['loss']:.3f}" in page.text("#scores")
    worst = max(range(len(labels)), key=lambda n: done["tokens"][n]["loss"])
    assert page.text("#losses-shown [aria-pressed=true]") == done["tokens"][worst]["text"]
    page.quiet()


BYTES = {"loss": 2.0, "perplexity": 7.4, "bits_per_byte": 1.0, "scored": 4, "note": ""}
BYTES["tokens"] = [
    {"start": 0, "end": 1, "text": "a", "name": "a", "piece": 0, "loss": None, "probability": None},
    *(
        {
            "start": 1,
            "end": 2,
            "text": "\U0001f600",
            "name": f"<{n}>",
            "piece": 1,
            "loss": n,
            "probability": 0.1,
        }
        for n in (1.5, 2.5)
    ),
    {"start": 2, "end": 3, "text": ",", "name": ",", "piece": 2, "loss": 1.0, "probability": 0.4},
]


def test_the_bytes_of_a_character_are_one_piece_on_the_screen(page):
    page.go("/try/causal#losses")
    answer = json.dumps(json.dumps({"done": BYTES}) + "\n")
    page.run(f"window.fetch = async () => new Response({answer}); 1")
    page.fill(scored="a\U0001f600,")
    assert page.submit("losses") == "" and page.texts("#losses-shown .token") == ["a", "\U0001f600", ","]
    labels = "[...document.querySelectorAll('#losses-shown .token')].map((t) => t.getAttribute('aria-label'))"
    assert page.run(labels)[1] == "\U0001f600: 4.00 nats in 2 tokens"
    page.run("document.querySelectorAll('#losses-shown .token')[1].click()")
    assert page.texts("#losses-more .piece") == ["<1.5>", "<2.5>"]
    assert "1.50 nats" in page.text("#losses-more") and "2.50 nats" in page.text("#losses-more")
    # neither a ground nor the ring of the chosen one covers the letters beside it
    edges = page.run(
        "[...document.querySelectorAll('#losses-shown .token')].map((t) => {"
        "const [box, style] = [t.getBoundingClientRect(), getComputedStyle(t)];"
        "return [box.left, box.right, parseFloat(style.paddingLeft)]; })"
    )
    for (_, right, _), (left, _, padding) in pairwise(edges):
        assert left + padding >= right + 2


def test_what_a_tokenizer_does_not_know_is_told_beside_what_is_written(page, ask):
    page.go("/try/causal")
    page.run("document.querySelector('#write [name=length]').value = 1")
    for prompt in ("the \U0001f600 cat qqqq", "the cat"):
        page.fill(prompt=prompt)
        assert page.submit("write").startswith("1 token")
        _, last = ask("write", "causal", prompt=prompt, length=1)
        noted = page.text("#written-unknown")
        assert bool(last["done"]["unknown"]) == ("does not know" in noted) == ("cat qqqq" in prompt)
        assert all(f"“{part}”" in noted for part in last["done"]["unknown"])
    page.quiet()


def test_gaps_labels_words_answers_and_passages(page, ask):
    page.go("/try/masked")
    page.fill(gaps="the [MASK] sees a [MASK] .")
    page.submit("fill")
    done = ask.done("fill", "masked", text="the [MASK] sees a [MASK] .")
    assert page.text("#filled") == done["text"]
    page.go("/try/classification")
    page.fill(classified=SENTENCE)
    page.submit("classify")
    done = ask.done("classify", "classification", text=SENTENCE)
    assert page.text("#classes .answer") == done["answer"]
    assert page.texts("#classes tbody th") == [score["label"] for score in done["scores"]]
    assert not page.shown("#classify .pair")
    page.go("/try/tagging")
    page.fill(tagged=SENTENCE)
    page.submit("tag")
    spans = ask.done("tag", "tagging", text=SENTENCE)["spans"]
    assert page.texts("#tags mark") == [f"{s['text']} {s['label']}" for s in spans]
    page.go("/try/answering")
    passage = "\U0001f642 Ann is in Rome . Bob is in Paris ."  # a character of two halves in the browser
    page.fill(passage=passage, question="where is Ann ?")
    page.submit("answer")
    answer = ask.done("answer", "answering", passage=passage, question="where is Ann ?")
    assert page.text("#answered mark").removesuffix(" best span, not given") == answer["span"]
    page.go("/try/similarity")
    page.fill(query="the cat", texts="the cat sees .\n\n<b>the old man</b> hears the bird at home .")
    page.submit("search")
    assert len(page.texts("#hits li")) >= 1 and page.run("document.querySelector('#hits b b') === null")
    page.go("/try/seq2seq")
    page.fill(source="the cat sees")
    page.submit("translate")
    done = ask.done("translate", "seq2seq", text="the cat sees")
    assert page.texts("#translated tbody th")[0].rstrip(" …") == (
        done["candidates"][0]["text"] or "(nothing)"
    )
    assert page.shown("#alignment") == (done["alignment"] is not None)
    page.quiet()


def test_an_answer_does_not_stay_under_an_error(page):
    page.go("/try/seq2seq")
    page.fill(source="the cat sees")
    assert page.submit("translate") == "" and page.shown("#translated table")
    page.fill(source="the cat " * 60)
    assert "tokens" in page.submit("translate") and not page.shown("#translated table")
    page.fill(source="the cat sees")
    assert page.submit("translate") == "" and page.shown("#translated table")
    page.go("/inside/causal")
    page.fill(**{"read-text": SENTENCE})
    page.submit("heads")
    page.fill(**{"read-text": " "})
    assert "no tokens" in page.submit("heads") and not page.shown("#heads-shown")
    page.go("/inside#query")
    page.tab.until("document.getElementById('query-outcome').textContent !== ''", 60)
    keys = "{const k = document.getElementById('keys'); k.value = '%s';"
    keys += "k.dispatchEvent(new Event('input', {bubbles: true}));}"
    page.run(keys % "1,2; 3")
    page.tab.until("document.querySelector('#query [data-said]').textContent.includes('as many numbers')")
    assert not page.shown("#query-outcome") and not page.shown("#query-facts")
    assert page.shown("#weight-0"), "what one asks with stays"
    page.run(keys % "1,2; 3,4")
    page.tab.until("document.getElementById('query-outcome').checkVisibility()")


# ---------------------------------------------------------------- look inside
def test_a_head_is_clicked_away_and_the_output_changes(page, ask):
    page.go("/inside/causal")
    page.run(f"document.getElementById('read-text').value = {SENTENCE!r}")
    page.submit("heads")
    assert page.run("document.querySelectorAll('.small-row canvas').length") == 4
    page.run("document.querySelector('[data-head=\"0,1\"]').click()")
    assert page.text("#remove") == "Remove layer 0, head 1"
    page.run("document.getElementById('remove').click()")
    page.tab.until("!document.getElementById('without').hidden")
    done = ask.done("without_heads", "causal", text=SENTENCE, heads=[[0, 1]])
    assert page.texts("#without-tokens .token") == [token["text"] for token in done["tokens"]]
    most = max(done["tokens"], key=lambda token: token["divergence"])
    assert page.texts("#without-more tbody .piece") == [
        other["piece"].strip() for side in ("before", "after") for other in most[side]
    ]
    assert page.run("document.querySelector('[data-head=\"0,1\"]').classList.contains('gone')")
    page.run("document.querySelector('[data-head=\"1,0\"]').focus()")
    page.run(f"{FOCUSED}.dispatchEvent(new KeyboardEvent('keydown', {{key: 'Delete', bubbles: true}}))")
    page.tab.until("document.getElementById('without-title').textContent.startsWith('Without 2 heads')")
    page.run("document.getElementById('restore').click()")
    page.tab.until("document.getElementById('without').hidden")
    assert not page.run("document.querySelector('.gone')")
    page.fill(**{"read-text": "the old man hears ."})  # another text takes the place of the first
    page.submit("heads")
    page.tab.size(1000, 900)
    page.tab.until("document.querySelectorAll('#lines [role=button]').length === 7")
    page.tab.size(1280, 900)
    page.quiet()


def test_labels_change_without_a_head(page, ask):
    page.go("/inside/classification")
    page.fill(**{"read-text": SENTENCE})
    page.submit("heads")
    page.run("document.getElementById('remove').click()")
    page.tab.until("!document.getElementById('without').hidden")
    labels = ask.done("facts", "classification")["labels"]
    assert sorted(page.texts("#without-labels tbody th")) == sorted(labels)
    page.quiet()


def test_an_answer_and_words_change_without_a_head(page, ask):
    page.go("/inside/answering")
    question, passage = "where is Ann ?", "Ann is in Rome . Bob is in Paris ."
    page.fill(**{"read-text": question, "read-pair": passage})
    assert page.texts("#heads label[for^=read]") == ["Question", "Passage"]
    assert page.submit("heads") == ""
    page.run("document.getElementById('remove').click()")
    page.tab.until("!document.getElementById('without').hidden")
    key = [int(n) for n in page.run("document.querySelector('.small-row .gone').dataset.head").split(",")]
    done = ask.done("without_heads", "answering", text=question, pair=passage, heads=[key])
    shown = page.texts("#without-labels tbody td")
    wanted = [
        [one["answer"] or "no answer", one["span"], one["margin"]] for one in (done["before"], done["after"])
    ]
    for (answer, span, margin), row in zip(wanted, (shown[:3], shown[3:]), strict=True):
        assert row == [answer, span, f"{margin:.2f} nats".replace("-", "−")]
    page.go("/inside/tagging")
    page.fill(**{"read-text": SENTENCE})
    page.submit("heads")
    page.run("document.getElementById('remove').click()")
    page.tab.until("!document.getElementById('without').hidden")
    assert page.texts("#without-labels tbody th") == SENTENCE.split()
    page.quiet()


def test_the_prefilled_pair_is_patched_at_the_first_click(page):
    page.go("/inside/causal#patching")
    assert page.submit("patching") == "" and page.shown("#patched")
    page.quiet()


def test_two_texts_are_patched_and_a_cell_is_read_by_keyboard(page, ask):
    page.go("/inside/causal#patching")
    page.fill(**{"patch-first": "the cat sees a", "patch-second": "the cat hears a"})
    assert page.submit("patching") == ""
    done = ask.done("patch_texts", "causal", first="the cat sees a", second="the cat hears a")
    page.run("document.querySelector('#hidden-map .map-box').focus()")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.tab.press(key)
    share = f"{100 * done['hidden'][1][1]:.1f}%".replace("-", "−")
    told = page.text("#hidden-map .map-read")
    assert told.startswith("layer 0 at 1 ") and (share in told or "< 0.1%" in told)
    page.run("document.querySelector('#hidden-map details').open = true")
    page.tab.until("document.querySelectorAll('#hidden-map tbody tr').length === 3")
    page.fill(**{"patch-second": "the cat"})
    assert "the same number" in page.submit("patching")


def test_weights_are_dragged_and_the_query_follows(page, ask):
    page.go("/inside#query")
    page.tab.until("document.getElementById('query-outcome').textContent !== ''", 60)
    page.run("document.querySelectorAll('#query [name=example]')[1].click()")
    page.tab.until("document.querySelectorAll('.weight').length === 3")
    page.run("document.getElementById('weight-1').focus()")
    page.tab.press("End")
    page.tab.until("document.querySelectorAll('.weight output')[1].textContent === '100.0%'")
    assert page.texts(".weight output") == ["0.0%", "100.0%", "0.0%"]
    page.tab.until("document.getElementById('query-outcome').textContent.includes('in the limit')")
    keys = [[1, 0], [-0.5, 0.87], [-0.5, -0.87]]
    done = ask.done("query", keys=keys, target=[0, 1, 0])
    told = f"reached {100 * done['weights'][1]:.1f}%"
    page.tab.until(f"document.querySelectorAll('.reached-told')[1].textContent === '{told}'")
    page.run("document.querySelectorAll('#query [name=example]')[2].click()")
    page.tab.until("document.querySelectorAll('.weight').length === 4")
    page.run("document.getElementById('weight-3').focus()")
    page.tab.press("End")
    page.tab.until("document.getElementById('query-reason').textContent.includes('convex hull')")
    assert "Cannot be reached" in page.text("#query-outcome")
    page.quiet()


def test_options_of_what_is_not_chosen_are_not_shown_and_odd_numbers_not_asked(page):
    page.go("/inside#mask")
    page.tab.until("document.getElementById('mask-headline').textContent !== ''", 60)
    window, groups = "#mask [name=window]", "#mask [name=groups]"
    assert not page.shown(window) and not page.shown(groups)
    page.run("document.querySelector('#mask [value=window]').click()")
    assert page.shown(window) and not page.shown(groups)
    page.tab.until("!document.querySelector('#mask form').hasAttribute('aria-busy')")
    asked = len(page.tab.requests)
    page.run(
        "{const w = document.querySelector('#mask [name=window]'); w.value = 0;"
        "w.dispatchEvent(new Event('input', {bubbles: true}));}"
    )
    said = "document.querySelector('#mask [data-said]').textContent"
    page.tab.until(f"{said} === 'window: 0 does not fit; give a whole number from 1 to 40.'")
    page.run("new Promise((done) => setTimeout(done, 500))")
    assert not page.shown("#mask-map")
    assert len([url for url in page.tab.requests[asked:] if url.endswith("/api/ask/mask")]) <= 1
    page.run("document.querySelector('#mask [value=prefix]').click()")
    page.tab.until("document.getElementById('mask-map').checkVisibility()")
    page.quiet()


def test_the_words_of_the_lines_are_one_stop_of_the_keyboard(page):
    page.go("/inside/causal")
    page.fill(**{"read-text": SENTENCE})
    page.submit("heads")
    stops = 'document.querySelectorAll(\'#lines [tabindex="0"], #lines[tabindex="0"]\').length'
    assert page.run(stops) == 1
    page.run("document.querySelector('#lines [role=button]').focus()")
    page.tab.press("ArrowDown")
    page.tab.press("ArrowDown")
    assert page.run(f"{FOCUSED}.getAttribute('aria-label')").startswith("2 cat")
    page.tab.press("Enter")
    assert page.run(f"{FOCUSED}.getAttribute('aria-pressed')") == "true" and page.run(stops) == 1
    page.quiet()


def test_masks_positions_and_features_follow_their_options(page, ask):
    page.go("/inside#mask")
    page.tab.until("document.getElementById('mask-headline').textContent !== ''", 60)
    page.run("document.querySelector('#mask [value=bidirectional]').click()")
    page.tab.until("document.getElementById('mask-headline').textContent.includes('100%')")
    page.run("document.querySelector('#mask [value=group]').click()")
    page.tab.until("!document.getElementById('mask-headline').textContent.includes('100%')")
    page.run("document.querySelector('#kinds [value=positions]').click()")
    page.tab.until("document.getElementById('positions-headline').textContent !== ''", 60)
    assert page.shown("#second-map canvas") and page.run("location.hash") == "#positions"
    page.run(
        "{const s = document.querySelector('#positions select'); s.value = 'alibi';"
        "s.dispatchEvent(new Event('input', {bubbles: true}));}"
    )
    page.tab.until("document.getElementById('positions-title').textContent === 'What is added to the score'")
    alibi = ask.done("positions", set=["model.positions=alibi", "model.width=64", "model.heads=4"], length=24)
    assert page.text("#positions-headline") == alibi["headline"]
    page.tab.size(390, 900)
    page.tab.until("document.querySelector('#by-distance svg').getAttribute('width') <= 358")  # drawn anew
    page.tab.size(1280, 900)
    page.run("document.querySelector('#kinds [value=features]').click()")
    page.tab.until("document.getElementById('feature-formula').textContent !== ''")
    page.quiet()


# ---------------------------------------------------------------- every page, everywhere
PAGES = (
    "/try/causal",
    "/try/causal#losses",
    "/inside/causal",
    "/inside#query",
    "/inside#mask",
    "/inside#positions",
)


@pytest.mark.skipif(bool(without_axe()), reason=without_axe())
@pytest.mark.parametrize("path", PAGES)
def test_nobody_is_kept_out(page, path):
    for width, dark in ((1280, False), (390, True)):
        page.tab.size(width, 900, dark=dark)
        page.go(path)
        section = page.run("[...document.querySelectorAll('section')].find((s) => !s.hidden).id")
        fields = {"heads": "read-text", "losses": "scored"}
        if section in fields:
            page.fill(**{fields[section]: SENTENCE})
            page.submit(section)
        page.run("new Promise((done) => setTimeout(done, 800))")
        assert page.tab.barriers() == []
        assert page.run("document.documentElement.scrollWidth") <= width
    page.tab.size(1280, 900)


def test_names_and_words_of_others_are_text(page, served, tab):
    hostile = served / "<img src=x onerror=alert(1)>"
    shutil.copytree(served / "causal", hostile)
    for kind in ("try", "inside"):
        page.go(f"/{kind}/{quote(hostile.name)}")
        assert hostile.name in page.text("h1") and "parameters" in page.text("#about")
    page.fill(**{"read-text": "<b>the</b> cat"})
    page.submit("heads")
    assert not page.run("document.querySelector('main img, .tokens b, #lines b')")
    page.quiet()
    shutil.rmtree(hostile)


def test_pages_of_runs_that_are_not_there_or_damaged_say_so(page, served, own):
    assert own.ask("/try/nothing").status == 404 and own.ask("/inside/nothing").status == 404
    assert own.ask("/api/ask/nothing", "POST").status in (400, 404)
    assert "there is no" in own.ask("/api/ask/nothing", "POST").text
    broken = served / "broken"
    broken.mkdir()
    (broken / "run.json").write_text("{")
    assert own.ask("/api/ask/facts/broken", "POST").status in (400, 404)
    assert own.ask("/api/ask/losses/causal", "POST", {"text": "a", "wrong": 1}).status == 400
    assert own.ask("/api/ask/mask", "POST", {"\ud800": 1}).status == 400
    assert own.ask("/api/ask/mask", "POST", {"text": "a", "masks": "\ud800"}).status == 400
