"""docs/explain.md: its commands run, its code runs, and it names every command and place."""

import re
import shlex
from pathlib import Path

import torch
from typer.testing import CliRunner

import attnlab as lab
from attnlab.cli import app
from attnlab.cli.explain import app as explain
from attnlab.model.places import places_of

PAGE = (Path(__file__).parents[2] / "docs" / "explain.md").read_text(encoding="utf-8")
SMALL = "--set model.width=32 --set model.layers=2 --set model.length=16"
"""What a reader would not add: a test has no time for the default sizes."""


def blocks(language):
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    return [text for name, text in fenced if name == language]


def test_the_commands_run():
    lines = blocks("")[0].splitlines()
    assert len(lines) == 13
    for line in lines:
        command = line.partition("#")[0].strip()
        command = f"{command} {SMALL}" if " --set " in command or "masked" in command else command
        result = CliRunner().invoke(app, shlex.split(command)[1:])
        assert result.exit_code == 0, (command, result.output, result.exception)


def test_the_code_runs_and_a_patch_moves_the_scores():
    space = {}
    torch.manual_seed(0)
    exec(blocks("python")[0], space)
    assert float(space["moved"].detach().abs().max()) > 1e-4 and space["model"].taps is None


def test_every_command_and_every_kind_of_place_is_named():
    named = {
        command.name or command.callback.__name__.replace("_", "-") for command in explain.registered_commands
    }
    for name in named - {"counts", "mask"}:
        assert f"`explain {name}" in PAGE, name
    model = lab.encoder_decoder(vocabulary=20, width=16, heads=2, layers=1)
    own = {
        re.sub(r"\d+$", "M", re.sub(r"layers\.\d+", "layers.N", n)).partition(".")[2]
        for n in places_of(model.trunk)
    }
    for place in own:
        last = place.rpartition(".")[2]
        assert place in PAGE or f".{last}`" in PAGE or place.startswith("layers.N.cross"), place
