"""Numbers along one side of a drawing, and where to name them: one rule for pages and terminals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence


class Scale:
    """Numbers to places from `start` to `stop`."""

    def __init__(self, values: Iterable[float | None], start: float, stop: float, *, log: bool = False):
        self.log, self.start, self.stop = log, start, stop
        known = [value for value in values if value is not None and self.holds(value)] or [1.0]
        self.low, self.high = self._of(min(known)), self._of(max(known))
        if self.low == self.high:
            self.low, self.high = self.low - 0.5, self.high + 0.5
        if not log:
            margin = (self.high - self.low) * 0.04
            self.low, self.high = self.low - margin, self.high + margin

    def _of(self, value: float) -> float:
        return math.log10(value) if self.log else value

    def holds(self, value: float) -> bool:
        return math.isfinite(value) and (value > 0 or not self.log)

    def __call__(self, value: float) -> float:
        share = (self._of(value) - self.low) / (self.high - self.low)
        return round(self.start + share * (self.stop - self.start), 2)

    def ticks(self) -> list[float]:
        if not self.log:
            return round_numbers(self.low, self.high)
        first, last = math.ceil(self.low - 1e-9), math.floor(self.high + 1e-9)
        every = max(1, (last - first) // 6)
        powers = [10.0**power for power in range(first, last + 1, every)]
        return powers if len(powers) > 1 else [10**self.low, *powers, 10**self.high]


def round_numbers(low: float, high: float) -> list[float]:
    """About five within a range; zero is among them where it lies inside."""
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(size * power for size in (1, 2, 5, 10) if size * power >= rough * 0.999)
    return [number * step for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def set_apart(places: Sequence[float], room: float) -> list[float]:
    """Places of names in their order, moved up as far as each must to have `room` above the last."""
    moved = [0.0] * len(places)
    last = -math.inf
    for place, number in sorted((place, number) for number, place in enumerate(places)):
        last = moved[number] = max(place, last + room)
    return moved
