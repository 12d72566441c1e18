"""What is in the folder, and when it counts as another than before."""

import json
import shutil
import threading

import pytest

from attnlab.web.course import Courses
from attnlab.web.index import Index
from attnlab.web.indexed import IndexedStudy


@pytest.fixture
def index(served, tmp_path):
    shutil.copytree(served / "causal", tmp_path / "one")
    made = Index(tmp_path)
    made.refresh()
    return made


def note(folder, **facts):
    file = folder / "run.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | facts))


def test_turns_count_states_and_not_what_else_changes(index):
    turns, version = index.turns, index.version
    index.refresh()
    assert (index.turns, index.version) == (turns, version), "nothing happened"
    note(index.root / "one", parameters=123456)
    index.refresh()
    assert (index.turns, index.version) == (turns, version + 1), "another number is no other state"
    note(index.root / "one", status="failed", error="no room")
    index.refresh()
    assert index.turns == turns + 1
    shutil.copytree(index.root / "one", index.root / "two")
    index.refresh()
    assert index.turns == turns + 2, "a run came"
    shutil.rmtree(index.root / "two")
    index.refresh()
    assert index.turns == turns + 3, "a run went"


def test_a_run_that_falls_silent_turns(index, monkeypatch):
    note(index.root / "one", status="running")
    index.refresh()
    turns = index.turns
    assert index.runs["one"].state == "running"
    now = index.runs["one"].heard + 11
    monkeypatch.setattr("time.time", lambda: now)
    index.refresh()
    assert index.runs["one"].state == "interrupted"
    assert index.turns == turns + 1


@pytest.mark.parametrize("seeds", [10**12, "abc", [[1], "x", 2], None, -3])
@pytest.mark.parametrize("arms", [[1, 2], "x", None, {"a": 1}])
def test_a_damaged_study_has_arms_and_seeds_that_can_be_drawn(tmp_path, seeds, arms):
    study = IndexedStudy("s", tmp_path, {"study": {"seeds": seeds, "arms": arms}}, ())
    assert len(study.seeds) <= 1000 and all(isinstance(seed, int) for seed in study.seeds)
    assert study.arms in ([], ["a"])


def test_threads_that_read_one_course_count_no_step_twice(tmp_path):
    event = {"event": "stepped", "loss": 1.0, "gradient": 1.0, "tokens": 10, "seconds": 0.1}
    lines = [json.dumps(event | {"step": step}) + "\n" for step in range(1, 3001)]
    (tmp_path / "metrics.jsonl").write_text("".join(lines))
    courses, seen = Courses(), []
    threads = [threading.Thread(target=lambda: seen.append(courses.of(tmp_path))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for course in seen:
        assert course.place[:2] == (3000, 30000)
        assert sum(course.series["train loss"].counts) == 3000
