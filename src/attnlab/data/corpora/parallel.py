"""Two plain text files side by side: line i of one is the source, line i of the other its target."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from attnlab.data.corpora.readers import lines_of, undecoded
from attnlab.data.corpora.records import Broken
from attnlab.data.errors import DataError, unusable
from attnlab.data.example import Example


def line_pairs(sources: Path, targets: Path, encoding: str) -> Iterator[Example | Broken]:
    """The pairs of two files; lines that are empty in both are skipped, as empty lines of a table are."""
    lines = zip_longest(lines_of(sources, encoding), lines_of(targets, encoding))
    counts = [0, 0]
    for number, (source, target) in enumerate(lines, start=1):
        if source is None or target is None:
            counts = [counts[0] + (source is not None), counts[1] + (target is not None)]
            continue
        counts = [number, number]
        if source.strip() or target.strip():
            yield _pair((source, sources), (target, targets), number, encoding)
    if counts[0] != counts[1]:
        raise DataError(
            f"{sources} has {counts[0]:,} lines and {targets} has {counts[1]:,}; line i of one is translated "
            "by line i of the other, so both need as many. Find where they drift apart: a line break inside "
            "a sentence, or a sentence that was left out."
        )


def _pair(source: tuple[str, Path], target: tuple[str, Path], number: int, encoding: str) -> Example | Broken:
    for line, file in (source, target):
        reason = undecoded(line, encoding) or unusable(line) or ("" if line.strip() else "it is empty")
        if reason:
            other = target[1] if file is source[1] else source[1]
            beside = f", while line {number} of {other} is not" if not line.strip() else ""
            return Broken(f"{file} line {number}", f"{reason}{beside}")
    return Example(source[0].strip(), target=target[0].strip(), place=f"{source[1]} line {number}")
