"""What the README says is so: its tree, its code, its commands, its choices."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from attnlab.cli import app
from attnlab.config.registry import table
from attnlab.model.attention import ATTENTION
from attnlab.model.presets import PRESETS
from attnlab.studies.resolved import resolve
from attnlab.studies.study_files import load_study
from tests.studies.here import here

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def blocks(language):
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    return [text for name, text in fenced if name == language]


def tree():
    """(path, line) of each entry of the file tree."""
    listed = next(b for b in blocks("") if b.startswith("src/attnlab/"))
    above = []
    for line in listed.splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        above[depth:] = [line.split()[0]]
        yield Path(*above), line


def test_the_tree_is_the_repositorys():
    named = {path for path, _ in tree()}
    for path, line in tree():
        assert (ROOT / path).exists(), f"{path} is in the README and not in the repository"
        assert len(line.split()) > 1, f"{path} has no line that says what it is"
    package = ROOT / "src/attnlab"
    for folder in (p.parent for p in package.rglob("__init__.py") if p.parent != package):
        known = any(folder.relative_to(ROOT).is_relative_to(p) for p in named if p != Path("src/attnlab"))
        assert known, f"{folder.relative_to(ROOT)} is missing from the README's tree"


def test_the_code_runs(tmp_path):
    space = {}
    try:
        for block in blocks("python"):
            exec(block, space)
        assert type(space["model"].trunk.main.rules()[0]).__name__ == "Distance"
    finally:
        if "distance" in ATTENTION:
            ATTENTION.unregister("distance")


def commands():
    for block in blocks(""):
        for line in block.splitlines():
            if line.startswith(("attnlab ", "$ attnlab ")):
                command, _, comment = line.removeprefix("$ ").partition("#")
                yield command.strip(), int("exits 1" in comment)


QUICK = "--set data.corpus=notes.txt --set training.budget.steps=2 --set model.width=16"
"""What a reader of the README would not add: a test has no minutes to train for."""


NOTES = "--set data.corpus=notes.txt --set data.corpus.unit=line"
QUICK_STUDY = f"{NOTES} --set training.budget.steps=2 --set model.width=16 --seeds 1"


OWN = "--set data.corpus=reviews.csv --set data.corpus.text=review --set data.corpus.label=stars"
SHORT = "--set training.budget.steps=40 --set model.width=32 --set training.optimizer.learning_rate=0.01"


def shortened(command):
    if " train classifier-mini" in command:
        own = f"{command} {SHORT} --set data.tokenizer=word"
        return (
            f"{own} --out runs/own" if OWN in command else f"{own} {OWN} --out runs/classifier-mini-1a2b3c4d"
        )
    if " train mini-gpt" in command:
        return f"{command} {QUICK}" + (" --out runs/mini-gpt-1a2b3c4d" if "--out" not in command else "")
    if " adapt " in command:
        return f"{command} --set training.optimizer.learning_rate=0.02"
    return f"{command} {QUICK_STUDY}" if " run masking" in command else command


def test_the_study_in_toml_can_be_run(tmp_path):
    file = tmp_path / "question.toml"
    file.write_text(blocks("toml")[1])
    resolved = resolve(load_study(file))
    assert list(resolved.configs) == ["dot", "linear"] and resolved.study.match == "parameters"


def test_the_commands_do_what_they_show(tmp_path, monkeypatch):
    """In the order of the README, in one folder, as a person would."""
    (tmp_path / "study.toml").write_text(blocks("toml")[0])
    (tmp_path / "notes.txt").write_text("".join(f"Line {i} is about {i * i} things.\n" for i in range(300)))
    (tmp_path / "reviews.csv").write_text(
        "review,stars\n"
        + "".join(f"film {i} was {'bad' if i % 2 else 'good'},{5 - 4 * (i % 2)}\n" for i in range(400))
    )
    rows = (f"a {'bad' if i % 2 else 'good'} film {i},{5 - 4 * (i % 2)}\n" for i in range(40))
    (tmp_path / "new.csv").write_text("text,label\n" + "".join(rows))
    monkeypatch.chdir(tmp_path)
    for command, code in commands():
        with here():
            result = CliRunner().invoke(app, shlex.split(shortened(command))[1:])
        if "heads=5" in command:
            shown = " ".join(README.split(command)[1].split("```")[0].split())
            assert shown == f"Error: {result.exception}"
        else:
            assert result.exit_code == code, (command, result.output, result.exception)


@pytest.mark.parametrize(
    ("field", "of"),
    [
        ("attention", "attention"),
        ("mask", "masks"),
        ("positions", "positions"),
        ("projections", "projections"),
        ("output", "heads"),
        ("norm", "norms"),
        ("norm", "residuals"),
        ("norm", "feedforwards"),
    ],
)
def test_the_table_names_every_choice(field, of):
    line = next(line for line in README.splitlines() if line.startswith(f"| `model.{field}`"))
    for name in table(of):
        assert name in line or name in ("all", "any"), f"{name} is not in the README's line of model.{field}"


def test_every_adapter_is_named():
    line = next(line for line in README.splitlines() if line.startswith("| `start`, `adapter`"))
    assert all(name in line for name in table("adapters"))


def test_every_preset_is_named():
    line = next(line for line in README.splitlines() if "`model.preset`" in line)
    assert all(name in line for name in PRESETS)
