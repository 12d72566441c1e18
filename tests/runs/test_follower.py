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


def test_a_file_that_was_cut_is_read_anew_and_odd_values_are_left_out(tmp_path):
    file, follower = tmp_path / "metrics.jsonl", Follower(tmp_path)
    file.write_text(stepped(1) + stepped(2) + stepped(3))
    follower.look()
    file.write_text(stepped(1) + stepped(2, loss=2.5))  # as a resume from step 1 does
    follower.look()
    assert (follower.step, follower.loss, follower.spent) == (2, 2.5, pytest.approx(1.0))
    with file.open("a") as more:
        more.write(
            stepped(3, seconds="long") + stepped(3, progress=float("nan")) + stepped(3, tokens=10**400)
        )
    follower.look()
    assert (follower.step, follower.progress) == (2, 0.5)
    assert follower.seconds_left == pytest.approx(1.0)


def test_a_file_that_was_written_anew_is_read_anew_even_where_it_has_grown_past_the_last_look(tmp_path):
    file, follower = tmp_path / "metrics.jsonl", Follower(tmp_path)
    file.write_text(stepped(1) + stepped(2) + stepped(3))
    follower.look()
    events = [stepped(1), *(stepped(step, seconds=2.0) for step in (2, 3, 4))]
    (tmp_path / "new").write_text("".join(events))  # steps 2 and 3 once more, as after a resume from step 1
    (tmp_path / "new").replace(file)
    assert follower.seconds() == pytest.approx(0.5 + 3 * 2.0), "no step counts twice"
    assert follower.step == 4
