"""A run of before the names of tasks and settings were settled opens, scores and goes on as it was.

`before_tasks/` holds six steps of a prefix language model, with the checkpoints of steps 3 and 6.
"""

import shutil
from pathlib import Path

import pytest

from attnlab.runs.folder import RunFolder
from attnlab.runs.metrics_file import read_events
from attnlab.runs.record import read_record
from attnlab.session.trained import open_run
from attnlab.session.training import train

RUN = Path(__file__).with_name("before_tasks")


@pytest.fixture
def old(tmp_path):
    return Path(shutil.copytree(RUN, tmp_path / "old"))


def losses(folder, event):
    return {
        line["step"]: line["loss"] for line in read_events(folder / "metrics.jsonl") if line["event"] == event
    }


def test_an_old_run_opens_with_the_scores_that_it_had(old):
    found = open_run(old).evaluate("dev")["measures"]["loss"]["value"]
    assert found == pytest.approx(losses(RUN, "evaluated")[6], rel=1e-6)


def test_an_old_run_goes_on_with_the_losses_that_it_had(old, unchecked):
    shutil.rmtree(old / "checkpoints" / "step-6")
    before = read_record(old)
    train(RunFolder(old).config(), old, resume=True)
    assert {name: read_record(old)[name] for name in ("identity", "order", "config")} == {
        name: before[name] for name in ("identity", "order", "config")
    }
    assert losses(old, "stepped") == pytest.approx(losses(RUN, "stepped"), rel=1e-5)
    assert losses(old, "evaluated") == pytest.approx(losses(RUN, "evaluated"), rel=1e-5)
