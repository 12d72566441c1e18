"""What a run records of the machine that it ran on."""

import json
import subprocess
import sys

import pytest

from attnlab.training.machine import ProcessorTime
from tests.training.small_run import config, train

pytestmark = pytest.mark.skipif(not ProcessorTime.now().threads, reason="the system does not tell")

SHARED = """
import json, os, subprocess, sys, time
from attnlab.training.machine import ProcessorTime
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
loop = "while True: pass"
others = [subprocess.Popen([sys.executable, "-c", loop]) for _ in range(int(sys.argv[1]))]
try:
    before, end = ProcessorTime.now(), time.perf_counter() + 1.0
    while time.perf_counter() < end:
        pass
    computed = ProcessorTime.now().since(before)
    before = ProcessorTime.now()
    time.sleep(0.5)
    print(json.dumps([computed, ProcessorTime.now().since(before)]))
finally:
    for other in others:
        other.kill()
"""


def test_time_in_which_others_had_the_processor_is_told_from_sleep():
    """Three others on the one core that it has: it waits for most of the second, whatever else runs here."""
    given = [sys.executable, "-c", SHARED, "3"]
    computed, slept = json.loads(subprocess.run(given, capture_output=True, check=True).stdout)
    assert computed["waited"] > 0.4 > 0.9 - computed["ran"] - computed["waited"]
    assert slept["ran"] < 0.2 and slept["ran"] + slept["waited"] < 0.45


def test_a_run_that_was_resumed_adds_up_its_processor_time(tmp_path, unchecked):
    first = config(tmp_path, training={"budget": {"steps": 4}, "schedule": "constant"})
    longer = config(tmp_path, training={"budget": {"steps": 8}, "schedule": "constant"})
    records = []
    for given, resume in ((first, False), (longer, True)):
        train(given, tmp_path / "run", resume=resume)
        records.append(json.loads((tmp_path / "run" / "run.json").read_text())["processor"])
    assert 0 < records[0]["ran"] < records[1]["ran"] and records[0]["waited"] <= records[1]["waited"]
