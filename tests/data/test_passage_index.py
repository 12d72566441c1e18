"""An index of passages: exact, whole after a kill, made anew only where text has changed, and never believed
when it is damaged or of another model."""

import hashlib
import json
import os
import time
from pathlib import Path

import numpy as np
import pytest

from attnlab.data import passage_index
from attnlab.data.errors import DataError
from attnlab.data.passage_index import PassageIndex


class Hashed:
    """Vectors that follow from the text alone, and a list of all texts that were asked for."""

    def __init__(self, width=8, stops_after=None):
        self.width, self.stops_after, self.asked = width, stops_after, []

    def __call__(self, texts):
        if self.stops_after is not None and len(self.asked) >= self.stops_after:
            raise KeyboardInterrupt
        self.asked += texts
        return np.stack([self.vector(text) for text in texts])

    def vector(self, text):
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
        found = np.random.default_rng(seed).normal(size=self.width)
        return (found / np.linalg.norm(found)).astype(np.float32)


@pytest.fixture
def notes(tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    for name in "abc":
        write(folder / f"{name}.txt", [f"{name} paragraph {n}" for n in range(5)])
    return folder


def write(file, paragraphs, age=60):
    rest = "and twelve words more so that it stands by itself here"
    file.write_text("\n\n".join(f"{paragraph} {rest}" for paragraph in paragraphs))
    past = time.time() - age  # a file that was just written may be written again within the clock's step
    os.utime(file, (past, past))


def index(tmp_path, identity="model"):
    return PassageIndex(tmp_path / "index", identity)


def texts_of(found):
    return [found.texts[n] for n in range(len(found))]


def test_the_nearest_are_those_of_all_scores(tmp_path, notes):
    embed = Hashed()
    found = index(tmp_path)
    told = found.update(notes, embed)
    assert (told.files, told.passages, told.embedded) == (3, 15, 15)
    texts = texts_of(found)
    for query in ("one", "two", "three"):
        vector = embed.vector(query)
        wanted = sorted(((float(embed.vector(t) @ vector), t) for t in texts), reverse=True)[:4]
        hits = found.nearest(vector, 4)
        assert [hit.text for hit in hits] == [text for _, text in wanted]
        assert [hit.score for hit in hits] == pytest.approx([score for score, _ in wanted], abs=1e-6)
        for hit in hits:
            line = int(hit.where.removeprefix("line "))
            assert Path(hit.file).read_text().splitlines()[line - 1] == hit.text
    assert len(found.nearest(embed.vector("x"), 100)) == 15


def test_only_what_is_new_is_embedded(tmp_path, notes):
    index(tmp_path).update(notes, Hashed())
    again = Hashed()
    told = index(tmp_path).update(notes, again)
    assert not again.asked and not told.changed and told.passages == 15
    write(notes / "b.txt", [f"b paragraph {n}" for n in (0, 1, 2, 3, 7)], age=30)
    (notes / "c.txt").rename(notes / "moved.txt")
    changed = index(tmp_path)
    told = changed.update(notes, again)
    assert len(again.asked) == 1 and "b paragraph 7" in again.asked[0] and told.embedded == 1
    assert {Path(changed.file(n)).name for n in range(len(changed))} == {"a.txt", "b.txt", "moved.txt"}
    assert not any("b paragraph 4" in text for text in texts_of(changed))


def test_an_edit_that_keeps_size_and_time_step_is_seen(tmp_path, notes):
    write(notes / "a.txt", ["one text"], age=0)
    index(tmp_path).update(notes, Hashed())
    held = (notes / "a.txt").stat()
    write(notes / "a.txt", ["two text"])
    os.utime(notes / "a.txt", ns=(held.st_mtime_ns, held.st_mtime_ns))
    found = index(tmp_path)
    found.update(notes, Hashed())
    assert any("two text" in text for text in texts_of(found))


def test_equal_texts_are_embedded_and_found_once(tmp_path, notes):
    write(notes / "copy.txt", [f"a paragraph {n}" for n in range(5)])
    embed = Hashed()
    found = index(tmp_path)
    assert found.update(notes, embed).passages == 20 and len(embed.asked) == 15
    hits = found.nearest(embed.vector("q"), 15)
    assert len({hit.text for hit in hits}) == 15


def test_vectors_of_texts_that_are_gone_make_way(tmp_path, notes):
    index(tmp_path).update(notes, Hashed())
    for name in "bc":
        (notes / f"{name}.txt").unlink()
    embed = Hashed()
    found = index(tmp_path)
    found.update(notes, embed)
    assert not embed.asked and sum(map(len, found.vectors)) == 5
    again = index(tmp_path)
    again.update(notes, embed)
    for n, text in enumerate(texts_of(again)):
        assert again.scores(embed.vector(text))[n] == pytest.approx(1.0)
    assert len(list((tmp_path / "index").glob("*.npy"))) == 7


def test_a_kill_costs_one_segment(tmp_path, notes, monkeypatch):
    monkeypatch.setattr(passage_index, "SEGMENT", 4)
    stopped = Hashed(stops_after=8)
    with pytest.raises(KeyboardInterrupt):
        index(tmp_path).update(notes, stopped)
    rest = Hashed()
    found = index(tmp_path)
    found.update(notes, rest)
    assert len(stopped.asked) == 8 and len(rest.asked) == 7
    assert {*stopped.asked, *rest.asked} == {*texts_of(found)}


def damage(file):
    held = bytearray(file.read_bytes())
    held[-3] ^= 1
    file.write_bytes(held)


PARTS_OF_AN_INDEX = ["vectors", "digests", "rows", "texts", "places", "manifest", "field", "gone", "cut"]


@pytest.mark.parametrize("what", PARTS_OF_AN_INDEX)
def test_a_damaged_index_is_made_anew(tmp_path, notes, what):
    embed = Hashed()
    whole = index(tmp_path)
    whole.update(notes, embed)
    wanted, texts = whole.nearest(embed.vector("q"), 3), {*texts_of(whole)}
    if what == "manifest":
        (tmp_path / "index" / "manifest.json").write_text('{"format": 1, "iden')
    elif what == "field":  # it can be read, and says something else
        manifest = tmp_path / "index" / "manifest.json"
        manifest.write_text(manifest.read_text().replace('"count": ', '"number": '))
    elif what == "gone":
        next((tmp_path / "index").glob("vectors*")).unlink()
    elif what == "cut":
        file = next((tmp_path / "index").glob("texts-*"))
        file.write_bytes(file.read_bytes()[:-20])
    else:
        damage(next((tmp_path / "index").glob(f"{what}-*")))
    if what == "digests":  # they are read only where something has changed
        write(notes / "d.txt", ["d paragraph"])
    found = index(tmp_path)
    told = found.update(notes, Hashed())
    assert told.rebuilt and {*texts_of(found)} >= texts
    if what != "digests":
        assert found.nearest(embed.vector("q"), 3) == wanted
    assert not index(tmp_path).update(notes, Hashed()).rebuilt


def test_another_models_index_is_refused(tmp_path, notes):
    index(tmp_path).update(notes, Hashed())
    with pytest.raises(DataError, match="another model"):
        index(tmp_path, "other").update(notes, Hashed())
    assert not index(tmp_path).update(notes, Hashed()).changed


def test_a_folder_that_is_no_index_is_left_alone(tmp_path, notes):
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "mine.npy").write_bytes(b"mine")
    with pytest.raises(DataError, match="holds no index"):
        index(tmp_path).update(notes, Hashed())
    assert (tmp_path / "index" / "mine.npy").read_bytes() == b"mine"


@pytest.mark.slow
def test_a_hundred_thousand_passages_are_searched_within_a_second(tmp_path):
    folder = tmp_path / "many"
    folder.mkdir()
    lines = (json.dumps({"text": f"passage number {n}"}) + "\n" for n in range(100_000))
    (folder / "rows.jsonl").write_text("".join(lines))
    os.utime(folder / "rows.jsonl", (1, 1))
    draw = np.random.default_rng(0)

    def embed(texts):
        found = draw.normal(size=(len(texts), 384)).astype(np.float32)
        return found / np.linalg.norm(found, axis=1, keepdims=True)

    index(tmp_path).update(folder, embed)
    times = []
    for _ in range(3):  # the best of three: the machine may be busy
        began = time.perf_counter()
        found = index(tmp_path)
        assert not found.update(folder, embed).changed
        found.nearest(embed(["q"])[0], 10)
        times.append(time.perf_counter() - began)
    assert min(times) < 1.0 and len(found) == 100_000
