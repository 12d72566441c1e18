"""What tests of adapting share: a table of reviews adapted to, from Python and from the command line."""

import torch
from typer.testing import CliRunner

from attnlab.cli import app
from attnlab.runs.checkpoints import Checkpoints
from attnlab.runs.events import Evaluated, Stepped
from attnlab.session.adapting import adapting_config
from attnlab.session.session import Session
from attnlab.session.training import train
from attnlab.training.checkpoint import read_checkpoint

RATE = "training.optimizer.learning_rate=0.02"


def asked(home, label="who", start="bert", **changes):
    reading = {"text": "body", "label": label}
    return adapting_config(home / start, data=home / "reviews.csv", **{"reading": reading} | changes)


def adapt(home, *more):
    table = ["--data", str(home / "reviews.csv"), "--text", "body", "--label", "who"]
    return CliRunner().invoke(app, ["adapt", str(home / "bert"), *table, *more])


def weights(run):
    return read_checkpoint(Checkpoints.of(run.folder), run.state.step).model


def train_and_spoil(config, folder, *listeners):
    """A run whose head says one class of everything, once an evaluation was good."""
    good, session = [], Session(config)

    def spoil(event):
        if isinstance(event, Evaluated) and event.scores["accuracy"] > 0.8:
            good.append(event.step)
        if isinstance(event, Stepped) and good:
            head = session.model.head.scores
            head.weight.data.zero_(), head.bias.data.copy_(torch.tensor([9.0, -9.0]))

    ended = train(session, folder, listeners=[spoil, *listeners])
    assert ended.state.best_step == good[0] < ended.state.step
    return ended


class KilledError(Exception):
    """In place of a signal."""
