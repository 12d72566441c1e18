"""Files of text and tokenizers that were cut, flipped or made to break: a sentence that names the file."""

import gzip
import json
import random

import pytest
import tokenizers
from tokenizers import models, pre_tokenizers, trainers

from attnlab.data.corpora.own_files import Files
from attnlab.data.corpora.readers import reader_of
from attnlab.data.errors import DataError
from attnlab.data.tokenizers.tokenizer_files import load


@pytest.fixture(scope="module")
def parquet(tmp_path_factory):
    import pyarrow
    import pyarrow.parquet

    file = tmp_path_factory.mktemp("parquet") / "rows.parquet"
    rows = [{"text": f"row {n} with some words", "label": "ab"[n % 2]} for n in range(3000)]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), file, row_group_size=500)
    return file


def test_parquet_with_any_damage_is_read_or_named(parquet, tmp_path):
    whole, pick, file, refused = parquet.read_bytes(), random.Random(0), tmp_path / "cut.parquet", 0
    assert len(list(Files(path=str(parquet)).read())) == 3000
    for attempt in range(60):
        content = bytearray(whole)
        if attempt % 3 == 0:
            del content[pick.randrange(len(content)) :]
        else:
            for _ in range(attempt % 7 + 1):
                content[pick.randrange(len(content))] ^= 1 << pick.randrange(8)
        file.write_bytes(content)
        try:
            list(Files(path=str(file), skip_bad=True).read())
        except DataError as error:
            refused += 1
            assert str(file) in str(error)
    assert refused > 20


@pytest.fixture
def gpt2(tmp_path):
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    made.train_from_iterator(["the cat and the hat and the bat"] * 9, trainer)
    made.save(str(tmp_path / "tokenizer.json"))
    made.model.save(str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("number", [2**31, 2**63, -1, 1.5, "7", None, True, 10**30])
def test_ids_that_are_no_rows_of_a_table_are_refused_before_the_library_makes_room(gpt2, number):
    for name in ("tokenizer.json", "vocab.json"):
        file = gpt2 / name
        held = json.loads(file.read_text())
        vocabulary = held["model"]["vocab"] if name == "tokenizer.json" else held
        vocabulary["a"] = number
        file.write_text(json.dumps(held))
        with pytest.raises(DataError, match=r"gives the token 'a' the id .*; ids of \d+ tokens are whole"):
            load(file)


@pytest.mark.parametrize(
    "content, words",
    [
        (b"#version: 0.2\nt h\n\xff\xfe e\n", r"merges.txt is not UTF-8 \(byte 0xFF at 18\)"),
        (b"#version: 0.2\nt h e\n", "is not two parts"),
        (b"#version: 0.2\nqq zz\n", "merges.txt and its vocabulary do not go together"),
    ],
)
def test_broken_merges_are_named(gpt2, content, words):
    (gpt2 / "merges.txt").write_bytes(content)
    with pytest.raises(DataError, match=words):
        load(gpt2 / "vocab.json")


def test_merges_that_make_the_library_panic_are_one_sentence(gpt2, capfd):
    """A merge of more bytes than any token has, whose outcome the vocabulary lacks."""
    held = json.loads((gpt2 / "vocab.json").read_text())
    (gpt2 / "vocab.json").write_text(json.dumps(held | {"ä½łå¥½": len(held)}))
    (gpt2 / "merges.txt").write_text("#version: 0.2\nĠ ä½łå¥½\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"merges\.txt and its vocabulary do not go together"):
        load(gpt2 / "vocab.json")
    assert "panicked" not in capfd.readouterr().err


def test_a_post_processor_whose_ids_are_beyond_the_table_is_refused(gpt2):
    held = json.loads((gpt2 / "tokenizer.json").read_text())
    pieces = [{"SpecialToken": {"id": "[X]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    second = [*pieces, {"Sequence": {"id": "B", "type_id": 0}}]
    template = {"type": "TemplateProcessing", "single": pieces, "pair": second}
    special = {"[X]": {"id": "[X]", "ids": [9999], "tokens": ["a"]}}
    held["post_processor"] = template | {"special_tokens": special}
    (gpt2 / "tokenizer.json").write_text(json.dumps(held))
    with pytest.raises(DataError, match="puts the id 9,999 next to a text"):
        load(gpt2)


def test_a_post_processor_that_makes_the_library_panic_is_one_sentence(gpt2, capfd):
    held = json.loads((gpt2 / "tokenizer.json").read_text())
    pieces = [{"SpecialToken": {"id": "[X]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    held["post_processor"] = {
        "type": "TemplateProcessing",
        "single": pieces,
        "pair": pieces,
        "special_tokens": {},
    }
    (gpt2 / "tokenizer.json").write_text(json.dumps(held))
    with pytest.raises(DataError, match=r"is not a tokenizer.json that can be read"):
        load(gpt2)
    assert "panicked" not in capfd.readouterr().err


def test_a_word_list_with_other_bytes_is_named(tmp_path):
    (tmp_path / "vocab.txt").write_bytes(b"[UNK]\n[CLS]\nna\xefve\n")
    with pytest.raises(DataError, match=r"vocab.txt is not UTF-8 \(byte 0xEF at 14\)"):
        load(tmp_path)


DIGITS = "9" * 5000


@pytest.mark.parametrize(
    ("value", "words"),
    [(DIGITS, "more than 4,300 digits"), ("[" * 9999, "nested too deep")],
)
def test_json_that_python_does_not_read_is_one_sentence(tmp_path, value, words):
    tail = "]" * (len(value) if value[0] == "[" else 0)
    row = f'{{"text": "a row", "number": {value}{tail}}}'
    for name, content in {
        "list.json": f"[{row}]",
        "squad.json": f'{{"data": [{row}]}}',
        "lines.jsonl": row,
    }.items():
        (tmp_path / name).write_text(content)
        with pytest.raises(DataError, match=words) as refused:
            list(Files(path=str(tmp_path / name)).read("train"))
        assert name in str(refused.value) and len(str(refused.value)) < 600


@pytest.mark.parametrize("start", [DIGITS, "[" * 9999, "7" * 4000])
def test_an_answers_place_that_is_none_is_told_in_short(tmp_path, start):
    row = {"question": "who sees?", "context": "the cat sees a dog", "answers": "the cat", "answer_start": 0}
    row["answers" if start[0] == "[" else "answer_start"] = start
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    with pytest.raises(DataError, match="answer") as refused:
        list(Files(path=str(tmp_path / "rows.jsonl")).read("train"))
    assert len(str(refused.value)) < 900


@pytest.mark.parametrize("name", ["long.txt.gz", "long.jsonl.gz", "long.csv.gz", "long.json.gz"])
def test_a_line_of_more_than_the_memory_is_refused_while_it_is_read(tmp_path, monkeypatch, name):
    """Some kilobytes of gzip, and not the many megabytes that they stand for, are read."""
    monkeypatch.setattr("attnlab.data.corpora.file_bytes.machine_bytes", lambda: 1 << 24)
    file = tmp_path / name
    file.write_bytes(gzip.compress(b'text,label\n"' + b"a" * (1 << 26)))
    with pytest.raises(DataError, match=r"long.* (is|has a line of) more than 0.0 GiB, too much"):
        list(Files(path=str(file)).read())


def test_lines_that_fit_are_read_however_many(tmp_path, monkeypatch):
    monkeypatch.setattr("attnlab.data.corpora.file_bytes.machine_bytes", lambda: 1 << 16)
    file = tmp_path / "rows.txt.gz"
    file.write_bytes(gzip.compress(b"some words\n" * (1 << 13)))
    assert sum(1 for _ in Files(path=str(file), unit="line").read()) == 1 << 13


def test_a_device_is_no_file(tmp_path):
    """It may have no end: /dev/zero has none."""
    (tmp_path / "zero.csv").symlink_to("/dev/zero")
    with pytest.raises(DataError, match=r"zero.csv is a folder, pipe or device"):
        list(reader_of(tmp_path / "zero.csv")(tmp_path / "zero.csv", "utf-8", "line"))


def test_an_encoding_that_no_name_can_be_is_told(tmp_path):
    (tmp_path / "a.txt").write_text("some words")
    with pytest.raises(DataError, match="There is no encoding"):
        list(Files(path=str(tmp_path / "a.txt"), encoding="utf\0").read())
