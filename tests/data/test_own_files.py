"""Every format in small real files; every kind of broken input, with file and line."""

import dataclasses
import gzip
import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from attnlab.config.values import ConfigError
from attnlab.data.corpora import CORPORA
from attnlab.data.corpora.units import sentences
from attnlab.data.errors import DataError
from attnlab.data.example import Answer, Example

ROWS = [('good film, "fine"', "positive"), ("bad\nfilm", "negative"), ("naïve 🙂", "positive")]


def read(path: Path | str, split: str = "train", **options: Any) -> list[Example]:
    return list(CORPORA.build({"kind": "files", "path": str(path), **options}).read(split))


def pairs(examples: list[Example]) -> list[tuple[str, str | None]]:
    return [(e.text, e.label) for e in examples]


def written(folder: Path, name: str, content: str | bytes) -> Path:
    file = folder / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


def as_csv(rows: list[tuple[str, str]]) -> str:
    quoted = ["text,label"] + ['"{}",{}'.format(t.replace('"', '""'), label) for t, label in rows]
    return "\r\n".join(quoted) + "\r\n"


def as_jsonl(rows: list[tuple[str, str]]) -> str:
    return "".join(json.dumps({"text": t, "label": label}) + "\n" for t, label in rows)


def test_tables_of_every_format_hold_the_same_rows(tmp_path: Path) -> None:
    table = pa.table({"text": [t for t, _ in ROWS], "label": [label for _, label in ROWS]})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    files = [
        written(tmp_path, "a.csv", as_csv(ROWS)),
        written(tmp_path, "bom.csv", b"\xef\xbb\xbf" + as_csv(ROWS).encode()),
        written(tmp_path, "a.jsonl", as_jsonl(ROWS)),
        written(tmp_path, "a.json", json.dumps([{"text": t, "label": label} for t, label in ROWS])),
        written(tmp_path, "lines.json", as_jsonl(ROWS)),
        written(tmp_path, "a.jsonl.gz", gzip.compress(as_jsonl(ROWS).encode())),
        tmp_path / "a.parquet",
    ]
    for file in files:
        assert pairs(read(file)) == ROWS, file.name


def test_tab_separated_text_keeps_its_quotation_marks(tmp_path: Path) -> None:
    file = written(tmp_path, "a.tsv", 'source\ttarget\n"Hi," he said.\tIl dit "salut".\nOne "\tUn\n')
    assert [(e.text, e.target) for e in read(file)] == [
        ('"Hi," he said.', 'Il dit "salut".'),
        ('One "', "Un"),
    ]


def test_plain_text_by_document_paragraph_line_and_sentence(tmp_path: Path) -> None:
    file = written(tmp_path, "a.txt", "One is here. Two\nis here!\n \nThree: Dr. Who, e.g. this? Yes.\n")
    assert [e.text for e in read(file, unit="document")] == [file.read_text()]
    assert [e.text for e in read(file)] == ["One is here. Two\nis here!", "Three: Dr. Who, e.g. this? Yes."]
    lines = read(file, unit="line")
    assert [(e.text, e.place) for e in lines] == [
        ("One is here. Two", f"{file} line 1"),
        ("is here!", f"{file} line 2"),
        ("Three: Dr. Who, e.g. this? Yes.", f"{file} line 4"),
    ]
    expected = ["One is here.", "Two is here!", "Three: Dr. Who, e.g. this?", "Yes."]
    assert [e.text for e in read(file, unit="sentence")] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It cost $3.50. He paid.", ["It cost $3.50.", "He paid."]),
        ('"Stop!" she said. "Why?" He left.', ['"Stop!" she said.', '"Why?"', "He left."]),
        ("J. Smith met Mr. Lee. They spoke.", ["J. Smith met Mr. Lee.", "They spoke."]),
        ("你好。再见！", ["你好。", "再见！"]),
        ("no stop at all", ["no stop at all"]),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert list(sentences(text)) == expected


def test_rows_of_text_alone_can_be_divided_too(tmp_path: Path) -> None:
    file = written(tmp_path, "a.jsonl", json.dumps({"text": "One. Two."}) + "\n")
    assert [e.text for e in read(file, unit="sentence")] == ["One.", "Two."]
    assert [e.text for e in read(file)] == ["One. Two."]


def test_rows_that_hold_more_than_text_are_not_divided_and_that_is_said(tmp_path: Path) -> None:
    file = written(tmp_path, "a.jsonl", json.dumps({"text": "One. Two.", "label": "x"}) + "\n")
    with pytest.raises(DataError, match=r'unit = sentence divides .* have a label too \(column "label"\)'):
        read(file, unit="sentence")
    assert pairs(read(file, unit="document")) == [("One. Two.", "x")]
    assert [e.text for e in read(file, unit="sentence", label=[])] == ["One.", "Two."]


def test_the_parts_of_a_row_stay_in_its_group(tmp_path: Path) -> None:
    file = written(tmp_path, "a.jsonl", json.dumps({"text": "One. Two.", "group": "g"}) + "\n")
    assert [(e.text, e.group) for e in read(file, unit="sentence")] == [("One.", "g"), ("Two.", "g")]


def test_squad_gives_questions_passages_and_placed_answers(tmp_path: Path) -> None:
    passage = "Ægir brews ale. He lives by the sea."
    questions = [
        {"id": "q1", "question": "Who brews?", "answers": [{"text": "Ægir", "answer_start": 0}]},
        {"id": "q2", "question": "Why?", "answers": [], "is_impossible": True},
    ]
    held = {"data": [{"title": "Sea", "paragraphs": [{"context": passage, "qas": questions}]}]}
    first, second = read(written(tmp_path, "a.json", json.dumps(held)))
    assert (first.text, first.pair, first.answers) == ("Who brews?", passage, (Answer("Ægir", 0),))
    assert second.answers == ()
    questions[0]["answers"] = [{"text": "ale", "answer_start": 3}]
    with pytest.raises(
        DataError, match=r"question q1: its answer 'ale' is not at character 3 of the passage"
    ):
        read(written(tmp_path, "b.json", json.dumps(held)))


def test_folders_globs_and_given_splits(tmp_path: Path) -> None:
    written(tmp_path, "train.jsonl", as_jsonl(ROWS[:2]))
    written(tmp_path, "valid.jsonl", as_jsonl(ROWS[2:]))
    written(tmp_path, ".hidden.txt", "not this")
    corpus = CORPORA.build(CORPORA.resolve(str(tmp_path)))
    assert corpus.given == ("train", "dev")
    assert pairs(list(corpus.read("dev"))) == ROWS[2:]
    assert pairs(read(tmp_path / "*.jsonl", split="dev")) == ROWS[2:]
    named = {"path": str(tmp_path / "valid.jsonl"), "test": str(tmp_path / "train.jsonl")}
    assert pairs(list(CORPORA.build({"kind": "files", **named}).read("test"))) == ROWS[:2]


def test_columns_are_mapped_by_name(tmp_path: Path) -> None:
    file = written(tmp_path, "a.csv", "review,mood,text\nfine,1,x\nawful,0,y\n")
    assert pairs(read(file, text="review", label="mood")) == [("fine", "1"), ("awful", "0")]
    with pytest.raises(DataError, match=re.escape('has no column "mod". Did you mean "mood"?')) as caught:
        read(file, label="mod")
    assert "It has: review, mood, text." in str(caught.value)


def test_a_named_column_must_be_there_even_beside_text_alone(tmp_path: Path) -> None:
    file = written(tmp_path, "a.csv", "text\nfine\n")
    with pytest.raises(DataError, match=r'has no column "review".* It has: text'):
        read(file, text="review", label="sentiment")
    with pytest.raises(DataError, match=r'has no column "mood".* It has: text'):
        read(file, label="mood")


def test_plain_text_has_no_columns_to_name(tmp_path: Path) -> None:
    file = written(tmp_path, "a.txt", "One line.\n")
    with pytest.raises(DataError, match=r'is plain text, which has no columns.*"foo"; leave --text out'):
        read(file, text="foo")
    assert [e.text for e in read(file, label=[])] == ["One line."]


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_a_column_that_the_first_row_has_not_is_not_left_out_in_silence(tmp_path: Path, name: str) -> None:
    rows = [{"text": "a"}, {"text": "b", "label": "x"}, {"text": "c", "other": "y"}]
    content = json.dumps(rows) if name == "a.json" else "".join(json.dumps(row) + "\n" for row in rows)
    file = written(tmp_path, name, content)
    with pytest.raises(
        DataError, match=r'(line|row) 2: it has a column "label", which the first row has not'
    ):
        read(file)
    assert pairs(read(file, skip_bad=True)) == [("a", None), ("c", None)]
    assert len(read(file, label=[])) == 3


@pytest.mark.parametrize(
    ("columns", "named", "expected"),
    [
        ("source,target", {"text": "target"}, Example("b")),
        ("question,passage", {"text": "passage"}, Example("b")),
        ("text,label", {"label": "text", "text": "label"}, Example("b", label="a")),
        ("text,summary", {"text": "summary", "target": "summary"}, Example("b", target="b")),
    ],
)
def test_a_column_named_for_one_part_is_no_default_of_another(
    tmp_path: Path, columns: str, named: dict[str, str], expected: Example
) -> None:
    file = written(tmp_path, "a.csv", f"{columns}\na,b\n")
    assert read(file, **named) == [dataclasses.replace(expected, place=f"{file} line 2")]


def test_labels_may_be_truth_values_and_numbers(tmp_path: Path) -> None:
    file = written(tmp_path, "a.jsonl", '{"question": "q", "passage": "p", "answer": true}\n')
    assert read(file) == [Example("q", pair="p", label="true", place=f"{file} line 1")]


BROKEN = {
    "not JSON": ('{"text": "a"}\n{"text": \n', r"a\.jsonl line 2: not JSON \(Expecting value at column 1"),
    "no object": ('{"text": "a"}\n[1]\n', "line 2: a JSON object with columns is needed, this is a list"),
    "no text": ('{"text": "a"}\n{"txt": "b"}\n', 'line 2: it has no column "text"; it has txt'),
    "null": ('{"text": "a"}\n\n{"text": null}\n', 'line 3: its "text" is null, not text'),
    "number": ('{"text": "a"}\n{"text": 5}\n', 'line 2: its "text" is 5, not text'),
    "empty": ('{"text": "a"}\n{"text": "  "}\n', 'line 2: its "text" is empty'),
    "surrogate": (
        '{"text": "a"}\n{"text": "x\\ud800"}\n',
        r"line 2: .* lone surrogate \(U\+D800 at position 1",
    ),
    "NUL": ('{"text": "a"}\n{"text": "x\\u0000"}\n', r"line 2: .* a NUL character \(position 1\)"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_json_row_stops_with_file_line_and_count(tmp_path: Path, case: str) -> None:
    content, message = BROKEN[case]
    file = written(tmp_path, "a.jsonl", content + '{"text": "c"}\n')
    with pytest.raises(DataError, match=message) as caught:
        read(file)
    assert f"1 of 3 rows of {file} cannot be used" in str(caught.value)
    assert "--skip-bad" in str(caught.value)
    assert [e.text for e in read(file, skip_bad=True)] == ["a", "c"]


def test_skipped_rows_are_counted_and_many_are_summed_up(tmp_path: Path) -> None:
    file = written(tmp_path, "a.jsonl", '{"text": "a"}\n' + "{\n" * 12)
    with pytest.raises(DataError, match="12 of 13 rows") as caught:
        read(file)
    assert "… and 7 more." in str(caught.value)
    corpus = CORPORA.build({"kind": "files", "path": str(file), "skip_bad": True})
    assert len(list(corpus.read())) == 1 and corpus.skipped == 12


def test_csv_lines_are_right_after_fields_with_line_breaks(tmp_path: Path) -> None:
    file = written(tmp_path, "a.csv", 'text,label\n"a\nb\nc",x\nshort\n"q"uote,y\nd,z\n')
    with pytest.raises(DataError, match="2 of 4 rows") as caught:
        read(file)
    assert "line 5: it has 1 field where the header has 2" in str(caught.value)
    assert "line 6: not well-formed" in str(caught.value)
    assert pairs(read(file, skip_bad=True)) == [("a\nb\nc", "x"), ("d", "z")]


def test_a_quote_that_is_never_closed_is_placed_where_it_opens(tmp_path: Path) -> None:
    file = written(tmp_path, "a.csv", 'text,label\na,x\n"never closed,y\nmore,z\n')
    with pytest.raises(DataError, match=r"line 3: not well-formed \(unexpected end of data\)"):
        read(file)


@pytest.mark.parametrize(("name", "content"), [("a.txt", "fine\ncafé\n"), ("a.csv", "text\nfine\ncafé\n")])
def test_a_wrong_encoding_is_named_with_its_line(tmp_path: Path, name: str, content: str) -> None:
    file = written(tmp_path, name, content.encode("latin-1"))
    line = 2 + (name == "a.csv")
    with pytest.raises(DataError, match=rf"line {line}: not utf-8 \(byte 0xE9 at character 4\)") as caught:
        read(file)
    assert "--encoding latin-1" in str(caught.value)
    assert "café" in read(file, encoding="latin-1")[-1].text


def test_files_that_are_no_text_at_all(tmp_path: Path) -> None:
    cases = {
        "utf16.txt": ("hello".encode("utf-16"), "give --encoding utf-16"),
        "empty.txt": (b"", r"empty\.txt is empty"),
        "blank.txt": (b"\n \n", "has no text in it"),
        "header.csv": (b"text,label\n", "has no text in it"),
        "twice.csv": (b"text,text\na,b\n", "names a column twice"),
        "cut.jsonl.gz": (gzip.compress(as_jsonl(ROWS * 50).encode())[:-20], "not a whole gzip file"),
        "not.parquet": (b"PAR1 no", "not a whole Parquet file"),
        "other.parquet": (b"text, and nothing but text", "not a whole Parquet file"),
        "bad.json": (b'{"a": \n', r"line 2 is not JSON: Expecting value|line 1 is not JSON"),
        "other.json": (b'{"a": 1}', "neither a list of rows nor SQuAD"),
        "zip.txt": (b"PK\x03\x04abc", "is a zip archive"),
    }
    for name, (content, message) in cases.items():
        with pytest.raises(DataError, match=message) as caught:
            read(written(tmp_path, name, content))
        assert ".." not in str(caught.value)
    assert read(tmp_path / "utf16.txt", encoding="utf-16")[0].text == "hello"
    with pytest.raises(DataError, match='There is no encoding "klingon"'):
        read(written(tmp_path, "k.txt", "x"), encoding="klingon")


def test_nul_and_broken_lines_of_a_text_file(tmp_path: Path) -> None:
    file = written(tmp_path, "a.txt", b"one\n\ntw\0o\n\nthree\n")
    with pytest.raises(DataError, match="line 3: it has a NUL character"):
        read(file)
    assert [e.text for e in read(file, skip_bad=True)] == ["one", "three"]


def test_a_label_outside_the_known_set(tmp_path: Path) -> None:
    file = written(tmp_path, "a.csv", "text,label\na,positive\nb,positve\n")
    with pytest.raises(
        DataError, match='line 3: its label "positve" is not one of negative, positive'
    ) as caught:
        read(file, labels=("negative", "positive"))
    assert 'Did you mean "positive"' in str(caught.value)


def test_a_path_that_is_not_there_names_the_nearest(tmp_path: Path) -> None:
    written(tmp_path, "reviews.csv", "text\na\n")
    with pytest.raises(DataError, match=r'There is no file ".*review\.csv"\. Did you mean "reviews\.csv"'):
        read(tmp_path / "review.csv")
    with pytest.raises(ConfigError, match="holds no file of a known format"):
        (tmp_path / "empty").mkdir()
        read(tmp_path / "empty")


def test_the_fingerprint_follows_text_and_settings(tmp_path: Path) -> None:
    file = written(tmp_path, "a.txt", "one\n\ntwo\n")

    def fingerprint(**options: Any) -> str:
        return CORPORA.build({"kind": "files", "path": str(file), **options}).fingerprint()

    before = fingerprint()
    assert fingerprint() == before
    assert fingerprint(unit="line") != before
    written(tmp_path, "a.txt", "one\n\ntwi\n")
    assert fingerprint() != before


def test_a_file_beside_named_splits_is_not_left_out_in_silence(tmp_path: Path) -> None:
    written(tmp_path, "train.csv", as_csv(ROWS[:2]))
    written(tmp_path, "test.csv", as_csv(ROWS[2:]))
    written(tmp_path, "README.md", "What this is.")
    assert pairs(read(tmp_path, split="train")) == ROWS[:2]
    written(tmp_path, "more.csv", as_csv(ROWS))
    with pytest.raises(DataError, match=r"more\.csv belongs to no split, .* train\.csv in its folder does"):
        read(tmp_path)


def test_a_given_dev_file_is_not_trained_on(tmp_path: Path) -> None:
    written(tmp_path, "train.csv", as_csv(ROWS[:2]))
    dev = written(tmp_path, "dev.csv", as_csv(ROWS[2:]))
    assert pairs(read(tmp_path, dev=str(dev))) == ROWS[:2]
    assert pairs(read(tmp_path, split="dev", dev=str(dev))) == ROWS[2:]
