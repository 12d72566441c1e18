"""metrics.jsonl: every event of a run, one JSON object a line, in the order of the steps."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, get_args

from attnlab.config.untrusted import refuse_device
from attnlab.runs.atomic import replace_bytes
from attnlab.runs.events import Checking, Evaluated, Event, Started, Stepped, Stepping
from attnlab.runs.faults import FAULTS
from attnlab.runs.typed import check_record

METRICS_FILE = "metrics.jsonl"
TAIL = 1 << 17
"""Bytes at the end of a file: some hundreds of steps."""
START = '{"event": "'
"""How each line begins, by which kinds are told apart unread."""
KINDS = {kind.__name__.lower(): kind for kind in get_args(Event)}
LONGEST = 1 << 20
"""Characters of a line; what is longer is no event of a run, and is left out as what is damaged."""
NEEDED: dict[type, tuple[str, ...]] = {
    Started: ("parameters",),
    Stepped: ("loss", "gradient", "tokens", "seconds", "progress"),
    Evaluated: ("loss", "scores"),
}
"""What those who read events go by; every version wrote it."""


class MetricsFile:
    """Writes each event as it happens, and is flushed with each: a kill loses nothing that was told."""

    def __init__(self, file: Path, *, step: int = 0, evaluated: int = 0):
        """Goes on after a run's last step and last evaluation; what is told of later ones is left out."""
        rewind(file, step=step, evaluated=evaluated)
        refuse_device(file)
        self.stream = file.open("a", encoding="utf-8", errors="backslashreplace")

    def __call__(self, event: Event) -> None:
        if isinstance(event, (Checking, Stepping)):  # of the moment only; what the checks came to follows
            return
        line = {"event": type(event).__name__.lower()} | asdict(event)
        if not line.get("signatures", True):  # most scores have none
            del line["signatures"]
        self.stream.write(json.dumps(line, ensure_ascii=False) + "\n")
        self.stream.flush()

    def __enter__(self) -> MetricsFile:
        return self

    def __exit__(self, *error: object) -> None:
        self.stream.close()


def read_events(file: Path, *kinds: str) -> Iterator[dict[str, Any]]:
    """The events of a file, or those of some kinds; lines that were cut off or damaged are left out."""
    yield from events_of(lines_of(file, *kinds))


def lines_of(file: Path, *kinds: str) -> Iterator[str]:
    """The lines of a file, or those of some kinds of events; none where there is no file."""
    refuse_device(file)
    if file.exists():
        starts = tuple(f"{START}{kind}" for kind in kinds) or ""
        with file.open(encoding="utf-8", errors="replace") as lines:
            yield from (line for line in lines if line.startswith(starts) and len(line) <= LONGEST)


def events_of(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The events of lines, damaged ones left out."""
    for line in lines:
        with suppress(*FAULTS):
            event = json.loads(line)
            check_event(event)
            yield event


def last_events(file: Path, size: int = TAIL) -> list[dict[str, Any]]:
    """The events at the end of a file, however long it is."""
    return list(events_of(last_lines(file, size)))


def last_lines(file: Path, size: int) -> list[str]:
    """The whole lines among the last bytes of a file."""
    if not file.exists():
        return []
    refuse_device(file)
    with file.open("rb") as stream:
        whole = file.stat().st_size
        stream.seek(max(whole - size, 0))
        lines = [line.decode(errors="replace") for line in stream.read().splitlines()]
    return lines if whole <= size else lines[1:]  # the first may be cut


@dataclass(frozen=True)
class RunCurve:
    """How a run's headline metric went: values at shares of its budget."""

    name: str = ""
    """dev loss, dev accuracy, or training loss where dev was scored less than twice."""
    shares: tuple[float, ...] = ()
    values: tuple[float, ...] = ()


MOST_POINTS = 64
"""Of a curve among words: of training losses no more are read."""


def curve_of(file: Path, metric: str) -> RunCurve:
    """The dev curve of a metric, or that of the training loss; of each step only what is needed is read."""
    points, steps, before = [], 0, ""
    for line in lines_of(file, "stepped", "evaluated"):
        if line.startswith(f"{START}stepped"):
            steps, before = steps + 1, line
        elif before and len(events := list(events_of([before, line]))) == 2:  # neither is damaged
            scores = {"loss": events[1]["loss"], **events[1]["scores"]}
            points.append((events[0]["progress"], scores.get(metric, scores["loss"])))
    if len(points) > 1:
        return _curve(f"dev {metric.replace('_', ' ')}", points)
    if not steps:
        return RunCurve()
    sampled = islice(lines_of(file, "stepped"), 0, None, max(1, steps // MOST_POINTS))
    return _curve("training loss", [(event["progress"], event["loss"]) for event in events_of(sampled)])


def _curve(name: str, points: Sequence[tuple[float, float]]) -> RunCurve:
    finite = [(share, value) for share, value in points if math.isfinite(value)]
    return RunCurve(name, tuple(share for share, _ in finite), tuple(value for _, value in finite))


def latest(file: Path, *kinds: str) -> dict[str, dict[str, Any]]:
    """The last event of each of these kinds, read from the end as far back as it takes."""
    size, whole = 1 << 13, file.stat().st_size if file.exists() else 0
    while True:
        lines = last_lines(file, size)
        own = {kind: [line for line in lines if line.startswith(f'{START}{kind}"')] for kind in kinds}
        events = {kind: next(events_of(reversed(own[kind])), None) for kind in kinds}
        known = {kind: event for kind, event in events.items() if event is not None}
        if size >= whole or len(known) == len(kinds):
            return known
        size *= 8


def check_event(event: dict[str, Any]) -> None:
    """One of the faults of a damaged file unless an event has what one of its kind has."""
    kind = KINDS[event["event"]]
    check_record(event, kind)
    for name in ("step", *NEEDED.get(kind, ())):
        if event[name] is None:
            raise TypeError(f"{name} is null")


def rewind(file: Path, *, step: int, evaluated: int) -> None:
    """Leave out what happened after the step that a run resumes from: it will happen again."""
    last = {"stepped": step, "saved": step, "evaluated": evaluated}
    kept = [line for line in read_events(file) if line["step"] <= last.get(line["event"], line["step"])]
    if file.exists():
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in kept)
        replace_bytes(file, text.encode("utf-8", "backslashreplace"))
