"""What Ray adds to a study's time: the same study in local processes and on a local Ray cluster, whose start
and end are included, in interleaved rounds."""

from __future__ import annotations

import itertools
import tempfile
import time
from functools import partial
from pathlib import Path

from attnlab.studies.builtin import builtin
from attnlab.studies.engines import ENGINES
from attnlab.studies.resolved import resolve
from attnlab.studies.runner import run_study
from attnlab.studies.study_files import adjusted
from benchmarks.measure import interleaved, row

TOKENS, SEEDS, ROUNDS, MOST = 300_000, 2, 2, 1.05


def rows() -> list[dict[str, object]]:
    changes = [f"training.budget.tokens={TOKENS}", "training.budget.epochs=unlimited"]
    asked = resolve(adjusted(builtin("attention"), seeds=SEEDS, set=changes, only=["linear"]))
    numbers = itertools.count()
    with tempfile.TemporaryDirectory() as name:

        def study(on: str) -> None:
            ended = run_study(asked, Path(name) / f"{on}-{next(numbers)}", on=on)
            assert not ended.failed, ended.failed

        works = {on: partial(study, on) for on in ("local", "ray")}
        seconds = interleaved(works, rounds=ROUNDS, warmups=0)
    ratio = seconds["ray"] / seconds["local"]
    detail = f"{seconds['ray']:.0f} s against {seconds['local']:.0f} s"
    detail += f"; {cluster_seconds():.1f} s of them start and end the cluster"
    work = f"a study of {2 * SEEDS} runs on Ray against local processes"
    return [row(work, ratio, f"at most {MOST}", ratio <= MOST, detail)]


def cluster_seconds() -> float:
    """To start a local cluster, and to end it."""
    began = time.perf_counter()
    with ENGINES.build("ray"):
        pass
    return time.perf_counter() - began
