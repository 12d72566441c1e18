"""`attnlab score` and `lab.score`: what a person can follow by hand, and what is refused."""

import json

import pytest
from typer.testing import CliRunner

import attnlab as lab
from attnlab.cli import app
from attnlab.config.values import ConfigError
from attnlab.data.errors import DataError
from attnlab.metrics import METRICS
from tests.metrics.noisy_texts import written

WORKED = (
    "The fast brown fox jumps over the lazy dog near the river",
    "The quick brown fox jumps over the lazy dog near the river",
)


def lines(file, texts):
    file.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return str(file)


def asked(*arguments):
    """Standard output of a command that ends well."""
    result = CliRunner().invoke(app, ["score", *arguments], env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_worked_example_of_bleu(tmp_path):
    texts, references = (lines(tmp_path / name, [text]) for name, text in zip("ab", WORKED, strict=True))
    arguments = ("--hypotheses", texts, "--references", references)
    shown = " ".join(asked(*arguments).split())
    assert "= 1 · (11/12 · 9/11 · 8/10 · 7/9)^¼ = 0.8265." in shown
    assert "12 words were written, the references have 12." in shown
    assert "BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:" in shown
    (system,) = json.loads(asked(*arguments, "--json"))["systems"]
    assert system["bleu"]["matches"] == [11, 9, 8, 7] and system["bleu"]["totals"] == [12, 11, 10, 9]
    assert (
        round(system["bleu"]["value"] / 100, 4)
        == 0.8265
        == round(system["measures"]["bleu"]["value"] / 100, 4)
    )
    assert system["bleu"]["brevity_penalty"] == 1 and "interval" not in system["measures"]["bleu"]


def test_python_gives_what_the_command_gives(tmp_path):
    examples = written(n=40, references=2)
    texts, pairs = examples["generated"].tolist(), list(zip(*examples["reference"].tolist(), strict=True))
    result = lab.score(texts, pairs)
    assert result["bleu"] == METRICS.build("bleu").value(examples)
    files = [lines(tmp_path / str(n), texts) for n, texts in enumerate((texts, *pairs))]
    options = ("--hypotheses", files[0], "--references", files[1], "--references", files[2])
    (system,) = json.loads(asked(*options, "--json"))["systems"]
    own = result.as_json()["systems"][0]
    assert system["measures"] == own["measures"] and "nrefs:2" in system["measures"]["chrf"]["signature"]
    low, high = own["measures"]["bleu"]["interval"]
    assert low < result["bleu"] < high and "BLEU" in repr(result)
    assert [one["outcome"] for one in system["checks"]] == ["pass"] * 3


def test_two_systems_are_compared_line_by_line(tmp_path):
    one, other = written(n=60, skill=0.6), written(n=60, skill=0.9)
    right = one["reference"].tolist()
    assert right == other["reference"].tolist()
    result = lab.score({"old": one["generated"].tolist(), "new": other["generated"].tolist()}, right)
    (bleu, *_) = result.as_json()["differences"]
    wanted = METRICS.build("bleu").difference(other, one)
    assert (bleu["value"], bleu["low"], bleu["high"]) == (wanted.value, wanted.low, wanted.high)
    assert (bleu["name"], bleu["baseline"]) == ("new", "old") and bleu["low"] > 0
    files = [lines(tmp_path / name, texts["generated"]) for name, texts in (("old", one), ("new", other))]
    given = [part for file in files for part in ("--hypotheses", file)]
    shown = asked(*given, "--references", lines(tmp_path / "right", right))
    assert "beyond chance" in shown and shown.count("BLEU / 100") == 2
    same = lab.score({"a": right, "b": right}, right)
    assert {one["value"] for one in same.as_json()["differences"]} == {0}


def test_columns_of_tables_are_texts(tmp_path):
    examples = written(n=12)
    rows = zip(examples["generated"], examples["reference"], strict=True)
    said = tmp_path / "said.jsonl"
    said.write_text("".join(json.dumps({"generated": a, "reference": b}) + "\n" for a, b in rows))
    table = lines(tmp_path / "dev.tsv", ["source\ttarget", *(f"x\t{text}" for text in examples["reference"])])
    value = METRICS.build("chrf").value(examples)
    for references in (str(said), f"{table}:target"):
        result = json.loads(asked("--hypotheses", str(said), "--references", references, "--json"))
        assert result["systems"][0]["measures"]["chrf"]["value"] == value
    with pytest.raises(DataError, match=r'no column "reference", only source, target.*dev\.tsv:target'):
        lab.score(str(said), table)


def test_faults_of_files_are_told_with_the_scores(tmp_path):
    right = written(n=40)["reference"].tolist()
    texts, references = (lines(tmp_path / name, right) for name in ("texts", "references"))
    shown = " ".join(asked("--hypotheses", texts, "--references", references).split())
    assert shown.startswith("All 40 lines are equal to their references.")
    copies = lab.score(right[::-1], right, sources=right[::-1]).systems[0].checks
    assert "copied" in {finding.kind for finding in copies}


def test_texts_of_few_words_have_no_bleu():
    """Of numbers it would be 0, however many are right."""
    numbers = [str(number) for number in range(100, 160)]
    result = lab.score([*numbers[:50], *["7"] * 10], numbers)
    (system,) = result.as_json()["systems"]
    assert "bleu" not in system["measures"] and system["bleu"] is None
    assert result["exact_text"] == 50 / 60 and "No reference has four words" in repr(result)
    assert [finding["outcome"] for finding in system["checks"]] == ["pass"] * 3


def test_what_cannot_be_scored_is_refused(tmp_path):
    three, two = lines(tmp_path / "three.txt", "abc"), lines(tmp_path / "two.txt", "ab")
    with pytest.raises(DataError, match=r"three\.txt has 3 lines and the references 2"):
        lab.score(three, two)
    with pytest.raises(DataError, match=r"3 lines and the references 2 2"):
        lab.score(["a", "b", "c"], [["a", "b", "c"], ["a", "b"]])
    with pytest.raises(DataError, match=r"3 lines and the sources 2"):
        lab.score(three, three, sources=two)
    with pytest.raises(DataError, match="is empty; it needs a line for each example"):
        lab.score(lines(tmp_path / "none.txt", ""), two)
    (tmp_path / "latin.txt").write_bytes("é\nb\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"latin\.txt line 1: not utf-8 .*--encoding latin-1"):
        lab.score(tmp_path / "latin.txt", two)
    asked("--hypotheses", str(tmp_path / "latin.txt"), "--references", two, "--encoding", "latin-1")
    with pytest.raises(DataError, match="There is no file missing"):
        lab.score("missing.txt", two)
    with pytest.raises(ConfigError, match="Text 2 is a NoneType"):
        lab.score(["a", None], ["a", "b"])
    assert "given twice" in str(CliRunner().invoke(app, ["score", *["--hypotheses", two] * 2]).exception)
