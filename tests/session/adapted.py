"""What tests of adapting share: a table of reviews adapted to, from Python and from the command line."""

from typer.testing import CliRunner

from attnlab.cli import app
from attnlab.runs.checkpoints import Checkpoints
from attnlab.session.adapting import adapting_config
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


class KilledError(Exception):
    """In place of a signal."""
