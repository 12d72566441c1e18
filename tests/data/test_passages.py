"""Passages of files: nothing is lost, and each stands where it says."""

import gzip
import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.data.errors import DataError
from attnlab.data.passages import WORDS, divided_passage, files_in, passages_of, read_passages

LENGTHS = st.lists(st.sampled_from([0, 0, 1, 3, 11, 12, 40, 119, 120, 121, 300]), max_size=8)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(LENGTHS, st.sampled_from(["", ".", "!"]))
def test_every_word_is_in_one_passage_in_its_lines(lengths, end):
    lines = [[f"{n}w{w}{end if w % 7 == 0 else ''}" for w in range(size)] for n, size in enumerate(lengths)]
    found = list(passages_of(" ".join(line) + "\n" for line in lines))
    assert [word for one in found for word in one.text.split()] == [w for line in lines for w in line]
    for one in found:
        words, numbers = one.text.split(), [int(n) for n in re.findall(r"\d+", one.where)]
        assert len(words) <= WORDS
        assert [numbers[0] - 1, numbers[-1] - 1] == [int(w.partition("w")[0]) for w in (words[0], words[-1])]


def test_a_heading_belongs_to_what_follows():
    text = "# Git\n\n## Back\n\nTo take back the last commit but keep its changes type this here.\n\nNext.\n"
    (first, last) = passages_of(text.splitlines(keepends=True))
    assert first.text.startswith("# Git\n## Back\nTo take") and first.where == "lines 1–5"
    assert (last.text, last.where) == ("Next.", "line 7")


def test_a_long_text_is_divided_between_sentences():
    sentences = [f"Sentence {n} has these seven words in it." for n in range(60)]
    parts = list(divided_passage(" ".join(sentences)))
    assert " ".join(parts) == " ".join(sentences) and all(part.endswith("it.") for part in parts)
    endless = " ".join(f"w{n}" for n in range(3 * WORDS + 5))
    assert " ".join(divided_passage(endless)) == endless


def test_files_of_every_kind(tmp_path):
    (tmp_path / "faq.csv").write_text("question,answer\nHow?,So.\n")
    (tmp_path / "rows.jsonl").write_text('{"question": "Who?", "context": "Ann did."}\nnot json\n')
    (tmp_path / "Makefile").write_text("all:\n\techo done\n")
    (tmp_path / "old.txt.gz").write_bytes(gzip.compress(b"packed text"))
    (tmp_path / "photo.jpg").write_bytes(bytes(range(256)) * 40)
    (tmp_path / "liar.txt").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0" + bytes(range(128, 256)) * 40)
    (tmp_path / "latin.txt").write_bytes("café au lait, sehr schön".encode("latin-1"))
    (tmp_path / "one-bad-line.txt").write_bytes(b"fine text here\n\n" * 40 + b"bad \xff line\n\nlast\n")
    (tmp_path / "paper.pdf").write_bytes(b"%PDF-1.7 text")
    (tmp_path / "empty.txt").touch()
    (tmp_path / ".hidden").write_text("not mine")
    found, skipped = {}, {}
    for file in files_in(tmp_path):
        passages, left = read_passages(file)
        found[file.name] = [one.text for one in passages]
        skipped[file.name] = [one.reason for one in left]
    assert found["faq.csv"] == ["How?\nSo."] and found["rows.jsonl"] == ["Ann did."]
    assert found["old.txt.gz"] == ["packed text"] and found["empty.txt"] == [] and ".hidden" not in found
    assert "not JSON" in skipped["rows.jsonl"][0]
    for name in ("photo.jpg", "liar.txt"):
        assert not found[name] and skipped[name] == ["it is a binary file"]
    assert not found["latin.txt"] and "not utf-8 text" in skipped["latin.txt"][0]
    assert found["one-bad-line.txt"][-1].endswith("last") and len(skipped["one-bad-line.txt"]) == 1
    assert not found["paper.pdf"] and "a PDF" in skipped["paper.pdf"][0]
    assert read_passages(tmp_path / "latin.txt", "latin-1")[0][0].text.startswith("café")


def test_questions_of_one_passage_give_it_once(tmp_path):
    file = tmp_path / "squad.json"
    file.write_text(
        '{"data": [{"title": "T", "paragraphs": [{"context": "All of it.", "qas": '
        '[{"question": "a?", "id": "1"}, {"question": "b?", "id": "2"}]}]}]}'
    )
    assert [one.text for one in read_passages(file)[0]] == ["All of it."]


def test_what_is_not_there_is_said(tmp_path):
    with pytest.raises(DataError, match="no folder or file"):
        files_in(tmp_path / "none")
    with pytest.raises(DataError, match="has no files"):
        files_in(tmp_path)


def test_files_that_cannot_be_read_are_named_with_the_reason(tmp_path):
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(gzip.compress(b'{"text": "a passage"}\n' * 2000)[:60])
    damaged = tmp_path / "damaged.txt.gz"
    damaged.write_bytes(gzip.compress(random.Random(0).randbytes(4000).hex().encode())[:300] + b"\0" * 400)
    (tmp_path / "plain.txt").write_text("a passage")
    for file in (cut, damaged):
        found, skipped = read_passages(file)
        assert not found and "not a whole gzip file" in skipped[0].reason
    found, skipped = read_passages(tmp_path / "plain.txt", "(" * 400)
    assert not found and "There is no encoding" in skipped[0].reason
