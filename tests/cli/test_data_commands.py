"""The commands, as a person calls them: numbers on the screen, JSON for machines, mistakes in a sentence."""

import json
import re
import subprocess
import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from attnlab import cli
from attnlab.cli.console import fail
from attnlab.config.values import ConfigError
from attnlab.config.visible_text import visible
from attnlab.data.corpora.embedded import PythonDocs
from attnlab.data.example import Example
from attnlab.data.inspection import SplitReport, histogram
from attnlab.data.splits import Splits
from attnlab.documents.nodes import Marked, token_spans
from attnlab.documents.terminal import PlainConsole, in_lines, token_pieces

RUNNER = CliRunner()


def called(*arguments: str | Path) -> str:
    result = RUNNER.invoke(cli.app, list(map(str, arguments)), catch_exceptions=True)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    file = tmp_path / "reviews.csv"
    moods = ["good", "good", "bad"]
    rows = [f"film number {i} was {moods[i % 3]},{moods[i % 3]}" for i in range(90)]
    file.write_text("\n".join(["review,sentiment", *rows, rows[0], rows[1]]) + "\n")
    return file


def inspected(*arguments: str | Path) -> dict[str, Any]:
    return dict(json.loads(called("data", "inspect", *arguments, "--json")))


def test_inspect_counts_rows_classes_duplicates_and_padding(reviews: Path) -> None:
    arguments = (reviews, "--text", "review", "--label", "sentiment", "--length", "16")
    report = inspected(*arguments, "--set", "data.dev_share=0", "--set", "data.test_share=0")
    train = report["splits"]["train"]
    assert (train["rows"], train["duplicates"], train["classes"]) == (92, 2, {"good": 62, "bad": 30})
    assert train["majority"] == {"label": "good", "share": 62 / 92}
    assert sum(b["count"] for b in train["histogram"]) == 92
    assert report["encoding"] == "single"
    assert set(report["waste"]) == {"padded", "longest_first", "bucketed", "packed"}
    assert report["waste"]["longest_first"] <= report["waste"]["padded"]
    assert report["samples"][0]["text"] == "film number 0 was good"
    assert report["samples"][0]["tokens"][0] == "<START>"


def test_inspect_finds_the_overlap_of_given_splits(reviews: Path, tmp_path: Path) -> None:
    dev = tmp_path / "dev.csv"
    dev.write_text("review,sentiment\nFILM number 3  was good,good\nnever seen before,bad\n")
    report = inspected(reviews, "--text", "review", "--dev", dev, "--set", "data.test_share=0")
    assert report["overlap"] == {"train and dev": 1}


def questions(file: Path, asked: str, passages: range) -> Path:
    rows = [{"question": f"{asked} {n}?", "passage": f"This is passage {n}."} for n in passages]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def test_inspect_counts_passages_that_two_splits_share(tmp_path: Path) -> None:
    train = questions(tmp_path / "a.jsonl", "who", range(60))
    dev = questions(tmp_path / "b.jsonl", "why", range(20, 60))
    arguments = (train, "--dev", dev, "--set", "data.test_share=0")
    report = inspected(*arguments)
    assert report["overlap"] == {"train and dev": 0}
    assert report["passages"] == {"train and dev": {"count": 40, "of": 40, "what": "passages"}}
    shown = " ".join(called("data", "inspect", *arguments).split())
    assert "0 examples of dev are in train, but 40 of 40 passages are" in shown
    assert "No text is in two splits" not in shown
    questions(dev, "why", range(60, 70))
    assert "✓ No text is in two splits" in called("data", "inspect", *arguments)


def test_inspect_shows_answers_their_share_and_the_windows_of_a_question(tmp_path: Path) -> None:
    passage = " ".join(f"Ægir brewed ale number {n}." for n in range(40))
    asked = [
        {"question": f"Who brewed {n}?", "answers": [{"text": "Ægir", "answer_start": 0}]} for n in range(3)
    ]
    asked += [{"question": "Why?", "answers": []}]
    held = {"data": [{"title": "Sea", "paragraphs": [{"context": passage, "qas": asked}]}]}
    file = tmp_path / "squad.json"
    file.write_text(json.dumps(held))
    arguments = (file, "--length", "100", "--set", "data.dev_share=0", "--set", "data.test_share=0")
    first, second, *_ = inspected(*arguments)["samples"]
    assert (first["answer"], first["window"], second["answer"], second["window"]) == ("Ægir", 1, "", 2)
    shown = " ".join(called("data", "inspect", *arguments).split())
    assert "with an answer 3 (75.0%)" in shown and "without one 1 (25.0%)" in shown
    assert f"→ Ægir (window 1 of {first['windows']} of one question)" in shown
    assert f"→ no answer here (window 2 of {first['windows']} of one question)" in shown


def test_inspect_shows_it_all_to_a_person(reviews: Path) -> None:
    shown = called("data", "inspect", reviews, "--text", "review", "--length", "8")
    for part in (
        "majority share",
        "longest_first",
        "█",
        "No text is in two splits",
        "<START>|film",
        "→ good",
    ):
        assert part in shown


@pytest.mark.parametrize("tokenizer", ["character", "bpe", "word"])
def test_control_characters_of_the_data_never_reach_the_terminal(tmp_path: Path, tokenizer: str) -> None:
    raw = "\x1b[31mred \x07bell\x7f \x85next \x9b2J"
    file = tmp_path / "a.jsonl"
    rows = [{"text": f"{raw} {n}", "label": f"{raw[:6]}{n % 2}"} for n in range(60)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    shown = called("data", "inspect", file, "--tokenizer", tokenizer)
    assert not {c for c in shown if unicodedata.category(c) == "Cc"} - {"\n"}
    assert "␛" in shown
    assert "\\x85" in visible(raw) and "␡" in visible(raw) and visible("a\n\tb") == "a⏎⇥b"


def test_an_error_quotes_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    fail("the label \x1b[31mred is not known.\nUse another.")
    assert capsys.readouterr().err.splitlines() == ["Error: the label ␛[31mred is not known.", "Use another."]


def test_inspect_says_which_splits_it_took_out_of_train(reviews: Path, tmp_path: Path) -> None:
    dev = tmp_path / "dev.csv"
    dev.write_text("review,sentiment\nnever seen before,bad\n")
    arguments = (reviews, "--text", "review", "--dev", dev)
    assert inspected(*arguments)["made"] == {"test": 0.05}
    shown = " ".join(called("data", "inspect", *arguments).split())
    assert "Taken out of train, since no file is given: test (5%), set by data.test_share." in shown
    assert "Taken out" not in called("data", "inspect", *arguments, "--test", dev)


def test_classes_and_the_majority_have_one_base(tmp_path: Path) -> None:
    report = SplitReport(rows=10, classes={"a": 3, "b": 1})
    assert report.majority == ("a", 0.75) and report.labelled == 4
    file = tmp_path / "a"
    file.mkdir()
    (file / "1.csv").write_text("text,label\n" + "".join(f"one {n},{'ab'[n % 4 == 0]}\n" for n in range(40)))
    (file / "2.csv").write_text("text\n" + "".join(f"two {n}\n" for n in range(40)))
    settings = ("--set", "data.encoding=document", "--set", "data.dev_share=0", "--set", "data.test_share=0")
    shown = " ".join(called("data", "inspect", file, *settings).split())
    assert "Classes, shares of the rows with a label (40 have none)" in shown
    assert "a 30 (75.0%)" in shown and "majority share 75.00%" in shown


def test_a_histogram_of_few_lengths_has_few_rows_and_none_before_the_shortest() -> None:
    assert [(b.label, b.count) for b in histogram([7, 7, 8, 9])] == [("7", 2), ("8", 1), ("9", 1)]
    assert [(b.label, b.count) for b in histogram([3, 31, 58])] == [("0–49", 2), ("50–99", 1)]
    assert [(b.label, b.count) for b in histogram([5])] == [("5", 1)]
    many = [n % 100 for n in range(1000)] + [5000]
    assert [b.label for b in histogram(many)] == [*(f"{n}–{n + 9}" for n in range(0, 100, 10)), "100–5000"]
    assert sum(b.count for b in histogram(many)) == 1001


def test_no_line_of_a_sample_ends_inside_a_token() -> None:
    tokens = [" several words", " of", " one token", " each"] * 9
    lines = in_lines(token_pieces(Marked(token_spans(tokens)), PlainConsole()), 30).plain.split("\n")
    assert max(map(len, lines)) <= 30 and all(line.startswith(" ") for line in lines)
    assert "".join(lines).split("|") == tokens


def test_piped_output_begins_with_the_report(reviews: Path) -> None:
    result = run("data", "inspect", str(reviews), "--text", "review")
    assert result.stdout.startswith(str(reviews)[:20]) and result.stderr == ""


def test_broken_rows_stop_inspect_and_can_be_skipped(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text("".join(json.dumps({"text": f"text {i} of many"}) + "\n" for i in range(60)) + "{\n")
    with pytest.raises(ConfigError, match="line 61: not JSON"):
        called("data", "inspect", file)
    assert inspected(file, "--skip-bad")["skipped"] == 1


def test_a_label_that_only_the_made_dev_split_has_is_told_as_such(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    rows = [f"text number {n},a" for n in range(30)]
    sides = [Splits(PythonDocs()).side(Example(row.split(",")[0])) for row in rows]
    rows[sides.index("dev")] = rows[sides.index("dev")][:-1] + "b"
    file.write_text("\n".join(["text,label", *rows]) + "\n")
    with pytest.raises(
        ConfigError, match=r'"b" at .* occurs only outside the training split.*data\.split_seed'
    ):
        called("data", "inspect", file)


def test_an_option_that_says_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="--label has no effect for python_source"):
        called("data", "inspect", "python-source", "--label", "x")
    with pytest.raises(ConfigError, match=r"takes settings of \[data\] only"):
        called("data", "inspect", "docstrings", "--set", "model.width=3")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("data", "inspect", "boool"),
            r'^FILE: there is neither a file nor a corpus "boool"\. Known: python_',
        ),
        (
            ("data", "inspect", "docstrings", "--tokenizer", "bep"),
            r'^--tokenizer: there is neither a file nor a kind "bep"\. Did you mean "bpe"\?',
        ),
        (
            ("data", "inspect", "README.md", "--unit", "word"),
            "^--unit takes one of document, paragraph, line",
        ),
        (("tokenizer", "train", "README.md", "--unit", "word"), "^--unit takes one of document, paragraph"),
    ],
)
def test_a_mistake_names_what_was_typed(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        called(*arguments)


def test_train_writes_a_tokenizer_that_compare_reads(reviews: Path, tmp_path: Path) -> None:
    saved = tmp_path / "made" / "tokenizer.json"
    arguments = ("--text", "review", "--kind", "bpe", "--vocabulary", "290", "--out", saved, "--json")
    trained = json.loads(called("tokenizer", "train", reviews, *arguments))
    assert trained["file"] == str(saved) and trained["vocabulary"] == 290 and trained["exact"] == 1
    compared = json.loads(
        called("tokenizer", "compare", saved, "character", "--on", reviews, "--text", "review", "--json")
    )
    measures = compared["measures"]
    assert set(measures) == {f"{tmp_path.name}/made", "character", "new (bpe)"}
    assert measures["character"]["bytes_per_token"] == 1
    assert compared["verdict"]["worth"] in ("yes", "no", "unclear")
    shown = called("tokenizer", "compare", saved, "character", "--on", reviews, "--text", "review")
    assert "Is a new tokenizer worth training" in shown and "f|i|l|m" in shown


@pytest.fixture
def poem(tmp_path: Path) -> Path:
    """One line a sentence, and no blank line: as one text it is too little."""
    file = tmp_path / "poem.txt"
    file.write_text("".join(f"The  cat number {n} sat\ton mat {n * 7}.\n" for n in range(200)))
    return file


def test_a_text_of_one_paragraph_is_compared_by_line(poem: Path) -> None:
    shown = " ".join(called("tokenizer", "compare", "word", "character", "--on", poem).split())
    assert re.search(r"on \d+ lines of ", shown)
    with pytest.raises(ConfigError, match="1 texts are too few"):
        called("tokenizer", "compare", "word", "character", "--on", poem, "--unit", "document")


def test_a_kind_that_is_compared_is_the_new_one(poem: Path, tmp_path: Path) -> None:
    saved = tmp_path / "made" / "tokenizer.json"
    called("tokenizer", "train", poem, "--kind", "character", "--out", saved)
    compared = json.loads(called("tokenizer", "compare", saved, "bpe", "--on", poem, "--json"))
    old, new = f"{tmp_path.name}/made", "bpe"
    assert list(compared["measures"]) == [old, new]
    tokens = {name: measure["tokens"] for name, measure in compared["measures"].items()}
    assert compared["verdict"]["saving"] == pytest.approx(1 - tokens[new] / tokens[old])
    assert "a new bpe needs" in compared["verdict"]["text"] and f"than {old} (" in compared["verdict"]["text"]
    with pytest.raises(ConfigError, match='A and B are both "bpe"'):
        called("tokenizer", "compare", "bpe", "bpe", "--on", poem)


def test_train_measures_what_is_given_back_by_line_and_explains_it(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("red blue\n" * 30 + "red, blue\n" * 10)
    arguments = ("--kind", "word", "--out", tmp_path / "t.json")
    assert json.loads(called("tokenizer", "train", file, *arguments, "--json"))["exact"] == 0.75
    assert "share of lines that encoding and decoding return" in called(
        "tokenizer", "train", file, *arguments
    )


def test_train_says_when_the_text_does_not_fill_the_vocabulary(poem: Path, tmp_path: Path) -> None:
    arguments = ("tokenizer", "train", poem, "--out", tmp_path / "t.json", "--vocabulary")
    assert "entries asked for" not in called(*arguments, "290")
    shown = " ".join(called(*arguments, "10000000").split())
    assert "of the 10,000,000 entries asked for: nothing more occurs often enough" in shown


def test_samples_show_line_ends_as_inspect_does(poem: Path, tmp_path: Path) -> None:
    assert "⏎" in called("tokenizer", "train", poem, "--out", tmp_path / "t.json")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = "from attnlab.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )


def test_a_mistake_is_a_sentence_and_exit_code_2(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("review\ngood\n")
    result = run("data", "inspect", str(file), "--text", "revew")
    assert result.returncode == 2 and "Traceback" not in result.stderr
    assert 'has no column "revew". Did you mean "review"?' in result.stderr


def test_help_needs_no_heavy_library() -> None:
    heavy = ["torch", "numpy", "tokenizers", "datasets", "pyarrow", "transformers"]
    code = f"import sys, attnlab.cli; sys.exit(', '.join(m for m in {heavy} if m in sys.modules) or 0)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
