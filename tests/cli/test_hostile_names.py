"""Folders, files, labels, columns and texts that are markup and control characters: every command shows
them as they are, and no byte of them acts on the terminal."""

import base64
import csv
import gzip
import io
import json
import re
import shutil

import pytest
from typer.testing import CliRunner

import attnlab as lab
from attnlab.cli import app
from attnlab.config.visible_text import CONTROLS
from tests.training.small_run import WHO, for_task, merged, sentences, settings

pytestmark = pytest.mark.usefixtures("unchecked")

PLACE = "runs/[red]a[/b]\n\u202e\x1b[2J:smile:"
SHOWN = "runs/[red]a[/b]⏎\\u202e␛[2J:smile:"
LABELS = ("=1+1 [red", "x] \x1b]0;title\x07\u200f\nnext", ":smile: \x9b31m [/]")
SHORT = {"training": {"budget": {"steps": 2}, "evaluate_every": 2, "checkpoint_every": 2}}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Rows with hostile labels and columns, and configs of runs that read them."""
    folder = tmp_path_factory.mktemp("hostile")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        rows = [
            {"=text": f"{one} \x1b[2J\u202e", "[/label]": LABELS[n % 3]} for n, one in enumerate(sentences())
        ]
        (folder / "[rows].jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        corpus = {"kind": "files", "path": "[rows].jsonl", "text": "=text", "label": "[/label]"}
        chosen = merged(merged(settings(folder), for_task("classification", folder)), SHORT)
        (folder / "small.json").write_text(json.dumps(merged(chosen, {"data": {"corpus": corpus}})))
        answers = merged(merged(settings(folder), for_task("answering", folder)), SHORT)
        (folder / "answers.json").write_text(json.dumps(answers))
        yield folder


def said(*arguments):
    """What a command writes; nothing of it acts."""
    result = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=True)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert not {c for c in result.output if ord(c) in CONTROLS} - {"\n"}
    return result.output


@pytest.fixture(scope="module")
def trained(place):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("attnlab.session.soundness.run_checks", lambda case, names=(): [])
        assert f"The run is in {SHOWN}." in said("train", "small.json", "--out", PLACE)
        said("train", "answers.json", "--out", "answers[/x]")
    return PLACE


def test_a_run_is_listed_compared_and_scored_by_its_name(trained):
    listed = said("runs", "runs")
    assert SHOWN in listed
    compared = said("compare", trained, trained)
    assert f"{SHOWN} differs in its config by: nothing" in compared
    scored = said("evaluate", trained)
    for label in LABELS:
        assert label.translate(CONTROLS)[:9] in scored


def test_a_check_of_another_s_run_is_named(place, trained):
    finding = {"check": "[/b]\n\x1b", "when": "after", "outcome": "fail", "found": "x [/c]", "number": 0.0}
    finding |= {"meaning": "[/d]", "fix": ":smile:", "seconds": 0.0, "step": 2, "implementation": ""}
    shutil.copytree(trained, "theirs")
    held = json.loads((place / "theirs/checks.json").read_text()) | {"findings": [finding], "sound": False}
    (place / "theirs/checks.json").write_text(json.dumps(held | {"unsound": [finding["check"]]}))
    assert "[/b]⏎␛" in said("runs", "theirs/..")
    assert "failed [/b]⏎␛" in said("predict", "theirs", "a")
    told = said("check", "theirs")
    assert "x [/c]" in told and "[/d] :smile:" in told


def test_predictions_go_to_a_file_that_computes_nothing(trained, place):
    to = "[/b]\u200f.csv"
    (place / "[").mkdir()
    told = said("predict", trained, "--data", "[rows].jsonl", "--text", "=text", "--out", to)
    assert "Predictions of 400 rows are in [/b]\\u200f.csv." in told
    header, *rows = csv.reader(io.StringIO((place / to).read_text(encoding="utf-8")))
    assert header[0] == "'=text" and {row[1] for row in rows} == {f"'{LABELS[0]}", *LABELS[1:]}
    assert "[red" in said("predict", trained, "a [red", "x]")


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_rows_with_lists_and_halves_of_characters_are_written(trained, place, suffix):
    row = {"text": "a", "of": [1, "=2"], "half": "\ud800", "more": {"=a": "=b"}}
    (place / "odd.jsonl").write_text(json.dumps(row) + "\n")
    said("predict", trained, "--data", "odd.jsonl", "--out", f"judged.{suffix}")
    text = (place / f"judged.{suffix}").read_text(encoding="utf-8")
    if suffix == "jsonl":
        assert row.items() <= json.loads(text).items()
    else:
        assert text.splitlines()[1].startswith('a,"[1, ""=2""]",\\ud800,')


def test_a_folder_of_other_bytes_holds_a_run_that_can_be_read(place):
    folder = "other\udcff"  # the byte 0xFF, which is no UTF-8
    said("train", "small.json", "--out", folder)
    assert json.loads(said("evaluate", folder, "--json"))["run"] == folder


def test_json_is_the_data_and_acts_on_no_terminal(trained):
    found = json.loads(said("predict", trained, "a \x9b31m\u202e\u200f\x1b", "--json"))
    assert found[0]["text"] == "a \x9b31m\u202e\u200f\x1b" and set(found[0]["scores"]) == set(LABELS)


def test_no_character_of_a_prompt_or_label_is_lost(trained):
    """rich takes bells, backspaces and returns out of a text without a word."""
    batch = said("train", "small.json", "--show-batch")
    assert any(f"label     {label.translate(CONTROLS)}\n" in batch for label in LABELS)
    assert (
        LABELS[1].translate(CONTROLS)
        in said("train", "small.json", "--show-batch", "--set", "seed=1") + batch
    )
    assert said("predict", trained, "a\x07\x08\rb").startswith("a␇␈␍b")


def test_a_passage_that_answers_is_named(trained, place):
    folder = place / "notes"
    folder.mkdir()
    for name in ("[red]x\n\u202e.txt", "y[link=.txt"):
        (folder / name).write_text("Zoë \x1b[2J :smile: [/b] ŵ " * 9)
    told = said("ask", "answers[/x]", "Where [/] is \x1b[2J?", "--passage", "notes")
    assert re.search(r"tokens of \S*\[red\]x⏎\\u202e\.txt are unknown", told)
    assert "y[link=.txt are unknown" in told


def test_what_adapting_says_in_python_and_in_the_terminal(trained, place, capsys):
    chosen = ("--text", "=text", "--label", "[/label]", "--set", "training.budget={steps=1}")
    told = said("adapt", trained, "--data", "[rows].jsonl", *chosen, "--out", "new[/x]")
    assert "The run goes to new[/x]" in told and LABELS[1].translate(CONTROLS) in told
    reading = {"text": "=text", "label": "[/label]"}
    lab.adapt(trained, data="[rows].jsonl", **reading, set={"training.budget": {"steps": 1}}, out="py\x1b")
    printed = capsys.readouterr().out
    assert "py␛" in printed and not {c for c in printed if ord(c) in CONTROLS} - {"\n"}


@pytest.mark.parametrize(
    "arguments", [["co\x1b]0;t\x07\u202e"], ["runs", "--no\u202e"], ["runs", "a", "b\u202e"]]
)
def test_a_command_that_cannot_be_read_is_quoted(arguments):
    assert "u202e" in said(*arguments)


def test_samples_of_a_run_are_text(place):
    text = "".join(f"{who} \x1b[2J\u202e {who} \x07\n" for who in WHO * 20)
    (place / "acting.txt").write_text(text)
    (place / "plain.json").write_text(json.dumps(merged(settings(place), SHORT)))
    changed = ("--set", "data.corpus.path=acting.txt", "--set", "data.tokenizer=character")
    said("train", "plain.json", *changed, "--set", "training.budget={steps=2}", "--out", "writes")
    assert "a␇␈␍b [/b] :x:" in said("generate", "writes", "a\x07\x08\rb [/b] :x:", "--length", "2")
    said("explain", "attention", "writes", "--text", "\x1b[2J\u202e", "--html", "page.html")
    page = (place / "page.html").read_text(encoding="utf-8")
    packed = re.search(r'id="maps">([^<]*)<', page)[1]
    tokens = json.loads(gzip.decompress(base64.b64decode(packed)))["layers"][0]["keys"]
    assert "␛" in tokens and "\\u202e" in tokens and "\u202e" not in tokens
    samples = (place / "writes" / "samples.txt").read_text(encoding="utf-8")
    assert samples and not {c for c in samples if ord(c) in CONTROLS} - {"\n"}
