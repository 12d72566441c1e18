"""A person's own files."""

from __future__ import annotations

import glob
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from attnlab.config.values import nearest
from attnlab.config.wording import count_of
from attnlab.data.corpora.corpus import Corpus
from attnlab.data.corpora.parallel import line_pairs
from attnlab.data.corpora.readers import (
    READERS,
    lines_of,
    read_csv,
    read_text,
    read_tsv,
    reader_of,
    separator_of,
    undecoded,
)
from attnlab.data.corpora.records import (
    Broken,
    Columns,
    Names,
    PictureLook,
    Record,
    Tally,
    division,
    example_of,
    refuse_division,
)
from attnlab.data.corpora.separators import Separator
from attnlab.data.corpora.units import Unit
from attnlab.data.errors import DataError, unusable
from attnlab.data.example import Example
from attnlab.data.images.picture import Picture, is_picture_file, looks_like_picture, picture_of
from attnlab.data.images.picture_folder import has_class_folders, picture_record, pictures_by_split

SPLIT_NAMES = {
    "train": re.compile(r"(^|[-_.])train(ing)?([-_.]|$)"),
    "dev": re.compile(r"(^|[-_.])(dev|val|valid|validation)([-_.]|$)"),
    "test": re.compile(r"(^|[-_.])test(ing)?([-_.]|$)"),
}
NAMED = Columns()
DIVIDING = ("line", "sentence")
"""The units that divide a row of a table."""
TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
"""Files whose rows may name pictures."""


class Files(Corpus):
    """Local files: .txt, .jsonl, .csv, .tsv, .parquet, .conll, SQuAD's .json, folders, globs, .gz of them.

    Plain text is taken by paragraph (blank lines part them) unless `unit` says otherwise; a row of
    a table is one example, which `line` and `sentence` divide; they are refused where it holds more
    than text, since a label or a second text belongs to the whole.
    A folder with files named train, dev (or valid) and test has those splits; `dev` and `test`
    name them for single files. A broken row stops with the count of all, unless `skip_bad`.
    The columns of a .csv are separated by commas, semicolons, tabs or vertical bars, as its first rows
    show, unless `separator` says which.
    Two plain text files of which line i of one belongs to line i of the other are `path` and `target_path`
    (with `dev` and `target_dev`, `test` and `target_test`).
    Files are streamed: memory does not grow with them (save for .json and whole documents).
    A row may hold a picture (`image`): its bytes, {bytes, path} as the library datasets stores it, or the
    name of its file. A folder of pictures has a metadata.csv or metadata.jsonl with a column file_name, or a
    folder for each class.
    """

    later = ("separator", "target_path", "target_dev", "target_test", "image")

    def __init__(
        self,
        *,
        path: Names = (),
        dev: Names = (),
        test: Names = (),
        text: Names = NAMED.text,
        pair: Names = NAMED.pair,
        target: Names = NAMED.target,
        label: Names = NAMED.label,
        answers: Names = NAMED.answers,
        tags: Names = NAMED.tags,
        group: Names = NAMED.group,
        labels: tuple[str, ...] = (),
        unit: Unit = "paragraph",
        encoding: str = "utf-8",
        skip_bad: bool = False,
        separator: Separator = "auto",
        target_path: Names = (),
        target_dev: Names = (),
        target_test: Names = (),
        image: Names = NAMED.image,
    ):
        if not path:
            raise DataError('files needs a path: corpus = { kind = "files", path = "notes.txt" }.')
        self.columns = Columns(
            text=text,
            pair=pair,
            target=target,
            label=label,
            answers=answers,
            tags=tags,
            group=group,
            image=image,
        )
        self.labels, self.unit, self.encoding, self.skip_bad = labels, unit, encoding, skip_bad
        self.separator: Separator = separator
        self.files = assigned(path, dev, test)
        self.targets = target_files(self.files, target_path, target_dev, target_test)
        self.classed = has_class_folders(self.files)
        self._skipped: dict[str, int] = {}
        self._sound: set[str] = set()
        """Splits that were read once without a broken row: pictures of theirs are not looked at again."""
        self._read, self._all = 0, 0

    @property
    def given(self) -> tuple[str, ...]:
        return tuple(self.files)

    @property
    def skipped(self) -> int:
        return sum(self._skipped.values())

    @property
    def size(self) -> int:
        return sum(file.stat().st_size for files in self.files.values() for file in files)

    @property
    def share_read(self) -> float | None:
        """By the files' bytes, of which a text's characters are most: a compressed file holds more."""
        return min(1.0, self._read / self._all) if self._all else None

    def separators(self) -> dict[Path, str]:
        """What separates the columns of each file in which something does."""
        files = [file for files in self.files.values() for file in files]
        tables = [file for file in files if reader_of(file) in (read_csv, read_tsv)]
        named = self.separator
        return {file: separator_of(file, self.encoding) if named == "auto" else named for file in tables}

    def read(self, split: str = "train") -> Iterator[Example]:
        self.check_given(split)
        files = self.files[split]
        tally = Tally(str(files[0]) if len(files) == 1 else f"{len(files)} files", self.skip_bad)
        self._read, self._all = 0, sum(file.stat().st_size for file in files)
        for example in tally.sound(item for file in files for item in self._items(file, split)):
            self._read += example.size
            yield example
        self._skipped[split] = tally.broken
        if not tally.broken:
            self._sound.add(split)

    def _items(self, file: Path, split: str) -> Iterator[Example | Broken]:
        if self.targets:
            target = self.targets[split][self.files[split].index(file)]
            yield from line_pairs(file, target, self.encoding)
            return
        first: Record | None = None
        look: PictureLook = "none" if split in self._sound else "whole" if self.skip_bad else "header"
        for record in self._records(file):
            if isinstance(record, Broken):
                yield record
                continue
            if first is None:
                first, parts = record, self._parts(file, record)
            example = self._example(record, first, parts, file.parent, look)
            yield from division(example, self.unit) if self.unit in DIVIDING else [example]

    def _records(self, file: Path) -> Iterator[Record | Broken]:
        if is_picture_file(file):
            return iter([picture_record(file, classed=self.classed)])
        return reader_of(file, self.separator)(file, self.encoding, self.unit)

    def _example(
        self, record: Record, first: Record, parts: dict[str, str], folder: Path, look: PictureLook
    ) -> Example | Broken:
        new = record.values.keys() - first.values.keys()
        if new and (column := self.columns.further(parts, new)):
            reason = f'it has a column "{column}", which the first row has not; give it to all rows or none'
            return Broken(record.place, reason)
        return example_of(record, parts, self.labels, folder, look=look)

    def _parts(self, file: Path, first: Record) -> dict[str, str]:
        if reader_of(file) is read_text and not is_picture_file(file):
            refuse_columns(file, self.columns.named)
            return {"text": "text"}
        parts = self.columns.found([str(name) for name in first.values], str(file))
        parts = self.columns.without_pictures(parts, first, str(file))
        if self.unit in DIVIDING:
            refuse_division(parts, self.unit, str(file))
        return parts

    def fingerprint(self) -> str:
        total = hashlib.sha256(repr((self.columns, self.labels, self.unit, self.encoding)).encode())
        total.update(repr(self.skip_bad).encode())
        total.update(self.separator.encode() if self.separator != "auto" else b"")
        for files_of_side in (self.files, self.targets):
            for split, files in files_of_side.items():
                for file in files:
                    total.update(f"{split}\0{file.name}\0".encode())
                    with file.open("rb") as stream:
                        total.update(hashlib.file_digest(stream, "sha256").digest())
                    for part in self._pictures(file):
                        total.update(part)
        if self.columns.image != NAMED.image:
            total.update(repr(self.columns.image).encode())
        return total.hexdigest()[:16]

    def _pictures(self, file: Path) -> Iterator[bytes]:
        """What identifies a picture beside its own bytes, and the pictures that a table names."""
        if is_picture_file(file):
            yield file.parent.name.encode() if self.classed else b""
            return
        if Path(file.name.lower().removesuffix(".gz")).suffix not in TABLES:
            return
        records = (record for record in self._records(file) if isinstance(record, Record))
        for record in records:
            column = self.columns.column("image", [str(name) for name in record.values])
            value = record.values[column] if column is not None else None
            if not looks_like_picture(value) or isinstance(value, bytes):
                return  # no pictures, or in the table itself
            if isinstance(value, Mapping) and value["bytes"] is not None:
                continue
            picture = picture_of(value, file.parent)
            if isinstance(picture, Picture) and isinstance(picture.source, Path):
                yield picture.digest.encode()


def refuse_columns(file: Path, named: Mapping[str, str]) -> None:
    for part, column in named.items():
        raise DataError(
            f'{file} is plain text, which has no columns, so none named "{column}"; leave --{part} out, '
            "or give a table (.csv, .tsv, .jsonl, .parquet)."
        )


def assigned(path: Names, dev: Names, test: Names) -> dict[str, list[Path]]:
    """The files of every given split."""
    folder = Path(path if isinstance(path, str) else path[0]).expanduser()
    pictures = pictures_by_split(folder) if folder.is_dir() else {}
    if pictures:
        return pictures | {split: found(given) for split, given in (("dev", dev), ("test", test)) if given}
    every = found(path)
    named = by_name(every)
    files = {"train": every}
    if len(every) > 1 and named["train"]:
        refuse_nameless(every, named)
        files = {split: held for split, held in named.items() if held}
    for split, given in (("dev", dev), ("test", test)):
        if given:
            files[split] = found(given)
    return files


def target_files(sources: Mapping[str, list[Path]], *targets: Names) -> dict[str, list[Path]]:
    """The file with the targets of each file of sources, by split; none where rows hold their own."""
    if not any(targets):
        return {}
    if not targets[0]:
        raise DataError("target_dev and target_test go with target_path, the targets of the training text.")
    files = assigned(*targets)
    for split in {**sources, **files}:
        counts = [len(side.get(split, ())) for side in (sources, files)]
        if counts[0] != counts[1]:
            raise DataError(
                f"The split {split} has {count_of(counts[0], 'file')} of sources and "
                f"{count_of(counts[1], 'file')} of targets; give each file of sources its file of targets: "
                'files(path="train.en", target_path="train.fr", dev="dev.en", target_dev="dev.fr").'
            )
    for file in (file for side in (sources, files) for held in side.values() for file in held):
        if reader_of(file) is not read_text:
            raise DataError(
                f"{file} is a table, and target_path is for two plain text files; leave it out where one "
                "file has source and target as columns."
            )
    return files


def by_name(files: list[Path]) -> dict[str, list[Path]]:
    """Files by the split that their names speak of."""
    return {
        split: [file for file in files if pattern.search(file.name.split(".")[0].lower())]
        for split, pattern in SPLIT_NAMES.items()
    }


def refuse_nameless(files: list[Path], named: dict[str, list[Path]]) -> None:
    """Where files are named by split, one that is not would be left out in silence (a README may be)."""
    known = {file for held in named.values() for file in held}
    formats = {reader_of(file) for file in known}
    for file in files:
        if file not in known and reader_of(file) in formats:
            raise DataError(
                f"{file} belongs to no split, while {named['train'][0].name} in its folder does; "
                'put it in its name, or give each split its files: path = "train*.csv", dev = "dev*.csv".'
            )


def found(paths: Names) -> list[Path]:
    """The files of paths, folders and globs, in a fixed order, each once."""
    result: list[Path] = []
    for path in (paths,) if isinstance(paths, str) else paths:
        result += sorted(matching(path))
    for file in result:
        if not file.stat().st_size:
            raise DataError(f"{file} is empty; remove it, or give a file with text.")
    return list(dict.fromkeys(result))


def passages_in(paths: Sequence[str], encoding: str) -> tuple[dict[str, str], list[Path]]:
    """Whole texts by their file, as they are: nothing of them is moved. And the files that have none."""
    texts: dict[str, str] = {}
    empty: list[Path] = []
    for file in dict.fromkeys(file for path in paths for file in sorted(matching(path))):
        if reader_of(file) is not read_text:
            raise DataError(f"{file} is a table, and a passage is plain text; give .txt, .md or the like.")
        text = "".join(lines_of(file, encoding, newline=""))
        if reason := undecoded(text, encoding) or unusable(text):
            raise DataError(f"{file}: {reason}.")
        if text.strip():
            texts[str(file)] = text
        else:
            empty.append(file)
    return texts, empty


def matching(path: str) -> list[Path]:
    place = Path(path).expanduser()
    if place.is_file():
        return [place]
    if place.is_dir():
        return [file for files in pictures_by_split(place).values() for file in files] or in_folder(place)
    matches = [Path(p) for p in glob.glob(str(place), recursive=True) if Path(p).is_file()]
    if not matches:
        beside = [p.name for p in place.parent.iterdir()] if place.parent.is_dir() else []
        raise DataError(f'There is no file "{path}".{nearest(place.name, beside)}')
    return matches


def in_folder(folder: Path) -> list[Path]:
    """Every file of a known format below a folder, hidden ones aside."""
    inside = [f for f in folder.rglob("*") if f.is_file() and not hidden(f.relative_to(folder))]
    known = [f for f in inside if Path(f.name.lower().removesuffix(".gz")).suffix in READERS]
    if not known:
        raise DataError(
            f"{folder} holds no file of a known format ({', '.join(sorted(READERS))}, or .gz of them)."
        )
    return known


def hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)
