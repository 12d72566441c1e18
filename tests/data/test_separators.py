"""Tables whose columns are separated by semicolons, tabs or bars, and numbers with a decimal comma."""

import csv
import json

import pytest

from attnlab.checks.source import source_of_corpus
from attnlab.config.files import identity, load
from attnlab.config.values import ConfigError
from attnlab.data.corpora import CORPORA
from attnlab.data.corpora.own_files import Files
from attnlab.data.errors import DataError
from attnlab.data.example import Example
from attnlab.data.labels import number_in, number_of
from tests.session.commands import answer, command

ROWS = [
    ("Ein Film, der gefällt; wirklich", "3,5"),
    ('Er sagte "nein", sofort', "1,0"),
    ("zwei\nZeilen | und ein Tab\t.", "0,125"),
    ("ohne alles", "2"),
]
SIGNS = {",": ",", ";": ";", "tab": "\t", "|": "|"}


def written(file, separator, rows=ROWS, header=("text", "label")):
    with file.open("w", newline="", encoding="utf-8") as stream:
        table = csv.writer(stream, delimiter=SIGNS[separator])
        table.writerow(header)
        table.writerows(rows)
    return file


@pytest.mark.parametrize("separator", SIGNS)
def test_the_separator_is_found(tmp_path, separator):
    """Whatever the texts hold of the other signs; the second reading of the checks finds the same."""
    file = written(tmp_path / "rows.csv", separator)
    corpus = Files(path=str(file))
    assert [(example.text, example.label) for example in corpus.read()] == ROWS
    assert corpus.separators() == {file: separator}
    source = source_of_corpus(corpus)
    assert [(row.text, row.values["label"]) for row in source.every] == ROWS
    assert [row.place for row in source.every] == [example.place for example in corpus.read()]


def test_a_header_with_a_comma_is_judged_by_its_rows(tmp_path):
    file = written(tmp_path / "rows.csv", ";", ROWS, header=("text", "label, neu"))
    examples = list(Files(path=str(file), label="label, neu").read())
    assert [example.label for example in examples] == [label for _, label in ROWS]


def test_commas_stay_where_nothing_else_fits(tmp_path):
    """A single column, and a table with a broken row, whose line is told as before."""
    (one := tmp_path / "one.csv").write_text('text\n"a; b, c"\nd | e\n')
    assert [example.text for example in Files(path=str(one)).read()] == ["a; b, c", "d | e"]
    (broken := tmp_path / "broken.csv").write_text("text,label\na;b,x\nonly;one\nc,y\n")
    with pytest.raises(DataError, match=r"line 3: it has 1 field where the header has 2"):
        list(Files(path=str(broken)).read())


def test_the_separator_can_be_said(tmp_path):
    """Where the first rows mislead; a .tsv is tabs unless another is said."""
    (file := tmp_path / "rows.csv").write_text("text,x;label,y\na,b;c,d\n")
    assert next(Files(path=str(file), text="text").read()).text == "a"
    assert next(Files(path=str(file), text="text,x", separator=";").read()).text == "a,b"
    bars = written(tmp_path / "rows.tsv", "|")
    assert [example.text for example in Files(path=str(bars), separator="|").read()] == [t for t, _ in ROWS]
    wanted = {"data": {"corpus": str(file)}}
    assert load(wanted, set=["data.corpus.separator=;"]).data.corpus.options["separator"] == ";"
    with pytest.raises(ConfigError, match=r"separator"):
        CORPORA.resolve({"kind": "files", "path": str(file), "separator": "x"})
    assert Files(path=str(file)).fingerprint() != Files(path=str(file), separator=";").fingerprint()


def test_what_was_recorded_before_stays_equal(tmp_path):
    """An option that came later is not in a config where it is at its default."""
    wanted = {"data": {"corpus": str(written(tmp_path / "rows.csv", ","))}}
    config = load(wanted)
    assert "separator" not in config.data.corpus.options
    said = load(wanted, set=["data.corpus.separator=auto"])
    assert identity(said) == identity(config)
    assert CORPORA.build(config.data.corpus).separator == "auto"


# ---------------------------------------------------------------- numbers
@pytest.mark.parametrize(
    ("text", "number"),
    [("3,5", 3.5), ("-0,125", -0.125), ("1.250,75", 1250.75), ("1250,125", 1250.125), ("3.5", 3.5), ("7", 7)],
)
def test_a_decimal_comma_is_read(text, number):
    assert number_in(text) == number and number_of(Example("t", label=text)) == number


@pytest.mark.parametrize("text", ["1,250", "-12,500"])
def test_what_may_be_two_numbers_is_refused(text):
    with pytest.raises(DataError, match=r"may be .*; write numbers with a decimal point"):
        number_of(Example("t", label=text, place="x.csv line 2"))


@pytest.mark.parametrize("text", ["1,2,3", "a,b", "1,", "1.2,3"])
def test_what_is_no_number_is_none(text):
    with pytest.raises(ValueError):
        number_in(text)


def test_the_commands_say_what_they_found(tmp_path):
    file = written(
        tmp_path / "rows.csv", ";", [(f"{text} {n}", label) for n in range(8) for text, label in ROWS]
    )
    said = " ".join(command("data", "inspect", file, "--tokenizer", "character").output.split())
    assert "are separated by semicolons" in said
    assert "24 labels with a decimal comma" in said and "3,5 is read as 3.5" in said
    found = answer("data", "inspect", file, "--tokenizer", "character", "--separator", ";")
    assert found["separators"] == {str(file): ";"} and found["quality"]["decimal_commas"] == 24
    refused = command("data", "inspect", file, "--separator", ":")
    assert "--separator" in str(refused.exception)
    assert json.dumps(found)
