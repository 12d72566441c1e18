"""Whether two checkouts train to the same bit: `python -m tests.exact OTHER [NAME ...]`.

OTHER is a checkout of another commit with its own .venv. Every task and every ready config is trained for a
few steps by both, and compared: losses, scores, what each step read and drew, initial weights, fingerprints,
and the bytes of every checkpoint. Machines differ in last digits, so both run here, now.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from attnlab.config.files import ready_configs
from attnlab.runs.metrics_file import read_events
from attnlab.tasks import TASKS
from tests.training.small_run import for_task, merged, settings

STEPS = ("training.budget.steps=6", "training.evaluate_every=3", "training.evaluate_batches=2")
RECORDED = (
    "identity",
    "trace",
    "initial",
    "best",
    "data",
    "text",
    "order",
    "tokenizer",
    "truncation",
    "labels",
)


def commands(folder: Path, names: list[str]) -> dict[str, list[str]]:
    """What to train, by name: arguments of `attnlab train`."""
    made: dict[str, list[str]] = {}
    for task in TASKS:
        file = folder / f"{task}.json"
        file.write_text(json.dumps(merged(settings(folder), for_task(task, folder))))
        made[task] = [str(file)]
    for config in ready_configs():
        made[config] = [config, *(part for step in STEPS for part in ("--set", step))]
    return {name: made[name] for name in names or made}


def outcome(attnlab: Path, arguments: list[str], out: Path) -> dict[str, Any]:
    """All that a training leaves behind but times."""
    subprocess.run([attnlab, "train", *arguments, "--out", out, "--threads", "1"], capture_output=True)
    record = json.loads((out / "run.json").read_text())
    result: dict[str, Any] = {name: record.get(name) for name in RECORDED}
    for line in read_events(out / "metrics.jsonl"):
        for name in ("loss", "scores"):
            if name in line:
                result[f"{line['event']} {line['step']} {name}"] = line[name]
    for file in sorted(out.glob("checkpoints/**/*.safetensors")):
        result[str(file.relative_to(out))] = hashlib.sha256(file.read_bytes()).hexdigest()
    return result


def main(other: str, *names: str) -> int:
    differing = 0
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name, arguments in commands(folder, list(names)).items():
            ours, theirs = (
                outcome(root / ".venv/bin/attnlab", arguments, folder / f"{name}-{which}")
                for which, root in (("here", Path.cwd()), ("other", Path(other)))
            )
            differences = [key for key in ours | theirs if ours.get(key) != theirs.get(key)]
            differing += bool(differences)
            told = f"differs in {', '.join(differences)}" if differences else f"equal ({len(ours)} facts)"
            print(f"{name}: {told}", flush=True)
    return min(differing, 1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
