"""Pictures on the page: what a worker answers is what the library gives, and hostile ones cost nothing."""

from __future__ import annotations

import io
import json
import shutil
import struct
import zlib
from base64 import b64decode

import numpy as np
import pytest
from PIL import Image

from attnlab.config.files import load
from attnlab.data.images.decoding import pixels_of
from attnlab.data.images.picture import Picture
from attnlab.data.images.picture_folder import TABLES
from attnlab.session import soundness
from attnlab.session.embedding import Embedder
from attnlab.session.predicting import pictured_example
from attnlab.session.searching import Searcher
from attnlab.session.session import Session
from attnlab.session.training import train
from attnlab.web.actions.pictures import MOST_BYTES
from attnlab.web.worker_pool import WorkerError
from tests.web.picture_runs import RUNS, SMALL, drawing, pictures_in, sent, shapes
from tests.web.test_actions import NASTY
from tests.web.test_worker_pool import with_pool

FIRST = {"number": 1}


@pytest.fixture
def ask(ask_about_pictures):
    return ask_about_pictures


@pytest.fixture
def opened(opened_pictures):
    return opened_pictures


CAN = {
    "classify": {"classify", "attention", "without_heads"},
    "matching": {"classify", "attention", "without_heads"},
    "caption": {"caption", "attention", "without_heads"},
    "prefix": {"caption", "attention", "without_heads"},
    "search": {"search_pictures", "attention", "without_heads"},
    "clip": {"search_pictures", "attention", "without_heads"},
}


@pytest.mark.parametrize("kind", RUNS)
def test_what_a_run_of_pictures_can_is_what_it_answers(kind, ask):
    facts = ask.done("facts", kind)
    assert {name for name, can in facts["can"].items() if can} == CAN[kind]
    assert facts["pictures"]["own"] and facts["pictures"]["bytes"] == MOST_BYTES
    text = {"text": "a red circle"} if facts["pictures"]["text"] == "needed" else {}
    asked = {
        "classify": {"picture": FIRST, **text},
        "caption": {"picture": FIRST, "beam": 2},
        "search_pictures": {"query": "a red circle", "top": 2},
        "attention": {"picture": FIRST, **text},
        "without_heads": {"picture": FIRST, "heads": [[0, 0]], **text},
    }
    for action, values in asked.items():
        _, last = ask(action, kind, **values)
        assert "fault" not in last, last
        assert ("done" in last) >= facts["can"][action], (action, last)


# ---------------------------------------------------------------- the library's answers
def test_a_picture_that_is_sent_is_seen_as_the_model_sees_it(ask):
    content = drawing("RGBA", (40, 24))
    seen = ask.done("picture", "classify", picture=sent(content, "two.png"))
    image = np.asarray(Image.open(io.BytesIO(b64decode(seen["png"]))))
    assert np.array_equal(image, pixels_of(Picture(content), 16))
    assert seen["done"] == "40 × 24 pixels; transparent: laid on white; padded to 16 × 16; 16 patches"
    frames = [Image.new("RGB", (16, 16), colour) for colour in ("red", "blue", "green")]
    moving = drawing(kind="GIF", size=(16, 16), save_all=True, append_images=frames)
    assert "animated: the first of 4 frames" in ask.done("picture", "classify", picture=sent(moving))["done"]
    own = ask.done("picture", "caption", picture={"number": 3})
    assert own["right"] == shapes()[2].target and own["name"] == shapes()[2].place


def test_labels_of_a_picture_are_the_librarys(ask, opened):
    content = drawing()
    for picture, given in ((sent(content), content), ({"number": 5}, shapes()[4].image)):
        classes = ask.done("classify", "classify", picture=picture)
        (prediction,) = opened["classify"].predict([given])
        told = {score["label"]: score["probability"] for score in classes["scores"]}
        assert told == pytest.approx(dict(prediction.scores)) and classes["answer"] == prediction.answer
    other = ask.done("classify", "classify", picture=sent(drawing(size=(16, 16))))
    assert other["scores"] != classes["scores"]
    text = "a red circle left of a blue square"
    told = ask.done("classify", "matching", picture=sent(content), text=text)
    (prediction,) = opened["matching"].predict([(content, text)])
    assert told["confidence"] == pytest.approx(prediction.confidence)
    assert "it is empty" in ask.error("classify", "matching", picture=sent(content))


@pytest.mark.parametrize("kind", ["caption", "prefix"])
def test_captions_are_those_of_the_beam(kind, ask, opened):
    content = drawing()
    told = ask.done("caption", kind, picture=sent(content), beam=3, penalty=0.5)["candidates"]
    (right,) = opened[kind].candidates([content], best=3, beam=3, penalty=0.5)
    assert [one["text"] for one in told] == [candidate.text for candidate in right]
    assert [one["score"] for one in told] == pytest.approx([candidate.score for candidate in right])


def files_below(folder):
    return {str(file.relative_to(folder)): file.stat().st_mtime_ns for file in folder.rglob("*")}


@pytest.mark.parametrize("kind", ["search", "clip"])
def test_pictures_are_found_as_by_an_index_and_nothing_is_written(
    kind, ask, opened, pictures_served, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    secret = pictures_in(tmp_path / "elsewhere")
    place = pictures_served / f"some-{kind}"
    shutil.copytree(pictures_served / "pictures", place)
    (place / "broken.png").write_bytes(b"no picture")
    (place / "link.png").symlink_to(secret / "0.png")
    (place / "linked").symlink_to(secret)
    before = files_below(pictures_served)
    told = ask.done("search_pictures", kind, query="a red circle", folder=place.name, top=20)
    assert files_below(pictures_served) == before and not (tmp_path / "cache").exists()
    assert told["of"] == 6 and len(told["skipped"]) == 1 and "broken.png: its 10 bytes" in told["skipped"][0]
    embedder = Embedder.of(opened[kind])
    right = Searcher.of(embedder, pictures_served / "pictures", index=tmp_path / "index").search(
        "a red circle", top=20
    )
    assert [hit["name"] for hit in told["hits"]] == [hit.file.rpartition("/")[2] for hit in right]
    assert [hit["score"] for hit in told["hits"]] == pytest.approx([hit.score for hit in right], abs=1e-5)
    own = ask.done("search_pictures", kind, query="a red circle", top=3)
    examples = shapes()
    scores = embedder.picture_vectors([one.image for one in examples]) @ embedder.vectors(["a red circle"])[0]
    best = sorted(range(len(examples)), key=lambda n: -scores[n])[:3]
    assert [hit["right"] for hit in own["hits"]] == [examples[n].target for n in best]
    for folder in (str(secret), "../", "nothing", "pictures/0.png"):
        assert "no folder" in ask.error("search_pictures", kind, query="a", folder=folder)
    shutil.rmtree(place)


@pytest.mark.parametrize("kind", RUNS)
def test_heads_on_a_picture_are_those_of_the_explanation(kind, ask, opened):
    text = "a red circle left of a blue square" if kind == "matching" else ""
    content = drawing()
    told = ask.done("attention", kind, picture=sent(content), text=text)
    looks = opened[kind].picture_attention(Picture(content), text)
    shown = told["picture"]
    assert [one["name"] for one in shown["heads"]] == [str(head.name) for head in looks.ranked]
    for one, head in zip(shown["heads"], looks.ranked, strict=True):
        assert one["effect"] == pytest.approx(head.effect)
        assert np.allclose(one["cells"], looks.by_reader(head).mean(0), rtol=1e-3)
        assert [word["text"] for word in one["words"]] == list(looks.readers(head).values())[:24]
        assert np.allclose([word["cells"] for word in one["words"]], looks.by_reader(head)[:24], rtol=1e-3)
        assert one["name"] == f"{told['maps']['layers'][one['layer']]['name']}, head {one['head']}"
    assert told["text"] == (looks.read.text or text)
    worded = looks.worded
    assert shown["worded"] == [worded.layer, worded.name.number]


@pytest.mark.parametrize("kind", RUNS)
def test_without_the_most_useful_head_the_output_changes_by_its_effect(kind, ask, opened):
    text = {"text": "a red circle left of a blue square"} if kind == "matching" else {}
    drawn = ask.done("attention", kind, picture=FIRST, **text)
    head = drawn["picture"]["heads"][0]
    removed = {"heads": [[head["layer"], head["head"]]], "text": drawn["text"]}
    told = ask.done("without_heads", kind, picture=FIRST, **removed)
    assert told["heads"] == [head["name"]]
    if kind in ("caption", "prefix"):
        assert told["mean"] == pytest.approx(head["effect"], rel=1e-4)
        assert " ".join(token["text"] for token in told["tokens"]).startswith(drawn["text"])
    elif kind in ("search", "clip"):
        assert told["moved"] == pytest.approx(head["effect"], rel=1e-4)
    else:
        before, after = told["before"]["scores"], told["after"]["scores"]
        assert max(abs(before[label] - after[label]) for label in before) > 1e-6
        other = ask.done("without_heads", kind, picture={"number": 2}, **removed)
        assert other["before"]["scores"] != before


def test_a_text_alone_is_read_by_models_of_both(ask, opened):
    for kind in ("search", "clip"):
        told = ask.done("attention", kind, text="a red circle")
        assert told["picture"] is None
        right = opened[kind].attention("a red circle")
        assert [one["effect"] for one in told["maps"]["heads"]] == pytest.approx(
            [head.effect for head in right.heads]
        )


# ---------------------------------------------------------------- whose pictures are read
def test_the_runs_own_pictures_are_read_where_all_are_served(ask, pictures_served, tmp_path, monkeypatch):
    monkeypatch.setattr(soundness, "run_checks", lambda case, names=(): [])
    inside, outside = pictures_served / "own", tmp_path / "own"
    for folder in (inside, outside):
        pictures_in(folder, 8)
        lines = [json.dumps({"file_name": f"{n}.png", "label": str(n % 2)}) for n in range(8)]
        (folder / TABLES[1]).write_text("\n".join(lines) + "\n")
    changes = {key: value for key, value in SMALL.items() if "examples" not in key}
    for name, folder in (("held", inside), ("away", outside)):
        about = RUNS["classify"][1] | {
            "data.corpus": {"kind": "files", "path": str(folder)},
            "data.dev_share": 0.4,
            "data.test_share": 0.0,
        }
        session = Session(load("image-classifier-mini", set=changes | about))
        train(session, pictures_served / name, allow=["overfit"])
    assert ask.done("facts", "held")["pictures"]["own"]
    assert ask.done("picture", "held", picture=FIRST)["right"] in ("0", "1")
    assert not ask.done("facts", "away")["pictures"]["own"]
    for action in ("picture", "classify", "attention"):
        assert "not in the folder that is served" in ask.error(action, "away", picture=FIRST)
    (inside / "more.png").symlink_to(outside / "0.png")
    assert not ask.done("facts", "held")["pictures"]["own"]
    assert "not in the folder that is served" in ask.error("picture", "held", picture=FIRST)


# ---------------------------------------------------------------- hostile ones
def bomb(width=60_000, height=60_000):
    """A PNG of a few bytes whose header declares 3.6 thousand million pixels."""

    def chunk(kind, content):
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 1000))


EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n(x) run\n"
HOSTILE = {
    "bomb": (bomb(), "decompression bomb"),
    "truncated": (drawing(size=(200, 200))[:300], "cannot be decoded"),
    "text": (b"<script>alert(1)</script>", "no picture that Pillow knows"),
    "svg": (b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>", "no picture that Pillow knows"),
    "postscript": (EPS, "its format is EPS"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_pictures_get_the_sentence_of_the_command_line(kind, ask):
    content, wanted = HOSTILE[kind]
    text = ask.error("picture", "classify", picture=sent(content, "odd.png"))
    assert text.startswith("odd.png cannot be used: ") and wanted in text
    if kind != "postscript":
        assert str(pictured_example(content, with_text=False)) in text
    for action, values in (
        ("classify", {}),
        ("attention", {}),
        ("without_heads", {"heads": [[0, 0]]}),
    ):
        assert wanted in ask.error(action, "classify", picture=sent(content), **values)
    assert wanted in ask.error("caption", "caption", picture=sent(content))


def test_what_is_no_picture_at_all_is_a_sentence(ask):
    assert "No picture was given" in ask.error("classify", "classify")
    told = ask.error("classify", "classify", picture={"data": "", "name": "nothing.png"})
    assert told.startswith("nothing.png is empty")
    broken = ask.error("caption", "caption", picture=sent(drawing()[:-40], "broken.png"))
    assert broken.startswith("broken.png cannot be described: ")
    assert "1.5; it must be whole" in ask.error("picture", "classify", picture={"number": 1.5})
    assert "not base64" in ask.error("classify", "classify", picture={"data": "§§§", "name": "a"})
    large = {"data": "A" * (MOST_BYTES * 4 // 3 + 100), "name": "large.png"}
    assert "large.png is too large: 10.0 MB, limit 10 MB" in ask.error("picture", "classify", picture=large)
    assert "1 to 8" in ask.error("picture", "classify", picture={"number": 9})
    for number in (0, -1, True, "1", 1.5, None):
        assert (
            "counted from 1" in ask.error("picture", "classify", picture={"number": number})
            or number == 10**30
        )
    name = ask.error("picture", "classify", picture=sent(b"x", "\u202egnp.exe\ud800" + "a" * 500))
    assert "\u202e" not in name and len(name) < 300
    assert "reads no pictures" not in ask.error("caption", "classify", picture=FIRST)


@pytest.mark.parametrize("action", ["picture", "classify", "caption", "attention", "without_heads"])
def test_no_value_of_a_picture_makes_a_fault(action, ask):
    run = "caption" if action == "caption" else "classify"
    more = {"heads": [[0, 0]]} if action == "without_heads" else {}
    for value in NASTY:
        for picture in (
            value,
            {"data": value},
            {"number": value},
            {"data": "eA==", "name": value},
            {"x": value},
        ):
            _, last = ask(action, run, picture=picture, **more)
            assert "fault" not in last, (picture, last)
            assert "done" in last or len(last["error"].split()) > 3, (picture, last)


def test_a_worker_lives_on_after_hostile_pictures(pictures_served):
    """Through the pool, as the server asks: each is a sentence, by one process that answers the next."""

    async def asked(pool):
        said, processes = [], set()
        for content, _ in HOSTILE.values():
            with pytest.raises(WorkerError) as error:
                await pool.answer("classify", pictures_served / "classify", {"picture": sent(content)})
            assert not error.value.fault
            said.append(str(error.value))
            processes |= set(pool.processes)
        done = await pool.answer("classify", pictures_served / "classify", {"picture": sent(drawing())})
        processes |= set(pool.processes)
        return said, processes, done

    said, processes, done = with_pool(pictures_served, asked, workers=1)
    assert len(processes) == 1 and done["scores"]
    for text, (_, wanted) in zip(said, HOSTILE.values(), strict=True):
        assert wanted in text
