"""Long texts in parts that overlap."""

from __future__ import annotations

from collections.abc import Iterator


def windows(count: int, room: int, overlap: int) -> Iterator[tuple[int, int]]:
    """Stretches of at most `room` that cover `count` tokens, neighbours sharing `overlap`."""
    begin = 0
    while True:
        end = min(begin + room, count)
        yield begin, end
        if end >= count:
            return
        begin = end - overlap
