"""One job of a study, in a process of its own: train or resume, measure, and leave result.json.

The request is JSON on stdin. The exit code is 0 for a finished run, 1 for a failed one, whose reason
is in result.json, and 128 + signal for one that was asked to stop and saved.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from attnlab.config.files import config_of
from attnlab.config.imports import fault_in_own_code, import_again
from attnlab.runs.checkpoints import Checkpoints
from attnlab.runs.events import Listener
from attnlab.runs.faults import RunError
from attnlab.runs.findings import failed_checks, read_findings
from attnlab.runs.folder import lock
from attnlab.runs.metrics_file import METRICS_FILE, read_events
from attnlab.runs.reason import Reason
from attnlab.runs.record import fingerprints_of, read_record
from attnlab.runs.result import RESULT, RunResult, RunState, write_result
from attnlab.session.baselines import keep_baselines
from attnlab.session.session import Session, default_cache
from attnlab.session.trained import Trained
from attnlab.session.training import Run, train
from attnlab.studies.engines.engine import JobRequest, Purpose
from attnlab.studies.extras import extras_of, own_measures
from attnlab.studies.run_curves import curves, placed
from attnlab.studies.run_measures import measure_run
from attnlab.studies.timing import measure_pace

DOCUMENTS = "documents.safetensors"
ORPHANED = 0.5  # seconds between two looks at whether the parent lives
PATIENCE = 60.0  # seconds that a worker whose parent died may still need to save


def work(request: JobRequest) -> int:
    """Do what was asked, and put what came of it in the job's folder."""
    folder = Path(request.folder)
    wait_for(folder)
    (folder / RESULT).unlink(missing_ok=True)
    try:
        import_again(request.imports)
        if request.purpose is Purpose.TIME:
            pace = measure_pace(config_of(request.config), folder / "run", request.allow)
            result = RunResult(status=RunState.FINISHED, extra={"pace": asdict(pace)})
        else:
            run = trained_run(request, folder)
            if run.reason == "interrupted":
                return 128 + run.signal
            trains_only = request.purpose is Purpose.TRAIN
            result = RunResult(status=RunState.FINISHED) if trains_only else finished(request, run)
    except Exception as error:  # whatever it was, the other runs go on, and the report tells it
        traceback.print_exc()
        result = RunResult(
            status=RunState.FAILED,
            reason=Reason.error(fault_in_own_code(error) or str(error) or type(error).__name__),
        )
    write_result(folder, result)
    return 0 if result.status == "finished" else 1


def trained_run(request: JobRequest, folder: Path) -> Run:
    """The run itself; a finished one whose measuring was cut short only goes to its end again."""
    extras = extras_of(request.extras)
    session = Session(config_of(request.config), cache=default_cache())

    def listeners() -> Iterator[Listener]:  # asked for when the session's text is read, which may fail
        yield from extras.watch(session, folder)

    first = Path(request.first) if request.first else None
    return train(session, folder, resume=True, listeners=listeners(), allow=request.allow, first=first)


def finished(request: JobRequest, run: Run) -> RunResult:
    """Everything that the study wants to know of a trained model."""
    memory, began = peak_memory(), time.perf_counter()
    trained = Trained.at(run.folder, which="last")  # arms are compared at the end of one budget
    trained.dataset = run.session.dataset
    measured = measure_run(
        trained,
        probes=request.probes,
        sentence=request.sentence,
        documents=run.folder / DOCUMENTS,
    )
    added = own_measures(extras_of(request.extras), trained)
    record, state, checks = read_record(run.folder), run.state, read_findings(run.folder)
    speed = state.tokens / state.seconds if state.seconds else 0.0
    costs: dict[str, Any] = {
        "seconds": state.seconds,
        "tokens_per_second": speed,
        "peak_memory_bytes": memory,
    }
    events = run.folder / METRICS_FILE
    course = curves(events)
    own = {
        name: placed({axis: list(values) for axis, values in curve.items()}, events)
        for name, curve in added.extra_curves.items()
    }
    baselines = [asdict(baseline) for baseline in keep_baselines(run.session, run.folder)]
    Checkpoints.of(run.folder).prune(1, state.step)  # the last model is the study's; others go
    return replace(
        measured,
        status=RunState.FINISHED,
        seed=record["seed"],
        identity=record["identity"],
        ended=run.reason,
        steps=state.step,
        tokens=state.tokens,
        flops=state.flops,
        parameters=parameters_of(events),
        tuned=sum(p.numel() for p in run.model.parameters() if p.requires_grad),
        evaluation_seconds=time.perf_counter() - began,
        waited=waiting_share(record.get("processor", {})),
        machines=tuple(record.get("machines", ())),
        unsound=tuple(failed_checks(checks)),
        checks=tuple(checks),
        metrics={**measured.metrics, **costs, **added.metrics},
        fingerprints=fingerprints_of(record),
        trace=record.get("trace"),
        initial=record.get("initial"),
        epoch_batches=record.get("epoch_batches"),
        truncation=record.get("truncation", {}),
        versions=record["versions"],
        extra={**measured.extra, **added.extra, **({"baselines": baselines} if baselines else {})},
        curve=course.curve,
        dev_curve=course.dev_curve,
        extra_curves={**course.extra_curves, **own},
        **costs,
    )


def parameters_of(file: Path) -> int:
    return next(int(event["parameters"]) for event in read_events(file) if event["event"] == "started")


def waiting_share(processor: Mapping[str, float]) -> float | None:
    """Of the time in which a run could have computed, that in which others had the processor."""
    whole = sum(processor.values())
    return processor["waited"] / whole if whole else None


def peak_memory() -> int:
    """The largest memory that this process has had, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # one counts bytes, the other kilobytes


def wait_for(folder: Path) -> None:
    """Until a worker whose parent was killed has saved and left the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            with lock(folder / "lock"):
                return
        except RunError:
            if time.monotonic() > deadline:
                return  # the run itself says who holds it
            time.sleep(ORPHANED)


def follow(parent: int) -> None:
    """Stop, saving, when the parent is gone: nothing trains on for nobody."""
    while os.getppid() == parent:
        time.sleep(ORPHANED)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(PATIENCE)
    os._exit(1)


def main() -> None:
    given = json.load(sys.stdin)
    request = JobRequest.of_json(given["request"])
    threading.Thread(target=follow, args=[given["parent"]], daemon=True).start()
    torch.set_num_threads(request.threads)
    sys.exit(work(request))


if __name__ == "__main__":
    main()
