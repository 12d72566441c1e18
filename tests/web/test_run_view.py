"""What a run's page says of it, made without a server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time

from attnlab.web.laboratory import Laboratory
from attnlab.web.started_processes import LOG, StartedProcess
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
