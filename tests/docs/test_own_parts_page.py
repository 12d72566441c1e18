"""docs/own-parts.md: its file, its commands and its study work as they stand."""

import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from attnlab.model.contracts import own_parts
from attnlab.studies.resolved import resolve
from attnlab.studies.study_files import load_study
from tests.docs.test_advice import wrong_in
from tests.own_code import new_session
from tests.session.commands import command
from tests.training.small_run import corpus

PAGE = (Path(__file__).parents[2] / "docs" / "own-parts.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
SMALL = ["data.corpus.unit=line", "model.width=16", "model.layers=1", "training.evaluate_batches=2"]


def blocks(language):
    return [text for name, text in BLOCKS if name == language]


@pytest.fixture
def place(tmp_path, monkeypatch, unchecked):
    monkeypatch.chdir(tmp_path)
    corpus(tmp_path)
    (tmp_path / "mine.py").write_text(blocks("python")[0])
    (tmp_path / "question.toml").write_text(blocks("toml")[0])
    return tmp_path


def test_the_commands_work_one_after_the_other(place):
    lines = [line for text in blocks("") for line in text.splitlines() if line.startswith("attnlab ")]
    small = [word for change in ("data.corpus=corpus.txt", *SMALL) for word in ("--set", change)]
    for line in lines:
        words = shlex.split(line)[1:]
        words += (
            [*small, "--set", "training.budget.epochs=1"]
            if " mini-gpt" in line and "counts" not in line
            else []
        )
        with new_session():
            done = command(*words)
        assert done.exit_code == 0, (line, done.output, done.exception)
    assert len(lines) == 7


def test_the_study_asks_for_the_file_and_runs_with_it(place):
    with new_session():
        assert "asks to run the code of mine.py" in str(command("run", "question.toml").exception)
    with new_session():
        command("list", "--import", "mine.py")
        assert list(resolve(load_study("question.toml")).configs) == ["dot", "distance"]


def named(name):
    return next(text for text in blocks("python") if text.startswith(f"# {name}"))


def test_the_part_with_parameters_is_counted_trained_and_keeps_its_contract(place, monkeypatch):
    """The page's own test file is run, as pytest would."""
    (place / "bilinear.py").write_text(named("bilinear.py"))
    monkeypatch.syspath_prepend(place)
    every = own_parts.cases_of
    monkeypatch.setattr(own_parts, "cases_of", lambda *about: every(*about)[::5])
    with new_session():
        counted = command(
            *("explain", "counts", "mini-gpt", "--import", "bilinear.py", "--json"),
            *("--set", "model.attention=bilinear"),
        )
        terms = {term["name"]: term["count"] for term in json.loads(counted.stdout)["parameters"]["terms"]}
        assert terms["decoder.attention.matrices"] == 4 * 4 * 24**2
        space = {}
        exec(named("test_mine.py"), space)
        space["test_my_rules"]()
        for name in ("bilinear", "mine"):
            sys.modules.pop(name, None)


def test_what_it_names_exists():
    assert not list(wrong_in(PAGE))
