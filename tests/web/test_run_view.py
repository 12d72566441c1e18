"""What a run's page says of it, made without a server."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time

from attnlab.web.laboratory import Laboratory
from attnlab.web.started_processes import LOG, StartedProcess
from attnlab.web.views import run as run_view
from attnlab.web.views.run import regions_of


def test_why_a_start_failed_is_said_until_the_run_goes_on(served, tmp_path):
    run = tmp_path / "runs" / "causal"
    shutil.copytree(served / "causal", run)
    long_ago = time.time() - 100
    for file in run.iterdir():
        os.utime(file, (long_ago, long_ago))
    laboratory = Laboratory.at(tmp_path / "runs")
    with (run / LOG).open("wb") as log:
        words = [sys.executable, "-c", "print('steps: 5 is not more than 40'); raise SystemExit(2)"]
        process = subprocess.Popen(words, stdout=log)
    laboratory.processes.started[run] = StartedProcess(run, ["train", "--resume"], process)
    process.wait()
    notices = str(regions_of(laboratory, laboratory.run("causal"))["notices"])
    assert "ended with code 2" in notices
    assert "steps: 5 is not more than 40" in notices
    os.utime(run / "run.json")  # somebody resumed it
    laboratory.index.refresh()
    assert "code 2" not in regions_of(laboratory, laboratory.run("causal"))["notices"]


def test_curves_appear_with_the_first_step_and_say_whose_they_are(served, tmp_path):
    run = tmp_path / "runs" / "causal"
    shutil.copytree(served / "causal", run)
    whole = (run / "metrics.jsonl").read_text()
    (run / "metrics.jsonl").write_text("")
    laboratory = Laboratory.at(tmp_path / "runs")
    shown = regions_of(laboratory, laboratory.run("causal"))
    assert "No step was taken yet." in shown["curves"]
    assert not [name for name in shown if name.startswith("plot:")]
    (run / "metrics.jsonl").write_text(whole)
    laboratory.index.refresh()
    shown = regions_of(laboratory, laboratory.run("causal"))
    assert 'data-name="training"' in shown["curves"] and 'data-name="dev"' in shown["curves"]
    first = json.loads(shown["plot:course"])["views"]["0,0"][0]["data"]
    assert {trace["legendgroup"] for trace in first} == {"training", "dev"}


def test_long_curves_of_a_run_that_goes_on_are_made_anew_now_and_then(served, tmp_path, monkeypatch):
    run = tmp_path / "runs" / "causal"
    shutil.copytree(served / "causal", run)
    record = json.loads((run / "run.json").read_text()) | {"status": "running"}
    (run / "run.json").write_text(json.dumps(record))
    (run / "result.json").unlink(missing_ok=True)
    laboratory = Laboratory.at(tmp_path / "runs")

    def points():
        laboratory.index.refresh()
        shown = json.loads(regions_of(laboratory, laboratory.run("causal"))["plot:course"])
        return len(shown["views"]["0,0"][0]["data"][0]["y"])

    with (run / "lock").open("w") as lock:  # a process works in it: this one
        lock.write(str(os.getpid()))
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        monkeypatch.setattr(run_view, "BYTES_A_SECOND", 1)
        before = points()
        whole = (run / "metrics.jsonl").read_text()
        last = next(line for line in reversed(whole.splitlines()) if '"stepped"' in line)
        event = json.loads(last)
        (run / "metrics.jsonl").write_text(whole + json.dumps(event | {"step": event["step"] + 1}) + "\n")
        assert points() == before
        monkeypatch.setattr(run_view, "BYTES_A_SECOND", 1e12)
        assert points() == before + 1
        monkeypatch.setattr(run_view, "BYTES_A_SECOND", 1)
    (run / "run.json").write_text(json.dumps(record | {"status": "finished"}))
    (run / "metrics.jsonl").write_text(whole + 3 * (last + "\n"))
    assert points() == before + 3  # what has ended is shown whole
