"""By what measure text is taken: whole documents, paragraphs, lines or sentences."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal

Unit = Literal["document", "paragraph", "line", "sentence"]

LARGEST_PARAGRAPH = 1 << 16
"""A "paragraph" beyond this many characters is parted at a line end: memory stays flat on any file."""

ABBREVIATIONS = {
    *("mr", "mrs", "ms", "dr", "prof", "sr", "jr", "st", "vs", "etc", "e.g", "i.e", "cf", "al", "no"),
    *("fig", "figs", "eq", "sec", "ch", "vol", "pp", "p", "ed", "eds", "inc", "ltd", "co", "corp", "u.s"),
    *("jan", "feb", "mar", "apr", "jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec", "approx", "gen"),
}

SENTENCE_END = re.compile(r"""([.!?…]+["'”’)\]]*|[。！？]+["”’」』]*)(\s+|(?<=[。！？])(?=\S)|$)""")


def divided(text: str, unit: Unit) -> Iterator[str]:
    """The parts of a text. Nothing but the white space between them is left out."""
    match unit:
        case "document":
            yield from filter(str.strip, [text])
        case "paragraph":
            for _, paragraph in paragraphs(text.splitlines(keepends=True)):
                yield paragraph
        case "line":
            yield from filter(None, map(str.strip, text.splitlines()))
        case "sentence":
            for _, paragraph in paragraphs(text.splitlines(keepends=True)):
                yield from sentences(paragraph)


def paragraphs(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Stretches of lines between blank ones with the number of their first line, read as they come."""
    gathered: list[str] = []
    size, first = 0, 1
    for number, line in enumerate(lines, start=1):
        if line.strip():
            first = first if gathered else number
            gathered.append(line)
            size += len(line)
        if gathered and (not line.strip() or size >= LARGEST_PARAGRAPH):
            yield first, "".join(gathered).strip("\r\n")
            gathered, size = [], 0
    if gathered:
        yield first, "".join(gathered).strip("\r\n")


def sentences(text: str) -> Iterator[str]:
    """Sentences of a paragraph: they end at . ! ? … followed by white space and no small letter."""
    flat = " ".join(text.split())
    begin = 0
    for end in SENTENCE_END.finditer(flat):
        if goes_on(flat, begin, end):
            continue
        yield flat[begin : end.end()].strip()
        begin = end.end()
    if flat[begin:].strip():
        yield flat[begin:].strip()


def goes_on(text: str, begin: int, end: re.Match[str]) -> bool:
    """Whether a stop belongs to an abbreviation, an initial, or the middle of a sentence."""
    following = text[end.end() : end.end() + 1]
    if following.islower():
        return True
    if end.group(1) != ".":
        return False
    word = text[begin : end.start()].rsplit(" ", 1)[-1].lstrip("([\"'“‘").lower()
    initial = len(word) == 1 and word.isalpha() and word != "i"
    return bool(following) and (word in ABBREVIATIONS or initial)
