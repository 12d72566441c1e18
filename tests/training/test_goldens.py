"""Twenty steps of every objective give the losses that were recorded: a refactor changes none of them.

To the digit on the machine that recorded them, to a tolerance elsewhere. After a change that is meant
to change them: python -m tests.training.test_goldens
"""

import hashlib
import json
import platform
import tempfile
from pathlib import Path

import pytest
import torch

from attnlab.experiment.run import train
from attnlab.objectives import OBJECTIVES
from attnlab.training.listeners.metrics import read
from tests.training.small import config, for_objective, merged

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


def losses(name: str, folder: Path) -> dict[str, list[float]]:
    train(config(folder, **merged(for_objective(name, folder), STEPS)), folder / name)
    lines = list(read(folder / name / "metrics.jsonl"))
    return {
        event: [line["loss"] for line in lines if line["event"] == event]
        for event in ("stepped", "evaluated")
    }


@pytest.mark.parametrize("name", OBJECTIVES)
def test_losses_are_those_that_were_recorded(tmp_path, name):
    recorded = json.loads(FILE.read_text())
    found, expected = losses(name, tmp_path), recorded["losses"][name]
    assert len(found["stepped"]) == 20 and len(found["evaluated"]) == 2
    if recorded["machine"] == machine():
        assert found == expected
    for event, values in expected.items():
        assert found[event] == pytest.approx(values, rel=1e-3)


def record() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        found = {name: losses(name, Path(folder)) for name in OBJECTIVES}
    FILE.write_text(json.dumps({"machine": machine(), "losses": found}, indent=1) + "\n")


if __name__ == "__main__":
    record()
