"""A run is followed while it is being written."""

import json

import pytest

from attnlab.runs.follower import Follower


def stepped(step, **facts):
    event = {"event": "stepped", "step": step, "loss": 3.0 - step, "tokens": 100, "seconds": 0.5}
    return json.dumps(event | {"progress": step / 4} | facts) + "\n"


def test_only_whole_lines_are_read_and_each_once(tmp_path):
    follower = Follower(tmp_path)
    follower.look()  # there is no file yet
    assert (follower.loss, follower.tokens_per_second, follower.seconds_left) == (None, None, None)
    second = stepped(2)
    with (tmp_path / "metrics.jsonl").open("w") as file:
        file.write(stepped(1) + second[:20])
        file.flush()
        follower.look()
        assert follower.loss == 2.0 and follower.progress == 0.25
        file.write(second[20:] + json.dumps({"event": "evaluated", "step": 2, "loss": 9.0}) + "\n")
        file.flush()
        follower.look()
        follower.look()
    assert follower.loss == 1.0, "the loss of training, not of dev"
    assert follower.spent == pytest.approx(1.0), "no step counts twice"
    assert follower.tokens_per_second == pytest.approx(200.0)
    assert follower.seconds_left == pytest.approx(1.0)
