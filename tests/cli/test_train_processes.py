"""`attnlab train --processes`: refused before anything starts, or trained by processes of this machine."""

import json
import signal

import pytest

from attnlab.config.values import ConfigError
from attnlab.session.launching import RunRequest, launch_run
from attnlab.training.strategies.end_reason import EndReason
from attnlab.training.strategies.launcher import end_of
from tests.crash.launched import Launched, outcome
from tests.training.forked import in_processes
from tests.training.small_run import config, merged, settings
from tests.training.test_processes import trained

RUN = {"training": {"accumulate": 2, "budget": {"steps": 4}, "evaluate_every": 4, "checkpoint_every": 2}}


def test_a_run_by_two_processes_is_started_watched_and_told_once(tmp_path):
    file = tmp_path / "run.json"
    file.write_text(json.dumps(merged(settings(tmp_path), RUN)))
    code, out, err = Launched("train", file, "--out", tmp_path / "cli", "--processes", 2, "--json").ended()
    assert code == 0, err
    assert json.loads(out)["state"]["step"] == 4, "one process writes its result"
    assert err.count("step 4: dev loss") == 1 and "Traceback" not in err
    assert all(
        isinstance(one, dict) for one in in_processes(2, trained, config(tmp_path, **RUN), tmp_path / "py")
    )
    ours, theirs = outcome(tmp_path / "cli", 4), outcome(tmp_path / "py", 4)
    assert ours == theirs


def test_what_cannot_work_is_refused_before_processes_start(tmp_path):
    request = RunRequest(config(tmp_path, **RUN), tmp_path / "run")
    with pytest.raises(ConfigError, match=r"training.accumulate is 2, and there are 3 processes"):
        launch_run(request, processes=3, tell=print)
    assert not (tmp_path / "run").exists()


FAULT = EndReason(1, "fault", "No more paper.", 2)
BUG = EndReason(1, "error", "TypeError: 3", 1)
LOST = EndReason(0, "lost", "Process 1 does not answer.", 1)
ENDS = [
    ({0: 0, 1: 0}, None, False, (0, "", False)),
    ({1: 2}, FAULT, True, (2, "No more paper.", False)),
    ({1: 1}, BUG, True, (1, "Process 1 failed: TypeError: 3", True)),
    ({1: -signal.SIGKILL}, None, False, (1, "Process 1 was ended by SIGKILL", True)),
    ({1: -signal.SIGKILL}, LOST, False, (1, "Process 1 was ended by SIGKILL", True)),
    ({1: -signal.SIGKILL}, LOST, True, (1, "Process 1 does not answer.", True)),
    ({0: 1}, LOST, False, (1, "Process 1 does not answer.", True)),
    ({0: 1}, None, False, (1, "", False)),
    ({0: 130, 1: 0}, None, False, (130, "", False)),
]


@pytest.mark.parametrize(("codes", "reason", "seen", "expected"), ENDS)
def test_the_reason_is_the_first_one_and_only_accidents_are_tried_again(codes, reason, seen, expected):
    end = end_of(codes, reason, seen=seen)
    assert (end.code, end.again) == (expected[0], expected[2])
    assert end.message.startswith(expected[1]) and bool(end.message) == bool(expected[1])
