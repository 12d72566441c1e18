"""Rows of files and data sets, sound or broken, and how a row becomes an example."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from attnlab.config.values import nearest
from attnlab.data.corpora.units import Unit, divided
from attnlab.data.errors import DataError, unusable
from attnlab.data.example import Answer, Example, Word, tagged_words
from attnlab.data.images.decoding import PictureError, opened, pixels_of
from attnlab.data.images.picture import Picture, looks_like_picture, picture_of

Names = str | tuple[str, ...]
"""One column (or path), or several of which the first that exists is taken."""

SHOWN = 5
ANSWER_COLUMNS = ("answers", "answer")
"""Where answers to questions stand; `answer` alone may be a label as well."""
ANSWER_START = "answer_start"
"""The column that says where an answer begins, where there is one answer in a cell of its own."""
LONGEST_PLACE = 18
"""Digits of a place; what has more is none, and Python refuses to read thousands."""


@dataclass(frozen=True, slots=True)
class Record:
    """A row: where it stands, and its values by column."""

    place: str
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Broken:
    """A row that cannot be used, and why."""

    place: str
    reason: str


class BrokenRowError(Exception):
    """Raised inside the making of one example; becomes a Broken."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Which column plays which part. A name must be there; of several, the first that is there is used."""

    text: Names = (
        *("text", "sentence", "sentence1", "premise", "question", "source"),
        *("review", "content", "document", "tokens"),
    )
    pair: Names = ("pair", "sentence2", "hypothesis", "passage", "context")
    target: Names = ("target", "summary", "translation")
    label: Names = ("label", "labels", "class", "sentiment", "answer")
    answers: Names = ("answers",)
    tags: Names = ("tags", "ner_tags", "spans", "entities")
    group: Names = ("group",)
    # not in what identifies files: of those without pictures nothing has changed
    image: Names = field(default=("image", "img", "picture", "file_name"), repr=False)

    @property
    def named(self) -> dict[str, str]:
        """The columns that a person named, by part."""
        columns = {part.name: getattr(self, part.name) for part in fields(self)}
        return {part: names for part, names in columns.items() if isinstance(names, str)}

    def found(self, existing: Sequence[str], source: str) -> dict[str, str]:
        """The column of each part, or an error that lists the columns that exist."""
        parts: dict[str, str] = {}
        for part in fields(self):
            column = self.column(part.name, existing)
            if column is not None:
                parts[part.name] = column
            elif part.name in self.named or (part.name == "text" and not self.column("image", existing)):
                raise missing(source, part.name, listed(getattr(self, part.name)), existing)
        return parts

    def without_pictures(self, parts: Mapping[str, str], first: Record, source: str) -> dict[str, str]:
        """The parts of rows, the picture's only where the first row has one, or where a person named it."""
        if "image" not in parts or "image" in self.named or looks_like_picture(first.values[parts["image"]]):
            return dict(parts)
        if "text" not in parts:
            raise missing(source, "text", listed(self.text), [str(name) for name in first.values])
        return {part: column for part, column in parts.items() if part != "image"}

    def column(self, part: str, existing: Collection[str]) -> str | None:
        """A part's column, if it is there. What a person named for one part is no other part's default."""
        if part in self.named:
            return self.named[part] if self.named[part] in existing else None
        free = (name for name in getattr(self, part) if name not in self.named.values())
        return next((name for name in free if name in existing), None)

    def further(self, parts: Collection[str], existing: Collection[str]) -> str | None:
        """A column that would play a part which none plays yet."""
        columns = (self.column(part.name, existing) for part in fields(self) if part.name not in parts)
        return next((column for column in columns if column is not None), None)


def listed(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names


def missing(source: str, part: str, wanted: Sequence[str], existing: Sequence[str]) -> DataError:
    hint = nearest(wanted[0], existing) if len(wanted) == 1 else ""
    named = f'"{wanted[0]}"' if len(wanted) == 1 else f"for the {part} ({', '.join(wanted)})"
    headless = "; where the first line is data, put a line with the columns' names above it"
    tabular = Path(source.removesuffix(".gz")).suffix in (".csv", ".tsv")
    return DataError(
        f"{source} has no column {named}.{hint} It has: {', '.join(existing)}. "
        f"Say which one holds the {part} with --{part} COLUMN, in a config with data.corpus.{part}"
        f"{headless if tabular else ''}."
    )


@dataclass
class Tally:
    """Sound and broken rows of one reading: nothing is left out without being counted."""

    source: str
    skip: bool
    rows: int = 0
    broken: int = 0
    shown: list[str] = field(default_factory=list)

    def sound(self, items: Iterable[Example | Broken]) -> Iterator[Example]:
        """The sound examples. At a broken row they end, the rest is counted, and an error tells all."""
        for item in items:
            self.rows += 1
            if isinstance(item, Broken):
                self.broken += 1
                if len(self.shown) < SHOWN:
                    self.shown.append(f"{item.place}: {item.reason}.")
            elif self.skip or not self.broken:
                yield item
        if self.broken and not self.skip:
            raise DataError(self.message())
        if self.rows == self.broken:
            raise DataError(self.message() if self.broken else f"{self.source} has no text in it.")

    def message(self) -> str:
        more = self.broken - len(self.shown)
        lines = "\n".join(f"  {line}" for line in self.shown) + (f"\n  … and {more:,} more." if more else "")
        row = "row" if self.rows == 1 else "rows"
        return (
            f"{self.broken:,} of {self.rows:,} {row} of {self.source} cannot be used:\n{lines}\n"
            "Repair them, or skip them with --skip-bad (in a config data.corpus.skip_bad = true)."
        )


def division(row: Example | Broken, unit: Unit) -> Iterator[Example | Broken]:
    """A row of nothing but text, divided; each part stays in the row's group. A broken one stays as it is."""
    if isinstance(row, Broken):
        yield row
        return
    for text in divided(row.text, unit):
        yield Example(text, group=row.group, place=row.place)


def refuse_division(parts: Mapping[str, str], unit: Unit, source: str) -> None:
    """What else a row holds belongs to all of its text."""
    if part := next((part for part in parts if part not in ("text", "group")), None):
        raise DataError(
            f"unit = {unit} divides rows of nothing but text; those of {source} have a {part} too (column "
            f'"{parts[part]}"), which belongs to the whole row. Take rows whole with data.corpus.unit = '
            f"document, or do without the column with data.corpus.{part} = []."
        )


PictureLook = Literal["header", "whole", "none"]
"""How much of a picture is read before it is taken: none of it where all were looked at before."""


def example_of(
    record: Record,
    parts: Mapping[str, str],
    labels: Sequence[str],
    folder: Path = Path(),
    *,
    look: PictureLook = "header",
) -> Example | Broken:
    """A row's example, or why there is none. Files of pictures are looked for in `folder`; `look` says how
    much of a picture is read to know that it is sound."""
    try:
        return made(record, parts, labels, folder, look)
    except BrokenRowError as error:
        return Broken(record.place, str(error))


def made(
    record: Record, parts: Mapping[str, str], labels: Sequence[str], folder: Path, look: PictureLook
) -> Example:
    values = {part: value_of(record, column) for part, column in parts.items()}
    words = words_of(values.get("text"), values["tags"]) if "tags" in values else ()
    if isinstance(values.get("text"), (list, tuple)) and all(isinstance(one, str) for one in values["text"]):
        values["text"] = " ".join(values["text"])
    texts = {p: text_of(values[p], parts[p]) for p in ("text", "pair", "target", "group") if p in values}
    label = label_of(values["label"], parts["label"], labels) if "label" in values else None
    answers: tuple[Answer, ...] = ()
    if "answers" in values:
        written = answers_in(values["answers"], record.values.get(ANSWER_START))
        answers = answers_of(written, texts.get("pair", ""))
    image = image_of(values["image"], parts["image"], folder, look) if "image" in values else None
    return Example(
        texts.get("text", ""),
        pair=texts.get("pair"),
        target=texts.get("target"),
        label=label,
        answers=answers,
        words=words,
        group=texts.get("group"),
        place=record.place,
        image=image,
    )


def image_of(value: Any, column: str, folder: Path, look: PictureLook) -> Picture:
    """A picture that is sound, as far as it is looked at."""
    picture = picture_of(value, folder)
    if isinstance(picture, str):
        raise BrokenRowError(f'its "{column}" {picture}')
    try:
        if look == "whole":
            pixels_of(picture, 1)
        elif look == "header":
            opened(picture)
    except PictureError as error:
        raise BrokenRowError(f'its "{column}" cannot be used: {error}') from error
    return picture


def value_of(record: Record, column: str) -> Any:
    if column not in record.values:
        raise BrokenRowError(
            f'it has no column "{column}"; it has {", ".join(map(str, record.values)) or "none"}'
        )
    return record.values[column]


def text_of(value: Any, column: str) -> str:
    if not isinstance(value, str):
        shown = "null" if value is None else f"{value!r:.40}"
        raise BrokenRowError(f'its "{column}" is {shown}, not text')
    if not value.strip():
        raise BrokenRowError(f'its "{column}" is empty')
    if reason := unusable(value):
        raise BrokenRowError(f'its "{column}" cannot be tokenised: {reason}')
    return value


def label_of(value: Any, column: str, labels: Sequence[str]) -> str | tuple[str, ...]:
    """A label as text, or several: true and 1 are labels as well as words are."""
    if isinstance(value, (list, tuple)):
        return tuple(str(label_of(item, column, labels)) for item in value)
    if isinstance(value, bool):
        label = str(value).lower()
    elif isinstance(value, (str, int)) or (isinstance(value, float) and math.isfinite(value)):
        label = str(value).strip()
    else:
        raise BrokenRowError(f'its label "{column}" is {"null" if value is None else repr(value)}')
    if not label:
        raise BrokenRowError(f'its label "{column}" is empty')
    if labels and label not in labels:
        raise BrokenRowError(
            f'its label "{label}" is not one of {", ".join(labels)}{nearest(label, labels)[:-1]}'
        )
    return label


def words_of(text: Any, tags: Any) -> tuple[Word, ...]:
    """Words with their tags: of a list of tokens with a tag each, or of a text with spans in characters. None
    where the column holds something else, which is no matter for other tasks."""
    if not isinstance(tags, (list, tuple)):
        return ()
    if isinstance(text, str):
        if not all(isinstance(one, Mapping) and {"start", "end", "label"} <= one.keys() for one in tags):
            return ()
        try:
            return tagged_words(text, [(int(s["start"]), int(s["end"]), str(s["label"])) for s in tags])
        except (DataError, TypeError, ValueError) as error:
            raise BrokenRowError(str(error)) from error
    if not isinstance(text, (list, tuple)):
        return ()
    if len(text) != len(tags):
        raise BrokenRowError(f"it has {len(text)} tokens and {len(tags)} tags; give one for each")
    if empty := [str(token) for token in text if not str(token).strip() or len(str(token).split()) > 1]:
        raise BrokenRowError(f'its token "{empty[0]}" is not a single word')
    words, at = [], 0
    for token, tag in zip(text, tags, strict=True):
        words.append(Word(at, at + len(token), str(tag)))
        at += len(token) + 1
    return tuple(words)


def answers_in(value: Any, start: Any) -> Any:
    """Answers that are written as text, as in a cell of a table: as JSON, or one answer as it stands, whose
    place is `start` or, where that is not known, the only one in the passage. Nothing is no answer."""
    if value is None:
        return []
    if not isinstance(value, str):
        return value
    if value.lstrip()[:1] in ("[", "{"):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            pass  # an answer may begin like that
    if not value.strip():
        return []
    digits = start.strip() if isinstance(start, str) else start
    written = isinstance(digits, str) and digits.isdecimal() and len(digits) <= LONGEST_PLACE
    known = int(digits) if written else digits
    return [{"text": value, "answer_start": None if known == "" else known}]


def place_of(text: str, passage: str) -> int:
    """Where an answer begins whose place nobody said."""
    count = passage.count(text)
    if count == 1:
        return passage.index(text)
    fault = f"is {count} times in the passage" if count else "is not in the passage"
    fix = f"say which with a column {ANSWER_START}" if count else "correct it"
    raise BrokenRowError(f"its answer {text!r:.40} {fault}; {fix}")


def answers_of(value: Any, passage: str) -> tuple[Answer, ...]:
    """Answers as SQuAD's files have them (a list of objects) or as tables do (an object of lists)."""
    if isinstance(value, Mapping):
        value = [
            {"text": t, "answer_start": s}
            for t, s in zip(value.get("text", ()), value.get("answer_start", ()), strict=False)
        ]
    if not isinstance(value, (list, tuple)):
        raise BrokenRowError(f"its answers are {value!r:.40}, not a list")
    answers = []
    for item in value:
        if not isinstance(item, Mapping) or not {"text", "answer_start"} <= set(item):
            raise BrokenRowError("an answer needs `text` and `answer_start`")
        text, start = item["text"], item["answer_start"]
        if start is None and isinstance(text, str):
            start = place_of(text, passage)
        sound = isinstance(text, str) and isinstance(start, int) and start >= 0
        if not sound or passage[start : start + len(text)] != text:
            raise BrokenRowError(f"its answer {text!r:.40} is not at character {start!s:.40} of the passage")
        answers.append(Answer(text, start))
    return tuple(answers)
