"""Twenty steps of every task and of every ready config give the losses that were recorded.

A refactor changes none of them: to the digit on the machine that recorded them, to a tolerance elsewhere.
The text of the ready configs is Python's own, so another Python has other losses. After a change that is
meant to change them: python -m tests.training.test_goldens; after one that adds a task or config and
changes no other: python -m tests.training.test_goldens --missing
"""

import hashlib
import json
import platform
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from attnlab.config.files import load, ready_configs
from attnlab.config.schema import Config
from attnlab.runs.metrics_file import read_events
from attnlab.tasks import TASKS
from tests.training.small_run import config, for_task, merged, train

FILE = Path(__file__).with_name("goldens.json")
STEPS = {"training": {"budget": {"steps": 20}, "evaluate_every": 10}}


def machine() -> str:
    """What decides the last digits: processor, kernels, torch."""
    processor = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        processor = next(
            (x for x in cpuinfo.read_text().splitlines() if x.startswith("model name")), processor
        )
    text = f"{processor} {torch.backends.cpu.get_cpu_capability()} {torch.__version__}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def of_task(name: str, folder: Path) -> Config:
    return config(folder, **merged(for_task(name, folder), STEPS))


def of_ready_config(name: str, folder: Path) -> Config:
    steps = {"training.budget": {"steps": 20}, "training.evaluate_every": 20, "training.evaluate_batches": 2}
    return load(name, set=steps)


KINDS: dict[str, Callable[[str, Path], Config]] = {"task": of_task, "config": of_ready_config}


def losses(kind: str, name: str, folder: Path) -> dict[str, list[float]]:
    train(KINDS[kind](name, folder), folder / name)
    lines = list(read_events(folder / name / "metrics.jsonl"))
    return {
        event: [line["loss"] for line in lines if line["event"] == event]
        for event in ("stepped", "evaluated")
    }


def compare(kind: str, name: str, folder: Path) -> None:
    recorded = json.loads(FILE.read_text())
    found, expected = losses(kind, name, folder), recorded[kind][name]
    assert len(found["stepped"]) == 20 and found["evaluated"]
    if expected.pop("machine") == machine():
        assert found == expected
    for event, values in expected.items():
        assert found[event] == pytest.approx(values, rel=1e-3)


@pytest.mark.parametrize("name", TASKS)
def test_losses_are_those_that_were_recorded(tmp_path, name):
    compare("task", name, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ready_configs())
def test_losses_of_a_ready_config_are_those_that_were_recorded(tmp_path, name, unchecked):
    if json.loads(FILE.read_text())["python"] != platform.python_version():
        pytest.skip("another Python has another text")
    compare("config", name, tmp_path)


NAMES = {"task": TASKS, "config": ready_configs()}


def record(known: dict[str, dict[str, object]]) -> None:
    """Write the losses of all tasks and configs, those that are `known` as they are."""
    torch.set_num_threads(1)
    found: dict[str, object] = {"python": platform.python_version()}
    with tempfile.TemporaryDirectory() as folder:
        for kind, names in NAMES.items():
            held = known.get(kind, {})
            found[kind] = {
                name: held.get(name) or {"machine": machine(), **losses(kind, name, Path(folder))}
                for name in names
            }
    FILE.write_text(json.dumps(found, indent=1) + "\n")


def recorded() -> dict[str, dict[str, object]]:
    """What is recorded, each with the machine whose last digits it has."""
    held = json.loads(FILE.read_text())
    assert held["python"] == platform.python_version(), "record all anew: another Python has another text"
    return {kind: held[kind] for kind in NAMES}


if __name__ == "__main__":
    record(recorded() if "--missing" in sys.argv else {})
