"""A study as jobs of Slurm: submitit's own executor of this machine, with Slurm's commands in its place."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import psutil
import pytest

from attnlab.config.values import ConfigError
from attnlab.runs.record import read_record
from attnlab.studies.engines import resuming, slurm
from attnlab.studies.engines.engine import ClusterRecord, Job, Needs, NodeRecord
from attnlab.studies.engines.slurm import Slurm, read_nodes
from attnlab.studies.resolved import resolve
from attnlab.studies.runner import run_study, work_of
from tests.studies.here import here
from tests.studies.ray_nodes import Watcher, newest, stepped
from tests.studies.small_study import numbers, study
from tests.studies.test_ray_faults import expected, long, worker_of

pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"  # of submitit, whose processes are not waited for
)
SINFO = """\
node-1|3/5/0/8|gpu:a100:4(S:0-1)|mix
node-2|0/16/0/16|(null)|idle
node-2|0/16/0/16|(null)|idle
node-3|0/0/8/8|gpu:2|down*
node-4|0/4/0/4|gpu:h100:2,nvme:1|idle~
node-5|0/4/0/4|gpu:8|drain
"""


def test_what_sinfo_lists():
    expected = (NodeRecord("node-1", 8, 4), NodeRecord("node-2", 16), NodeRecord("node-4", 4, 2))
    assert read_nodes(SINFO) == ClusterRecord(expected, 25, 6)
    assert read_nodes(SINFO).room(Needs(2, 1)) == 4 + 2 and read_nodes(SINFO).room(Needs(4)) == 2 + 4 + 1


def script(folder, name, text):
    file = folder / name
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """Slurm's commands: a node of two cores, and jobs that are the processes of this machine."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script(folder, "sbatch", "exit 1")
    script(folder, "sinfo", "echo 'node-1|0/2/0/2|(null)|idle'")
    script(folder, "squeue", "ps -eo pid=,stat= | awk '$2 !~ /Z/ {print $1, substr($2, 1, 1)}'")
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(Slurm, "executor", "local")
    monkeypatch.setattr(slurm, "ASK", 1.0)
    return folder


def test_runs_that_no_node_has_room_for_are_refused(commands):
    with pytest.raises(ConfigError) as refused:
        Slurm().refuse({"cpu", "cuda"}, 1)
    assert str(refused.value) == (
        "Each run needs 1 CPU and 1 GPU on one node, and no node of Slurm has them (node-1: 2 CPUs). Add "
        'such a node, or set training.device to "cpu".'
    )
    with pytest.raises(ConfigError, match="Each run needs 3 CPUs on one node"):
        Slurm().refuse({"cpu"}, 3)
    script(commands, "sinfo", "echo slurm_load_partitions: Unable to contact slurm controller >&2; exit 1")
    with pytest.raises(ConfigError, match=r"Slurm did not answer sinfo: slurm_load_partitions: Unable to"):
        Slurm().refuse({"cpu"}, 1)


@pytest.mark.parametrize(("state", "cancelled"), [("PD", True), ("R", False)])
def test_a_stopped_job_that_was_queued_again_is_cancelled(tmp_path, commands, state, cancelled):
    """It has begun before, and would save only when it begins anew."""
    script(commands, "squeue", f"echo '7 {state}'")
    request = work_of(resolve(study(tmp_path)), tmp_path / "study")[0].request
    job, calls = Job("dot", 0, request), []
    (job.folder / "slurm").mkdir(parents=True)
    (log := tmp_path / "log").touch()
    paths = SimpleNamespace(stdout=log, result_pickle=tmp_path / "none")
    submitted = SimpleNamespace(job_id="7", paths=paths, cancel=lambda check: calls.append("cancel"))
    engine = Slurm()
    engine.runs[request.folder] = slurm.SubmittedRun(submitted, resuming.LostNodes())
    assert engine.look(job) is None and engine.queued(job) == cancelled
    engine.stop(job)
    job.asked = True
    assert calls == ["cancel"] * cancelled and (job.folder / "slurm" / "stop").exists()
    assert engine.look(job) == (143 if cancelled else None)


@pytest.mark.slow
def test_a_study_gives_the_same_results(tmp_path, commands):
    asked, said = resolve(study(tmp_path)), []
    ended = run_study(asked, tmp_path / "there", on="slurm", tell=said.append)
    assert said[0] == "4 runs, 2 at once on Slurm (1 node, 2 CPUs), 1 thread each."
    assert not ended.failed and numbers(ended.results) == expected(asked, tmp_path / "here")


@pytest.mark.slow
def test_a_job_that_is_killed_is_submitted_again(tmp_path, commands, monkeypatch):
    """As by a node that is lost: all processes of the job at once."""
    asked, counted = long(tmp_path, arms={"dot": {}}), []
    too_many = resuming.LostNodes.too_many
    monkeypatch.setattr(resuming.LostNodes, "too_many", lambda *a: counted.append(1) or too_many(*a))
    run = tmp_path / "there" / "runs" / "dot" / "seed-0"

    def kill():
        task = psutil.Process(worker_of(run)).parent()
        for process in (task.parent(), task, psutil.Process(worker_of(run))):
            process.kill()

    ended = run_study(asked, tmp_path / "there", on="slurm", view=Watcher((stepped(40), kill)))
    assert not ended.failed and counted == [1]
    assert numbers(ended.results) == expected(asked, tmp_path / "here")


@pytest.mark.slow
def test_a_job_whose_time_is_over_saves_and_continues(tmp_path, commands):
    """Slurm sends USR2 a while before; submitit has the task save, and asks for its place again."""
    asked = long(tmp_path, arms={"dot": {}})
    run = tmp_path / "there" / "runs" / "dot" / "seed-0"
    steps = []

    def time_over():
        os.kill(psutil.Process(worker_of(run)).ppid(), signal.SIGUSR2)
        time.sleep(3)
        steps.append(newest(run))

    ended = run_study(asked, tmp_path / "there", on="slurm", view=Watcher((stepped(40), time_over)))
    assert not ended.failed and 40 <= steps[0] < 400
    assert numbers(ended.results) == expected(asked, tmp_path / "here")


@pytest.mark.slow
def test_a_person_who_stops_a_study_leaves_no_job(tmp_path, commands):
    asked = long(tmp_path)
    stop = Watcher((stepped(40), lambda: os.kill(os.getpid(), signal.SIGINT)))
    ended = run_study(asked, tmp_path / "there", on="slurm", jobs=1, view=stop)
    run = tmp_path / "there" / "runs" / "dot" / "seed-0"
    assert ended.signal == signal.SIGINT
    assert read_record(run)["status"] == "interrupted" and 40 <= newest(run) < 400
    mine = [p.cmdline() for p in psutil.Process().children(recursive=True) if p.status() != "zombie"]
    assert not [words for words in mine if "submitit" in str(words) or "attnlab.studies.worker" in words]
    with here():
        again = run_study(asked, tmp_path / "there", resume=True)
    assert not again.failed and numbers(again.results) == expected(asked, tmp_path / "here")


def test_importing_submitit_leaves_the_handlers_of_others_alone():
    """It would configure logging anew: handlers are closed then, and with them what they write to."""
    code = (
        "import logging; closed = []\n"
        "class Own(logging.Handler):\n"
        "    def close(self): closed.append(self)\n"
        "logging.getLogger().addHandler(Own())\n"
        "from attnlab.studies.engines.optional_library import library\n"
        "library('submitit', 'slurm'); print(len(closed))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"
