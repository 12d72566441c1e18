"""A person's own files, read a second time by the plain readers of Python: what stands in which line, and on
which side of a split it belongs. Nothing of `data/corpora/readers.py` and `data/splits.py` is used."""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, TextIO

from attnlab.data.corpora.corpus import Corpus
from attnlab.data.corpora.own_files import Files
from attnlab.data.dataset import Dataset
from attnlab.data.images.picture import is_picture_file

LARGEST = 32 << 20
"""Bytes of all files beyond which they are not read a second time."""
LONGEST_FIELD = 1 << 26
LONGEST_TEXT = 1 << 15
"""Characters of plain text below which a paragraph is one example."""
PARTS = ("text", "pair", "target", "label", "answers", "tags", "group", "image")
WORD_FILES = (".conll", ".bio", ".iob2")
TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet", *WORD_FILES)


@dataclass(frozen=True)
class SourceRow:
    """A row as it stands in its file: where, and its values by the part that they play."""

    place: str
    values: Mapping[str, Any]

    @property
    def text(self) -> str:
        """Its text; of a list of words these, with a space between two."""
        value = self.values.get("text", "")
        return " ".join(value) if isinstance(value, (list, tuple)) else str(value)

    @property
    def key(self) -> str:
        """What must not be parted between splits: the group, else the picture, the passage or the text."""
        group, picture = self.values.get("group"), self.values.get("image")
        if not group and isinstance(picture, bytes):
            return hashlib.blake2b(picture, digest_size=16).hexdigest()
        return str(next((value for value in (group, self.values.get("pair")) if value), self.text))


@dataclass(frozen=True)
class Source:
    """Files by split; and of splits that have none of their own, the share of the training file that each
    takes, and the seed."""

    corpus: Files
    made: Mapping[str, float]
    seed: int = 0

    @property
    def whole_rows(self) -> bool:
        """Whether a row of a file is an example; sentences and parts of rows are several."""
        files = [file for group in self.corpus.files.values() for file in group]
        tables = any(suffix_of(file) in TABLES for file in files)
        divided = self.corpus.unit == "sentence" or (self.corpus.unit == "line" and tables)
        return not divided and (tables or all(len(row.text) < LONGEST_TEXT for row in self.every))

    @property
    def countable(self) -> bool:
        """Whether as many examples must come out as rows go in: none may be left out as broken."""
        return self.whole_rows and not self.corpus.skip_bad

    @cached_property
    def rows(self) -> dict[str, list[SourceRow]]:
        """The rows of every split, in the order of the files."""
        rows: dict[str, list[SourceRow]] = {}
        for given in self.corpus.files:
            for row in self.rows_in(given):
                rows.setdefault(self.side(row) if given == "train" else given, []).append(row)
        return rows

    @property
    def every(self) -> list[SourceRow]:
        return [row for rows in self.rows.values() for row in rows]

    def side(self, row: SourceRow) -> str:
        """The split that a row of the training file belongs to: by the first bytes of a hash, as a share."""
        digest = hashlib.sha256(f"{self.seed}\x1f{row.key}".encode("utf-8", "surrogatepass")).hexdigest()
        share = int(digest[:16], 16) / 16**16
        for split in ("test", "dev"):
            if share < self.made.get(split, 0.0):
                return split
            share -= self.made.get(split, 0.0)
        return "train"

    def rows_in(self, given: str) -> Iterator[SourceRow]:
        """What the files of a split hold."""
        files, targets = self.corpus.files[given], self.corpus.targets.get(given, ())
        if targets:
            for source, target in zip(files, targets, strict=True):
                yield from self.rows_of_two(source, target)
            return
        for file in files:
            yield from self.rows_of(file)

    def rows_of_two(self, source: Path, target: Path) -> Iterator[SourceRow]:
        """The lines of one file, each with that of the other which has its number."""
        with opened(source, self.corpus.encoding) as read, opened(target, self.corpus.encoding) as written:
            for number, (text, translated) in enumerate(zip(read, written, strict=True), start=1):
                if text.strip() or translated.strip():
                    values = {"text": text.strip(), "target": translated.strip()}
                    yield SourceRow(f"{source} line {number}", values)

    def rows_of(self, file: Path) -> Iterator[SourceRow]:
        """What a file holds: a picture in a folder of them is a row, whose class is the folder's name."""
        if is_picture_file(file):
            folders = {one.parent for group in self.corpus.files.values() for one in group}
            label = file.parent.name if len({folder.name for folder in folders}) > 1 else None
            yield SourceRow(str(file), {"text": "", "image": file.read_bytes(), "label": label})
            return
        if suffix_of(file) not in TABLES:
            with opened(file, self.corpus.encoding) as stream:
                for number, text in texts_in(stream, self.corpus.unit):
                    yield SourceRow(f"{file} line {number}", {"text": text})
            return
        columns: dict[str, str] = {}
        separator = self.corpus.separators().get(file, "")
        for place, values in records(file, self.corpus.encoding, separator):
            columns = columns or self.columns_in(values)
            parts = {part: values.get(column) for part, column in columns.items()}
            if "image" in parts:
                parts["image"] = bytes_of(parts["image"], file.parent)
            yield SourceRow(place, parts | {"answer_start": values.get("answer_start")})

    def columns_in(self, values: Mapping[str, Any]) -> dict[str, str]:
        """The column of each part: the one that a person named, or the first of the usual names."""
        wanted = {part: getattr(self.corpus.columns, part) for part in PARTS}
        named = {names for names in wanted.values() if isinstance(names, str)}
        usual = {
            part: [names] if isinstance(names, str) else [name for name in names if name not in named]
            for part, names in wanted.items()
        }
        there = {part: [name for name in names if name in values] for part, names in usual.items()}
        return {part: names[0] for part, names in there.items() if names}


def source_of(dataset: Dataset) -> Source | None:
    """The files of a dataset, read once; None where its text is not from files, or they are too large."""
    if "source" not in dataset.notes:
        splits = dataset.splits
        dataset.notes["source"] = source_of_corpus(dataset.corpus, splits.made, splits.seed)
    source: Source | None = dataset.notes["source"]
    return source


def source_of_corpus(corpus: Corpus, made: Mapping[str, float] | None = None, seed: int = 0) -> Source | None:
    """The files of a corpus, read once."""
    if not isinstance(corpus, Files) or corpus.size > LARGEST:
        return None
    source = Source(corpus, made or {}, seed)
    try:
        _ = source.rows
    except (OSError, ValueError, KeyError, TypeError, AttributeError, csv.Error):
        return None  # a form that only the corpus knows how to read
    return source


# ---------------------------------------------------------------- files
def suffix_of(file: Path) -> str:
    return Path(file.name.lower().removesuffix(".gz")).suffix


def bytes_of(picture: Any, folder: Path) -> bytes | None:
    """The bytes of a picture in a cell: they themselves, {bytes, path}, or the name of its file."""
    content = picture.get("bytes") if isinstance(picture, Mapping) else picture
    name = picture.get("path") if isinstance(picture, Mapping) else picture
    if isinstance(content, bytes):
        return content
    return (folder / name).read_bytes() if isinstance(name, str) else None


def opened(file: Path, encoding: str, newline: str | None = None) -> TextIO:
    name = "utf-8-sig" if encoding.lower().replace("-", "") == "utf8" else encoding
    reading: Any = gzip.open if file.name.lower().endswith(".gz") else open
    stream: TextIO = reading(file, "rt", encoding=name, errors="replace", newline=newline)
    return stream


def records(file: Path, encoding: str, separator: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Rows of a table, each with its place."""
    suffix = suffix_of(file)
    if suffix == ".parquet":
        import pyarrow.parquet

        rows = pyarrow.parquet.read_table(file).to_pylist()
        yield from ((f"{file} row {number}", row) for number, row in enumerate(rows, start=1))
    elif suffix in (".csv", ".tsv"):
        sign = "\t" if separator == "tab" else separator
        yield from cells(file, encoding, sign, quoted=suffix == ".csv" or sign != "\t")
    elif suffix in WORD_FILES:
        yield from tagged_sentences(file, encoding)
    else:
        yield from objects(file, encoding)


def cells(
    file: Path, encoding: str, separator: str, *, quoted: bool
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    csv.field_size_limit(LONGEST_FIELD)
    with opened(file, encoding, newline="") as stream:
        if not quoted:
            lines = (line.rstrip("\r\n") for line in stream)
            numbered: Iterable[tuple[int, list[str]]] = (
                (number, line.split(separator)) for number, line in enumerate(lines, start=1) if line
            )
        else:
            numbered = with_first_lines(csv.reader(stream, delimiter=separator))
        header: list[str] = []
        for number, row in numbered:
            if not header:
                header = [name.strip() for name in row]
            else:
                yield f"{file} line {number}", dict(zip(header, row, strict=False))


def with_first_lines(rows: Any) -> Iterator[tuple[int, list[str]]]:
    """Rows with the line that each begins on."""
    while True:
        begins = rows.line_num + 1
        row = next(rows, None)
        if row is None:
            return
        if row:
            yield begins, row


def objects(file: Path, encoding: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Objects of JSON: one a line, a list of them, or SQuAD's articles."""
    with opened(file, encoding) as stream:
        text = stream.read()
    try:
        value = json.loads(text) if suffix_of(file) == ".json" else None
    except json.JSONDecodeError:
        value = None
    if value is None:
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                yield f"{file} line {number}", json.loads(line)
    elif isinstance(value, list):
        yield from ((f"{file} row {number}", row) for number, row in enumerate(value, start=1))
    else:
        for paragraph in (p for article in value["data"] for p in article["paragraphs"]):
            for asked in paragraph["qas"]:
                answers = [] if asked.get("is_impossible") else asked.get("answers", [])
                own = {"question": asked["question"], "context": paragraph["context"], "answers": answers}
                yield f"{file} question {asked.get('id', '?')}", own


def tagged_sentences(file: Path, encoding: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    with opened(file, encoding) as stream:
        lines = [(number, line) for number, line in enumerate(stream, start=1)]
    kept = [(number, line) for number, line in lines if not line.startswith(("-DOCSTART-", "# "))]
    for is_blank, group in groupby(kept, key=lambda item: not item[1].strip()):
        if not is_blank:
            words = list(group)
            columns = [line.split("\t") if "\t" in line else line.split() for _, line in words]
            tokens, tags = ([column[n].strip() for column in columns] for n in (0, -1))
            yield f"{file} line {words[0][0]}", {"tokens": tokens, "tags": tags}


def texts_in(stream: Iterable[str], unit: str) -> Iterator[tuple[int, str]]:
    """Plain text with the number of its first line: all of it, its lines, or the stretches between blank
    ones."""
    lines = list(enumerate(stream, start=1))
    if unit == "document":
        yield 1, "".join(line for _, line in lines)
    elif unit == "line":
        yield from ((number, line.strip()) for number, line in lines if line.strip())
    else:
        for is_blank, group in groupby(lines, key=lambda item: not item[1].strip()):
            if not is_blank:
                block: Sequence[tuple[int, str]] = list(group)
                yield block[0][0], "".join(line for _, line in block).strip("\r\n")
