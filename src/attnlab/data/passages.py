"""Passages of a person's files: what a search finds, each with the place where it stands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from attnlab.data.corpora.file_bytes import opened
from attnlab.data.corpora.own_files import hidden
from attnlab.data.corpora.readers import (
    ESCAPED,
    check_mark,
    drained,
    read_text,
    readable,
    reader_of,
    sound_lines,
)
from attnlab.data.corpora.records import Broken, Columns, Record
from attnlab.data.corpora.units import paragraphs, sentences
from attnlab.data.errors import DataError, unusable

WORDS = 120
"""Of a passage at the most: what sentence encoders were trained to read at once."""
HEADING = 12
"""Words below which a paragraph that ends no sentence is a heading, which belongs to what follows."""
LOOKED_AT = 1 << 13
"""Bytes by which a file is told from one that is not text."""


@dataclass(frozen=True, slots=True)
class PlacedPassage:
    """A stretch of a file: its text, and the lines or the row that it is."""

    text: str
    where: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """What could not be read, and why: a file, or a line of one; no place where the reason names it."""

    place: str
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}" if self.place else self.reason


def files_in(folder: Path) -> list[Path]:
    """Every file below a folder, hidden ones aside, or the one file that is named, in a fixed order."""
    if folder.is_file():
        return [folder]
    if not folder.is_dir():
        raise DataError(f'There is no folder or file "{folder}" to search in.')
    files = sorted(f for f in folder.rglob("*") if f.is_file() and not hidden(f.relative_to(folder)))
    if not files:
        raise DataError(f"{folder} has no files to search in.")
    return files


def read_passages(file: Path, encoding: str = "utf-8") -> tuple[list[PlacedPassage], list[Skipped]]:
    """The passages of a file, and what of it could not be read; a file that is no text has none."""
    try:
        if reason := not_text(file, encoding):
            return [], [Skipped(str(file), reason)]
        if reader_of(file) is read_text:
            return _of_text(file, encoding)
        return _of_table(file, encoding)
    except (DataError, OSError) as error:
        if isinstance(error, OSError):
            return [], [Skipped(str(file), str(error.strerror))]
        return [], [Skipped("", str(error))]  # it names the file


def not_text(file: Path, encoding: str) -> str:
    """Why a file's first bytes are no text in this encoding; empty where they are."""
    if file.suffix.lower() == ".parquet":
        return ""
    check_mark(file, encoding)
    with readable(file, encoding), opened(file) as stream:
        start = stream.read(LOOKED_AT)
        text = start.decode(encoding, "surrogateescape")
    if "\0" in text:
        return "it is a binary file"
    whole = text[:-4] if len(start) == LOOKED_AT else text  # the last character may be cut
    broken = len(ESCAPED.findall(whole))
    if broken > max(1, len(whole) // 20):
        return f"it is not {encoding} text"
    return ""


def _of_text(file: Path, encoding: str) -> tuple[list[PlacedPassage], list[Skipped]]:
    broken: list[Broken] = []
    passages = list(passages_of(sound_lines(file, encoding, broken)))
    return passages, [Skipped(line.place, line.reason) for line in drained(broken)]


def _of_table(file: Path, encoding: str) -> tuple[list[PlacedPassage], list[Skipped]]:
    """A row is a passage: its second text where it has one (SQuAD's context), else all its texts."""
    passages: dict[str, PlacedPassage] = {}  # the questions of one passage repeat it
    skipped = []
    for record in reader_of(file)(file, encoding, "paragraph"):
        if isinstance(record, Broken):
            skipped.append(Skipped(record.place, record.reason))
            continue
        where = record.place.removeprefix(f"{file} ")
        for text in divided_passage(text_of_row(record)):
            passages.setdefault(text, PlacedPassage(text, where))
    return list(passages.values()), skipped


def text_of_row(record: Record) -> str:
    second = Columns().column("pair", [str(name) for name in record.values])
    values = record.values.values() if second is None else [record.values[second]]
    texts = [value.strip() for value in values if isinstance(value, str) and not unusable(value)]
    return "\n".join(filter(None, texts))


def passages_of(lines: Iterable[str]) -> Iterator[PlacedPassage]:
    """The passages of a text: paragraphs, a heading with what follows it, a long one divided."""
    gathered: list[str] = []
    first = last = 0
    for start, paragraph in paragraphs(lines):
        for line, end, part in pieces(start, paragraph):
            if gathered and (not is_heading(gathered[-1]) or count(" ".join((*gathered, part))) > WORDS):
                yield PlacedPassage("\n".join(gathered), lines_phrase(first, last))
                gathered = []
            first = line if not gathered else first
            gathered.append(part)
            last = end
    if gathered:
        yield PlacedPassage("\n".join(gathered), lines_phrase(first, last))


def pieces(start: int, paragraph: str) -> Iterator[tuple[int, int, str]]:
    """(first line, last line, text) of the parts of a paragraph that begins at a line, none too long."""
    parts: list[str] = []
    first, lines = start, paragraph.splitlines()
    for number, line in enumerate(lines, start=start):
        if parts and count(" ".join((*parts, line))) > WORDS:
            yield first, number - 1, "\n".join(parts)
            parts = []
        if count(line) > WORDS:
            for part in divided_passage(line):
                yield number, number, part
            continue
        first = number if not parts else first
        parts.append(line)
    if parts:
        yield first, start + len(lines) - 1, "\n".join(parts)


def divided_passage(text: str) -> Iterator[str]:
    """A text in parts of whole sentences, none longer than a passage; a sentence that is, by its words."""
    if count(text) <= WORDS:
        if text.strip():
            yield text.strip()
        return
    parts: list[str] = []
    for sentence in sentences(text):
        if parts and count(" ".join((*parts, sentence))) > WORDS:
            yield " ".join(parts)
            parts = []
        words = iter(sentence.split())
        while count(sentence) > WORDS and (part := list(islice(words, WORDS))):
            parts = part
            if len(part) == WORDS:
                yield " ".join(part)
                parts = []
        if count(sentence) <= WORDS:
            parts.append(sentence)
    if parts:
        yield " ".join(parts)


def is_heading(text: str) -> bool:
    return count(text) < HEADING and not text.rstrip().endswith((".", "!", "?", "…"))


def count(text: str) -> int:
    return len(text.split())


def lines_phrase(first: int, last: int) -> str:
    return f"line {first}" if first == last else f"lines {first}–{last}"
