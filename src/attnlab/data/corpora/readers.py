"""One reader a file format. Each streams, and knows the line of every row, broken ones included.

The readers of `csv` and `json` are used row by row: faster ones (pyarrow's, pandas') do not say
which line was broken.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from attnlab.config.untrusted import beyond_python
from attnlab.data.corpora.file_bytes import bounded, opened
from attnlab.data.corpora.records import Broken, Record
from attnlab.data.corpora.separators import Separator, character, found_separator
from attnlab.data.corpora.units import Unit, divided, paragraphs
from attnlab.data.errors import DataError, reason_of, unusable

LARGEST_FIELD = 1 << 26
"""Characters of one CSV field; a quote that is never closed ends here and not with the memory."""

MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"PK\x03\x04": "a zip archive", b"%PDF": "a PDF"}

ESCAPED = re.compile("[\udc80-\udcff]")
"""How a byte that did not decode comes through."""


Reader = Callable[[Path, str, Unit], Iterator[Record | Broken]]


def reader_of(file: Path, separator: Separator = "auto") -> Reader:
    """The reader for a file, by its name; a `separator` is that of tables in text."""
    suffixes = [s.lower() for s in file.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    reader = READERS.get(suffixes[-1] if suffixes else "", read_text)
    named = separator != "auto" and reader in (read_csv, read_tsv)
    return partial(read_separated, separator=separator) if named else reader


def read_text(file: Path, encoding: str, unit: Unit) -> Iterator[Record | Broken]:
    """Plain text, by the unit; a paragraph is left for others to part into sentences.

    Lines that cannot be used are the broken rows of a text file.
    """
    broken: list[Broken] = []
    for number, text in text_parts(sound_lines(file, encoding, broken), unit):
        yield from drained(broken)
        yield Record(f"{file} line {number}", {"text": text})
    yield from drained(broken)


def text_parts(lines: Iterator[str], unit: Unit) -> Iterator[tuple[int, str]]:
    if unit == "document":
        for part in divided("".join(lines), unit):
            yield 1, part
    elif unit == "line":
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield number, line.strip()
    else:
        yield from paragraphs(lines)


def sound_lines(file: Path, encoding: str, broken: list[Broken]) -> Iterator[str]:
    """Lines of a text; a broken one is noted and stands as an empty line, so that numbers stay right."""
    for number, line in enumerate(lines_of(file, encoding), start=1):
        reason = undecoded(line, encoding) or unusable(line)
        if reason:
            broken.append(Broken(f"{file} line {number}", reason))
        yield "" if reason else line


def drained(broken: list[Broken]) -> Iterator[Broken]:
    drained_rows = broken[:]
    broken.clear()
    yield from drained_rows


def read_json_lines(file: Path, encoding: str, unit: Unit) -> Iterator[Record | Broken]:
    for number, line in enumerate(lines_of(file, encoding), start=1):
        place = f"{file} line {number}"
        if reason := undecoded(line, encoding):
            yield Broken(place, reason)
        elif line.strip():
            yield parsed_line(line, place)


def parsed_line(line: str, place: str) -> Record | Broken:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        return Broken(place, f"not JSON ({error.msg} at column {error.colno})")
    except (ValueError, RecursionError) as error:
        return Broken(place, f"it has {beyond_python(error)}")
    if not isinstance(value, dict):
        return Broken(place, f"a JSON object with columns is needed, this is a {type(value).__name__}")
    return Record(place, value)


def read_csv(file: Path, encoding: str, unit: Unit) -> Iterator[Record | Broken]:
    """Separated by commas or what the file has in their place, quoted with "."""
    return read_separated(file, encoding, unit, separator=separator_of(file, encoding))


def read_separated(file: Path, encoding: str, unit: Unit, *, separator: str) -> Iterator[Record | Broken]:
    """Separated as a person says, quoted with "."""
    lines = lines_of(file, encoding, newline="")
    return table(file, encoding, csv.reader(lines, delimiter=character(separator), strict=True))


def separator_of(file: Path, encoding: str) -> str:
    """What separates the columns of a file: found in a .csv, and a tab in a .tsv."""
    if reader_of(file) is not read_csv:
        return "tab"
    with closing(lines_of(file, encoding, newline="")) as lines:
        return found_separator(lines)


def read_tsv(file: Path, encoding: str, unit: Unit) -> Iterator[Record | Broken]:
    """Tab-separated without quoting: a quotation mark is text, as in all the usual language data."""
    lines = lines_of(file, encoding, newline="")
    return table(file, encoding, csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))


def table(file: Path, encoding: str, rows: Any) -> Iterator[Record | Broken]:
    """Rows under a header, each with the line on which it begins."""
    csv.field_size_limit(LARGEST_FIELD)
    header: list[str] | None = None
    while True:
        place = f"{file} line {rows.line_num + 1}"
        try:
            row = next(rows, None)
        except csv.Error as error:
            yield Broken(place, f"not well-formed ({error}); check its quotation marks")
            continue
        if row is None:
            return
        if not row:
            continue
        if header is None:
            header = checked_header(file, row, encoding)
        elif reason := undecoded("".join(row), encoding):
            yield Broken(place, reason)
        elif len(row) != len(header):
            fields = "1 field" if len(row) == 1 else f"{len(row)} fields"
            yield Broken(place, f"it has {fields} where the header has {len(header)}")
        else:
            yield Record(place, dict(zip(header, row, strict=True)))


def checked_header(file: Path, row: list[str], encoding: str) -> list[str]:
    names = [name.strip() for name in row]
    if reason := undecoded("".join(names), encoding):
        raise DataError(f"{file} line 1: {reason}.")
    if len(set(names)) < len(names):
        raise DataError(
            f"{file} names a column twice in its first line: {', '.join(names)}. Rename one of them."
        )
    return names


def read_json(file: Path, encoding: str, unit: Unit) -> Iterator[Record | Broken]:
    """One JSON value: SQuAD's articles, or a list of rows. Several values, one a line, are JSON lines."""
    text = "".join(lines_of(file, encoding, whole=True))
    if reason := undecoded(text, encoding):
        raise DataError(f"{file}: {reason}.")
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            return read_json_lines(file, encoding, unit)
        raise DataError(
            f"{file} line {error.lineno} is not JSON: {error.msg} at column {error.colno}."
        ) from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{file} cannot be read: it has {beyond_python(error)}.") from None
    if isinstance(value, dict) and isinstance(value.get("data"), list):
        return articles(file, value["data"])
    if isinstance(value, list):
        return numbered(file, value)
    raise DataError(
        f'{file} holds neither a list of rows nor SQuAD\'s "data"; use .jsonl with one object a line.'
    )


def numbered(file: Path, rows: Iterable[Any]) -> Iterator[Record | Broken]:
    for number, row in enumerate(rows, start=1):
        place = f"{file} row {number}"
        sound = isinstance(row, dict)
        yield Record(place, row) if sound else Broken(place, f"it is a {type(row).__name__}, not an object")


def articles(file: Path, data: list[Any]) -> Iterator[Record | Broken]:
    """Questions of SQuAD's articles. `group = "title"` keeps an article's questions in one split."""
    for a, article in enumerate(data, start=1):
        try:
            title = str(article.get("title", a))
            for paragraph in article["paragraphs"]:
                for question in paragraph["qas"]:
                    place = f"{file} question {question.get('id', '?')}"
                    values = {"question": question.get("question"), "context": paragraph["context"]}
                    answers = [] if question.get("is_impossible") else question.get("answers", [])
                    values |= {"answers": answers, "title": title, "id": question.get("id")}
                    yield Record(place, values)
        except (KeyError, TypeError, AttributeError) as error:
            yield Broken(
                f"{file} article {a}", f"it is not in SQuAD's form ({type(error).__name__}: {error})"
            )


def read_conll(file: Path, encoding: str, unit: Unit) -> Iterator[Record | Broken]:
    """CoNLL's columns: a word a line with its tag in the last column, an empty line after each sentence."""
    words: list[list[str]] = []
    first = 0
    for number, line in enumerate((*lines_of(file, encoding), ""), start=1):
        if line.strip() and not line.startswith(("-DOCSTART-", "# ")):
            first = first if words else number
            words.append(line.split("\t") if "\t" in line else line.split())
        elif words and not line.strip():
            yield sentence_of(f"{file} line {first}", words, encoding)
            words = []


def sentence_of(place: str, words: list[list[str]], encoding: str) -> Record | Broken:
    if reason := undecoded(" ".join(word[0] for word in words), encoding):
        return Broken(place, reason)
    sizes = {len(word) for word in words}
    if len(sizes) > 1 or min(sizes) < 2:
        counts = " or ".join(map(str, sorted(sizes)))
        return Broken(place, f"its lines have {counts} columns; give each word and its tag in as many")
    columns = {"tokens": [word[0].strip() for word in words], "tags": [word[-1].strip() for word in words]}
    return Record(place, columns)


def read_parquet(file: Path, encoding: str, unit: Unit) -> Iterator[Record | Broken]:
    import pyarrow
    import pyarrow.parquet

    try:
        opened = pyarrow.parquet.ParquetFile(file)
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise DataError(f"{file} is not a whole Parquet file: {reason_of(error)}.") from error
    with opened:
        batches, numbers = opened.iter_batches(batch_size=1024), count(1)
        while rows := next_rows(file, batches):
            for row in rows:
                yield Record(f"{file} row {next(numbers)}", row)


def next_rows(file: Path, batches: Iterator[Any]) -> list[dict[str, Any]]:
    """The rows of the next batch, none after the last; a page may be damaged where the rest is whole."""
    import pyarrow

    try:
        first_rows: list[dict[str, Any]] = next(
            (rows for batch in batches if (rows := batch.to_pylist())), []
        )
        return first_rows
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError, OverflowError, ValueError) as error:
        raise DataError(f"{file} is not a whole Parquet file: {reason_of(error)}.") from error


def lines_of(file: Path, encoding: str, newline: str | None = None, *, whole: bool = False) -> Generator[str]:
    """Decoded lines. Bytes that do not decode come through as surrogates, for `undecoded` to find. They are
    to fit into memory one at a time, or as a `whole`."""
    check_mark(file, encoding)
    name = "utf-8-sig" if encoding.lower() in ("utf-8", "utf8") else encoding
    how = {"encoding": name, "errors": "surrogateescape", "newline": newline}
    with (
        readable(file, encoding),
        opened(file) as stream,
        io.TextIOWrapper(bounded(file, stream, whole=whole), **how) as text,  # type: ignore[arg-type]
    ):
        yield from text


@contextmanager
def readable(file: Path, encoding: str) -> Iterator[None]:
    """While a file is read: what is wrong with its bytes or its encoding is told."""
    try:
        yield
    except DataError:
        raise
    except UnicodeError as error:
        raise DataError(f"{file} is not {encoding} text: {reason_of(error)}.") from error
    except (LookupError, ValueError) as error:
        raise DataError(f'There is no encoding "{encoding}"; use utf-8, latin-1, utf-16, ….') from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{file} is not a whole gzip file: {reason_of(error)}.") from error
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror or error}.") from error


def check_mark(file: Path, encoding: str) -> None:
    """What a file's first bytes give away, before its text is taken for broken."""
    try:
        with opened(file) as stream:
            start = stream.read(4)
    except (OSError, EOFError, zlib.error):
        return  # told by whoever reads on
    for mark, kind in MARKS.items():
        if start.startswith(mark) and not encoding.lower().startswith("utf-16"):
            fix = f"give --encoding {kind}" if kind == "utf-16" else "take the text out of it first"
            raise DataError(f"{file} is {kind}, not {encoding} text; {fix}.")


def undecoded(line: str, encoding: str) -> str:
    """Why a line is not in its encoding; empty when it is."""
    if line.isascii():
        return ""
    escape = ESCAPED.search(line)
    if escape is None:
        return ""
    byte = ord(escape[0]) - 0xDC00
    return (
        f"not {encoding} (byte 0x{byte:02X} at character {escape.start() + 1}); if the whole file is in "
        "another encoding, name it, as in --encoding latin-1"
    )


READERS = {
    ".jsonl": read_json_lines,
    ".ndjson": read_json_lines,
    ".json": read_json,
    ".csv": read_csv,
    ".tsv": read_tsv,
    ".parquet": read_parquet,
    ".conll": read_conll,
    ".bio": read_conll,
    ".iob2": read_conll,
    ".txt": read_text,
    ".text": read_text,
    ".md": read_text,
    ".rst": read_text,
    ".py": read_text,
}
