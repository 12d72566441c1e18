"""docs/questions.md: `python -m tests.docs.questions` executes its commands and code, writing their output.

A block that begins with `$ attnlab` shows a command and what it prints, with `  # ...` after it the first
paragraph alone; a block of Python is followed by one of text with what it prints. A block `recorded` shows a
command that trains for minutes, and what it printed once; its form is checked. Other blocks are commands that
are only read.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from attnlab.cli import app
from tests.unchecked import checked_by

PAGE = Path(__file__).parents[2] / "docs" / "questions.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"[−+-]?\d[\d,]*(?:\.\d+)?(?:e[−+-]?\d+)?")
ROUNDING = re.compile(r"[\d.]+×10⁻\S+")
"""Differences by rounding, which another machine has otherwise."""
WIDTH = "80"


@dataclass(frozen=True)
class Shown:
    """What stands in the page as printed, from character to character, and what printed it."""

    start: int
    end: int
    source: str
    printed: str


def shown(page: str) -> Iterator[Shown]:
    blocks = list(BLOCK.finditer(page))
    for number, block in enumerate(blocks):
        language, text = block.groups()
        if language == "python":
            following = blocks[number + 1]
            assert following[1] == "text", f"no printed text after {text[:40]!r}"
            yield Shown(following.start(2), following.end(2), text, following[2])
        elif not language and text.startswith("$ "):
            command, _, printed = text.partition("\n")
            yield Shown(block.start(2) + len(command) + 1, block.end(2), command, printed)


def recorded(page: str) -> Iterator[tuple[str, str]]:
    """The commands whose output was recorded, each with that."""
    for language, text in BLOCK.findall(page):
        if language == "recorded":
            command, _, printed = text.removeprefix("$ ").partition("\n")
            yield command, printed


def commands_only(page: str) -> list[str]:
    """The commands of blocks that show nothing."""
    plain = (text for language, text in BLOCK.findall(page) if not language and not text.startswith("$ "))
    lines = (line.partition("  #")[0].strip() for text in plain for line in text.splitlines())
    return [line for line in lines if line.startswith("attnlab ")] + [
        command for command, _ in recorded(page)
    ]


def execute(source: str, space: dict[str, object]) -> str:
    """What a command or some code prints, without spaces at the ends of lines."""
    if source.startswith("$ "):
        command, first, _ = source[2:].partition("  # ...")
        result = CliRunner().invoke(app, shlex.split(command)[1:], env={"COLUMNS": WIDTH})
        printed = result.output.partition("\n\n")[0] if first else result.output
        if result.exception and not isinstance(result.exception, SystemExit):
            printed += f"Error: {result.exception}"
    else:
        stream = io.StringIO()
        with contextlib.redirect_stdout(stream):
            exec(compile(source, str(PAGE), "exec"), space)
        printed = stream.getvalue()
    lines = [line.rstrip() for line in printed.strip("\n").splitlines()]
    return "\n".join(lines) + "\n"


def same(printed: str, wanted: str) -> bool:
    """Whether two outputs are the same: words exactly, spaces aside, numbers to their last digits."""
    printed, wanted = (ROUNDING.sub("rounding", text) for text in (printed, wanted))
    if NUMBER.sub("#", printed).split() != NUMBER.sub("#", wanted).split():
        return False
    pairs = zip(NUMBER.findall(printed), NUMBER.findall(wanted), strict=True)
    return all(abs(value(a) - value(b)) <= 0.02 * abs(value(b)) + 2e-3 for a, b in pairs)


def value(text: str) -> float:
    return float(text.replace("−", "-").replace(",", "") or 0)


def rewritten() -> str:
    """The page with everything printed anew."""
    page, space, after = PAGE.read_text(encoding="utf-8"), dict[str, object](), 0
    parts = []
    for part in shown(page):
        parts += [page[after : part.start], execute(part.source, space)]
        after = part.end
    return "".join([*parts, page[after:]])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), checked_by():
        PAGE.write_text(rewritten(), encoding="utf-8")
