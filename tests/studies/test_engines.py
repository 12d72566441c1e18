"""An engine of one's own: it is sent requests as text, works elsewhere, and brings back what was left."""

import json
import shutil
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from attnlab.studies import worker
from attnlab.studies.engines import ENGINES
from attnlab.studies.engines.engine import Engine, JobRequest, Purpose
from attnlab.studies.engines.worker_process import WorkerProcess
from attnlab.studies.plan import plan
from attnlab.studies.resolved import resolve
from attnlab.studies.runner import run_study
from tests.studies.here import here
from tests.studies.small_study import numbers, study
from tests.studies.test_starts import adapting


class Elsewhere(Engine):
    """Elsewhere: jobs as they would be done by a machine that shares no disk with this one."""

    sent = None
    place = Path()

    def __init__(self):
        self.codes = {}

    def start(self, job):
        text = json.dumps(job.request.as_json())
        request = JobRequest.of_json(json.loads(text))
        assert request == job.request
        self.sent.append(request)
        self.codes[job.request.folder] = worker.work(replace(request, folder=str(self.there(job))))

    def look(self, job):
        return self.codes[job.request.folder]

    def stop(self, job, *, at_once=False):
        pass

    def collect(self, job):
        shutil.copytree(self.there(job), job.folder, dirs_exist_ok=True)
        return job.result

    def there(self, job):
        return self.place / job.folder.relative_to("/")


@pytest.fixture
def elsewhere(tmp_path, monkeypatch, unchecked):
    monkeypatch.setattr("attnlab.studies.run_measures.HONEST_TEXTS", 2)
    monkeypatch.setattr("attnlab.studies.engines.engine.LOOK", 0.0)
    monkeypatch.setattr(Elsewhere, "place", tmp_path / "elsewhere")
    monkeypatch.setattr(Elsewhere, "sent", [])
    ENGINES.register("elsewhere", Elsewhere)
    yield Elsewhere
    ENGINES.unregister("elsewhere")


def test_a_study_gives_the_same_results_wherever_it_runs(tmp_path, elsewhere):
    asked = resolve(study(tmp_path, seeds=1, budget={"steps": 4}, learning_rates=(1e-3, 3e-3)))
    ended = run_study(asked, tmp_path / "there", on="elsewhere")
    assert not ended.failed
    with here():
        expected = run_study(asked, tmp_path / "here")
    assert numbers(ended.results) == numbers(expected.results)
    assert ended.results["study"]["tuning"] == expected.results["study"]["tuning"]
    folders = [Path(request.folder).relative_to(tmp_path / "there").parts[0] for request in elsewhere.sent]
    assert folders == ["tuning"] * 4 + ["runs"] * 2, "rates are tried by the engine, too"


def test_a_plan_and_the_runs_it_needs_first_go_through_the_engine(tmp_path, elsewhere):
    made = plan(resolve(adapting(tmp_path, seeds=1)), on="elsewhere")
    assert [request.purpose for request in elsewhere.sent] == [Purpose.TRAIN] + [Purpose.TIME] * 3
    assert elsewhere.sent[0].config["training"]["budget"]["steps"] == 1
    assert made.seconds > 0 and made.starts["first"] > 0 and not made.reasons


def test_a_start_that_cannot_be_trained_ends_the_plan_with_its_reason(tmp_path, elsewhere, monkeypatch):
    monkeypatch.setattr(worker, "trained_run", lambda request, folder: 1 / 0)
    with pytest.raises(RuntimeError, match="The start first of small could not be trained: division by zero"):
        plan(resolve(adapting(tmp_path, seeds=1)), on="elsewhere")


def test_a_job_that_ends_without_a_result_is_a_failed_run(tmp_path, elsewhere, monkeypatch):
    monkeypatch.setattr(worker, "work", lambda request: Path(request.folder).mkdir(parents=True) or 3)
    ended = run_study(resolve(study(tmp_path, seeds=1)), tmp_path / "study", on="elsewhere")
    assert len(ended.failed) == 2 and "The worker ended with exit code 3" in ended.failed[0]


def test_a_worker_that_ends_is_seen_before_the_wait_for_it_is_over():
    def begun(seconds):
        process = object.__new__(WorkerProcess)
        process.process = subprocess.Popen(["sleep", seconds])
        return process

    short, long, began = begun("0.2"), begun("60"), time.monotonic()
    assert short.wait(30) == 0 and time.monotonic() - began < 10
    assert long.wait(0.0) is None and long.wait(0.1) is None
    long.stop(at_once=True)
    assert long.wait(0.0) == -signal.SIGKILL
