"""A run's course out of its metrics.jsonl as it grows, in as many points as a figure can show."""

from __future__ import annotations

import math
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnlab.runs.follower import FollowedEvents

MOST = 512
"""Points of a curve; beyond, neighbours become their mean."""
AXES = ("step", "tokens", "flops", "seconds")


@dataclass
class Series:
    """Values at places along each axis; of many, each point is the mean of as many steps."""

    at: list[tuple[float, ...]] = field(default_factory=list)
    sums: list[float] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    each: int = 1

    def add(self, place: tuple[float, ...], value: float) -> None:
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

    def copy(self) -> Series:
        return Series([*self.at], [*self.sums], [*self.counts], self.each)

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


@dataclass(frozen=True)
class RunCourse:
    """How a run went so far. `warnings` are its last; `ends` says which limit ends it, and when."""

    series: Mapping[str, Series]
    place: tuple[float, ...]
    """Steps, tokens, FLOPs and seconds."""
    warnings: Sequence[str]
    ends: str
    growing: GrowingCourse


class GrowingCourse(FollowedEvents):
    """A run's course so far. Threads that show the same run each see it as it was at one moment."""

    def __init__(self, folder: Path):
        self._lock = threading.Lock()
        super().__init__(folder)

    def _begin(self) -> None:
        self.place: tuple[float, ...] = (0.0,) * len(AXES)
        self.series = defaultdict[str, Series](Series)
        self.warnings: list[str] = []
        self.shown: ShownCurves | None = None
        self.ends = ""

    def look(self) -> RunCourse:
        """The course so far."""
        with self._lock:
            self._read_new()
            series = {name: own.copy() for name, own in self.series.items()}
            return RunCourse(series, self.place, tuple(self.warnings), self.ends, self)

    def _take(self, event: dict[str, Any]) -> None:
        match event["event"]:
            case "stepped":
                _, tokens, flops, seconds = self.place
                step, loss, gradient = (float(event[name]) for name in ("step", "loss", "gradient"))
                more = float(event["tokens"]), float(event.get("flops", 0)), float(event["seconds"])
                rate = float(event.get("learning_rate", math.nan))
                self.place = step, tokens + more[0], flops + more[1], seconds + more[2]
                speed = more[0] / more[2] if more[2] else math.nan
                values = {"train loss": loss, "gradient norm": gradient}
                self._add(values | {"learning rate": rate, "tokens/s": speed})
            case "evaluated":
                scores = {"loss": event["loss"], **event["scores"]}
                self._add({f"dev {name}": float(value) for name, value in scores.items()})
            case "warned":
                self.warnings = [*self.warnings[-19:], str(event.get("message", ""))]
            case "started":
                self.ends = str(event.get("ends", ""))

    def _add(self, values: Mapping[str, float]) -> None:
        if all(map(math.isfinite, self.place)):
            for name, value in values.items():
                if math.isfinite(value):
                    self.series[name].add(self.place, value)


class Courses:
    """The courses of runs that were asked for, the oldest given up first."""

    def __init__(self, most: int = 64):
        self.most, self.known = most, dict[Path, GrowingCourse]()
        self._lock = threading.Lock()

    def of(self, folder: Path) -> RunCourse:
        with self._lock:
            course = self.known.pop(folder, None) or GrowingCourse(folder)
            self.known[folder] = course
            while len(self.known) > self.most:
                del self.known[next(iter(self.known))]
        return course.look()
