"""A part of one's own in a file of a few lines: trained, then asked for by every command on its run."""

import json
import shutil

import pytest

from attnlab.runs.faults import RunError
from attnlab.runs.record import read_record
from tests.own_code import RULE, new_session
from tests.session.commands import command
from tests.training.small_run import corpus

POSITION = '''\
from attnlab.model.positions import POSITIONS
from attnlab.model.positions.position import Position


class Ramp(Position):
    """Ramp: a number that grows along the text is added to every token."""

    def forward(self, x, tokens):
        return x + 0.01 * tokens.position[..., None]


POSITIONS.register("own_ramp", Ramp)
'''
FEEDFORWARD = '''\
import torch
from attnlab.model.feedforward import FEEDFORWARDS, FeedForward


class Sine(FeedForward):
    """Sine: a wave as the activation."""

    def __init__(self, width, bias=True, *, expand: float = 2.0, dropout: float = 0.0):
        super().__init__(width, bias, dropout, torch.sin, expand)


FEEDFORWARDS.register("own_sine", Sine)
'''
TASK = '''\
from attnlab.tasks import TASKS
from attnlab.tasks.causal import Causal


class Same(Causal):
    """Same: the next word, under a name of its own."""


TASKS.register("own_same", Same)
'''
ADAPTER = '''\
from attnlab.model.adapters import ADAPTERS
from attnlab.model.adapters.chosen import BitFit


class Norms(BitFit):
    """Norms: the biases of the norms alone are trained."""

    def borrows(self, model):
        return [name for name in super().borrows(model) if "norm" in name]


ADAPTERS.register("own_norms", Norms)
'''
PARTS = {
    "attention": (RULE, "model.attention=own_distance"),
    "position": (POSITION, "model.positions=own_ramp"),
    "feedforward": (FEEDFORWARD, "model.feedforward=own_sine"),
    "task": (TASK, "task=own_same"),
    "adapter": (ADAPTER, "adapter=own_norms"),
}


@pytest.fixture
def place(tmp_path, monkeypatch, unchecked):
    monkeypatch.chdir(tmp_path)
    corpus(tmp_path)
    (tmp_path / "small.toml").write_text(
        "[data]\n"
        'corpus = { kind = "files", path = "corpus.txt", unit = "line" }\n'
        'tokenizer = { kind = "word", vocabulary = 60, minimum_count = 1 }\n'
        'length = 24\nbatching = { kind = "packed", batch_size = 4 }\n'
        "[model]\nwidth = 16\nlayers = 1\nheads = 2\nlength = 24\n"
        "[training]\nbudget = { steps = 2 }\nevaluate_batches = 2\n"
    )
    return tmp_path


@pytest.mark.parametrize("kind", PARTS)
def test_each_command_asks_for_the_file_and_works_with_it(place, kind):
    text, change = PARTS[kind]
    (place / "mine.py").write_text(text)
    changes = ["--set", change]
    if kind == "adapter":
        assert command("train", "small.toml", "--out", "start").exit_code == 0
        changes += ["--set", "start=start", "--set", "data.batching=padded"]
    with new_session():
        refused = command("train", "small.toml", *changes, "--out", "run")
        assert "there is no" in str(refused.exception)
    with new_session():
        trained = command("train", "small.toml", "--import", "mine.py", *changes, "--out", "run")
        assert trained.exit_code == 0, trained.output
    (held,) = read_record(place / "run")["imports"]
    assert held["file"] == str(place / "mine.py") and len(held["parts"]) == 1
    commands = [["generate", "run", "the cat", "--length", "3"], ["evaluate", "run"], ["check", "run"]]
    for words in commands if kind == "attention" else commands[:1]:
        with new_session():
            asked = command(*words)
            said = f"run uses the code of mine.py (hash {held['hash']})"
            assert str(asked.exception).startswith(said) and "--import mine.py" in str(asked.exception)
        with new_session():
            done = command(*words, "--import", "mine.py")
            assert done.exit_code == 0, (done.output, done.exception)


def test_an_error_in_ones_own_code_is_told_by_its_line(place):
    (place / "mine.py").write_text(RULE.replace("return -self.rate", "return -self.rats"))
    with new_session():
        change = ["--set", "model.attention=own_distance", "--import", "mine.py"]
        failed = command("train", "small.toml", *change, "--out", "run").exception
    assert isinstance(failed, RunError)
    line = RULE.splitlines().index("        return -self.rate * torch.cdist(q, k).square()") + 1
    said = f"{place / 'mine.py'}, line {line}: AttributeError: 'Distance' object has no attribute 'rats'"
    assert str(failed).startswith(said)


def test_a_constructor_that_asks_for_what_nobody_gives_is_answered(place):
    (place / "mine.py").write_text(FEEDFORWARD.replace("bias=True, *", "bias, size, *"))
    with new_session():
        change = ["--set", "model.feedforward=own_sine", "--import", "mine.py"]
        said = str(command("train", "small.toml", *change, "--out", "run").exception)
    assert 'feedforwards "own_sine": its constructor asks for size, and is given width, bias' in said


def test_a_changed_file_is_told_and_a_moved_one_found_by_its_name(place):
    (place / "mine.py").write_text(RULE)
    with new_session():
        done = command("train", "small.toml", "--import", "mine.py", "--set", PARTS["attention"][1])
        assert done.exit_code == 0
    (run,) = (place / "runs").iterdir()
    (place / "other").mkdir()
    shutil.move(place / "mine.py", place / "other" / "mine.py")
    with new_session():
        assert command("generate", run, "the", "--length", "2", "--import", "other/mine.py").exit_code == 0
    (place / "other" / "mine.py").write_text(RULE.replace("square()", "abs()"))
    with new_session(), pytest.warns(UserWarning, match="mine.py has changed since it was recorded"):
        command("generate", run, "the", "--length", "2", "--import", "other/mine.py")
    more = ["--set", "training.budget.steps=2", "--resume", "--out", run]
    with new_session():
        assert "uses the code of" in str(command("train", *more).exception)


def test_every_command_that_builds_something_takes_the_option(place):
    (place / "mine.py").write_text(RULE)
    for words in (["list"], ["list", "attention"], ["show", "own_distance"]):
        with new_session():
            shown = command(*words, "--import", "mine.py", "--json")
            assert "own_distance" in shown.stdout, shown.output
    with new_session():
        change = ["--set", "model.attention=own_distance"]
        shown = command("explain", "counts", "small.toml", *change, "--import", "mine.py", "--json")
        assert json.loads(shown.stdout)["parameters"], shown.output
