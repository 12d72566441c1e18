"""What the README and the tour say is so: tree, code, commands, choices."""

import re
import shlex
import subprocess
import sys
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
TOUR = (ROOT / "docs" / "tour.md").read_text()


def blocks(language, page=TOUR):
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    return [text for name, text in fenced if name == language]


def tree():
    """(path, line) of each entry of the file tree."""
    listed = next(b for b in blocks("", README) if b.startswith("src/attnlab/"))
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


def steps(page=TOUR):
    """What a reader pastes, in order: (line, expected exit code), and files as ("name", text)."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    for language, text in fenced:
        if language == "toml":
            yield text.split()[1].rstrip(","), text
        elif not language and not text.startswith("src/attnlab/"):
            for line in text.splitlines():
                command, _, comment = line.removeprefix("$ ").partition("  #")
                if command.startswith(("attnlab ", "python ", "printf ", "for ")):
                    yield command.strip(), int("exits 1" in comment)


SMALL = "--set model.width=16 --set model.layers=2"
LITTLE = f"{SMALL} --set training.budget.steps=2"
TAUGHT = (
    "--set training.budget.steps=40 --set model.width=32 --set training.optimizer.learning_rate=0.01 "
    "--set data.tokenizer=word"
)
SHORTENED = {
    " train mini-gpt": LITTLE,
    " check mini-gpt": f"{SMALL} --set data.corpus=notes.txt",
    " train classifier-mini": TAUGHT,
    " train tagger-mini": TAUGHT
    + """ --set training.budget.steps=120 --set 'data.corpus.packages=["logging", "http"]'""",
    " train translator-mini": f"{LITTLE} --set data.corpus.examples=200",
    " run masking": f"{LITTLE} --set data.corpus=notes.txt --seeds 1",
    " adapt ": "--set training.optimizer.learning_rate=0.02",
}
"""What a reader would not add to a command that has these words: a test has no minutes to train for."""


def shortened(command):
    return " ".join([command, *(more for part, more in SHORTENED.items() if part in command)])


def test_the_study_in_toml_can_be_run(tmp_path):
    file = tmp_path / "question.toml"
    file.write_text(blocks("toml")[1])
    resolved = resolve(load_study(file))
    assert list(resolved.configs) == ["dot", "linear"] and resolved.study.match == "parameters"


def test_the_readme_has_the_tours_commands_in_their_order():
    """So that both can be pasted; the README is short enough to be read."""
    tour = [step for step in steps() if isinstance(step[1], int)]
    own = [step for step in steps(README) if step[0] != "attnlab --version"]
    assert len(own) > 8 and all(step in tour for step in own), [step for step in own if step not in tour]
    runs = [word for command, _ in own for word in command.split() if word.startswith("runs/")]
    made = [word for command, _ in own for word in command.split("--out ")[1:]]
    assert {*runs} == {*(word.split()[0] for word in made)}
    assert len(README.split("## Where things are")[0].splitlines()) < 100
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / link).exists(), link


def test_the_tour_can_be_pasted_from_top_to_bottom(tmp_path, monkeypatch):
    """In one empty folder, in order, as a person would; nothing is there that the tour does not make."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for command, expected in steps():
        if isinstance(expected, str):
            (tmp_path / command).write_text(expected)
        elif command.startswith("attnlab "):
            with here():
                result = CliRunner().invoke(app, shlex.split(shortened(command))[1:])
            if "heads=5" in command:
                shown = " ".join(TOUR.split(command)[1].split("```")[0].split())
                assert shown == f"Error: {result.exception}"
            else:
                assert result.exit_code == expected, (command, result.output, result.exception)
        else:
            own = command.replace("python ", f"{shlex.quote(sys.executable)} ", 1)
            subprocess.run(["sh", "-c", own], check=True, timeout=60)
    assert (tmp_path / "predictions.csv").is_file()


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
    line = next(line for line in TOUR.splitlines() if line.startswith(f"| `model.{field}`"))
    for name in table(of):
        assert name in line or name in ("all", "any"), f"{name} is not in the tour's line of model.{field}"


def test_every_adapter_is_named():
    line = next(line for line in TOUR.splitlines() if line.startswith("| `start`, `adapter`"))
    assert all(name in line for name in table("adapters"))


def test_every_preset_is_named():
    line = next(line for line in TOUR.splitlines() if "`model.preset`" in line)
    assert all(name in line for name in PRESETS)
