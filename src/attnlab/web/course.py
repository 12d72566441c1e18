"""A run's course out of its metrics.jsonl as it grows, in as many points as a figure can show."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnlab.runs.faults import FAULTS
from attnlab.runs.metrics_file import METRICS_FILE, check_event

MOST = 512
"""Points of a curve; beyond, neighbours become their mean."""
CHUNK = 1 << 20
AXES = ("step", "tokens", "flops", "seconds")


@dataclass
class Series:
    """Values at places along each axis; of many, each point is the mean of as many steps."""

    at: list[tuple[float, ...]] = field(default_factory=list)
    sums: list[float] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    each: int = 1

    def add(self, place: tuple[float, ...], value: float) -> None:
        if not math.isfinite(value):
            return
        if self.counts and self.counts[-1] < self.each:
            self.at[-1], self.sums[-1] = place, self.sums[-1] + value
            self.counts[-1] += 1
            return
        self.at.append(place)
        self.sums.append(value)
        self.counts.append(1)
        if len(self.at) > MOST:
            self._halve()

    def _halve(self) -> None:
        pairs = range(0, len(self.at), 2)
        self.at = [self.at[min(i + 1, len(self.at) - 1)] for i in pairs]
        self.sums = [sum(self.sums[i : i + 2]) for i in pairs]
        self.counts = [sum(self.counts[i : i + 2]) for i in pairs]
        self.each *= 2

    def places(self, axis: str) -> Sequence[float]:
        return [place[AXES.index(axis)] for place in self.at]

    @property
    def values(self) -> Sequence[float]:
        return [total / count for total, count in zip(self.sums, self.counts, strict=True)]


@dataclass(frozen=True)
class ShownCurves:
    """Curves as regions of a page, and when they were made."""

    regions: Mapping[str, str]
    at: float

    @property
    def size(self) -> int:
        return sum(map(len, self.regions.values()))


class GrowingCourse:
    """Reads what was written since the last look; begins anew where the file was cut, as by a resume."""

    def __init__(self, folder: Path):
        self.file = folder / METRICS_FILE
        self._begin()

    def _begin(self) -> None:
        self.position, self.number = 0, 0
        self.place: tuple[float, ...] = (0.0,) * len(AXES)
        self.series: dict[str, Series] = {}
        self.warnings: list[str] = []
        self.shown: ShownCurves | None = None
        self.ends = ""
        """Which limit ends it, and when, as the loop said."""

    def look(self) -> None:
        for line in self._lines():
            with suppress(*FAULTS):  # a view: a line that is damaged is left out
                event = json.loads(line)
                check_event(event)
                self._take(event)

    def _lines(self) -> Iterator[bytes]:
        try:
            known = self.file.stat()
            if known.st_size < self.position or known.st_ino != self.number:  # cut, or written anew
                self._begin()
            self.number = known.st_ino
            with self.file.open("rb") as stream:
                stream.seek(self.position)
                while chunk := stream.readlines(CHUNK):
                    for line in chunk:
                        if line.endswith(b"\n"):  # one that is being written is read the next time
                            self.position += len(line)
                            yield line
        except OSError:
            return

    def _take(self, event: dict[str, Any]) -> None:
        match event["event"]:
            case "stepped":
                _, tokens, flops, seconds = self.place
                more = event["tokens"], event.get("flops", 0), event["seconds"]
                self.place = (event["step"], tokens + more[0], flops + more[1], seconds + more[2])
                self._add("train loss", event["loss"])
                self._add("gradient norm", event["gradient"])
                self._add("learning rate", event.get("learning_rate", math.nan))
                self._add("tokens/s", event["tokens"] / event["seconds"] if event["seconds"] else math.nan)
            case "evaluated":
                self._add("dev loss", event["loss"])
                for name, value in event["scores"].items():
                    self._add(f"dev {name}", value)
            case "warned":
                self.warnings = [*self.warnings[-19:], str(event.get("message", ""))]
            case "started":
                self.ends = str(event.get("ends", ""))

    def _add(self, name: str, value: Any) -> None:
        if isinstance(value, int | float):
            self.series.setdefault(name, Series()).add(self.place, float(value))


class Courses:
    """The courses of runs that were asked for, the oldest given up first."""

    def __init__(self, most: int = 64):
        self.most, self.known = most, dict[Path, GrowingCourse]()

    def of(self, folder: Path) -> GrowingCourse:
        course = self.known.pop(folder, None) or GrowingCourse(folder)
        self.known[folder] = course
        while len(self.known) > self.most:
            del self.known[next(iter(self.known))]
        course.look()
        return course
