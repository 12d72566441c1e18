"""Data sets of the hub, by name."""

from __future__ import annotations

import functools
import hashlib
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attnlab.data.corpora.corpus import Corpus
from attnlab.data.corpora.own_files import NAMED
from attnlab.data.corpora.records import (
    Broken,
    Columns,
    Names,
    Record,
    Tally,
    division,
    example_of,
    refuse_division,
)
from attnlab.data.corpora.units import Unit
from attnlab.data.errors import DataError
from attnlab.data.example import Example

OUR_NAMES = {
    "validation": "dev",
    "valid": "dev",
    "val": "dev",
    "dev": "dev",
    "train": "train",
    "test": "test",
}

NAME = re.compile(r"([A-Za-z0-9][\w.-]*/)?[A-Za-z0-9_][\w.-]*", re.ASCII)
PATIENCE = 10.0
"""Seconds in which the hub must answer."""


class Hub(Corpus):
    """A data set of the hub: `hub:google/boolq`, downloaded once by the `datasets` library.

    `subset` names one of its configurations (`hub` data sets such as glue have several), and
    `revision` pins a version. Columns are named as for files; class numbers become class names.
    """

    def __init__(
        self,
        *,
        name: str = "",
        subset: str = "default",
        revision: str = "main",
        text: Names = NAMED.text,
        pair: Names = NAMED.pair,
        target: Names = NAMED.target,
        label: Names = NAMED.label,
        answers: Names = NAMED.answers,
        group: Names = NAMED.group,
        labels: tuple[str, ...] = (),
        unit: Unit = "document",
        skip_bad: bool = False,
    ):
        if not name:
            raise DataError('hub needs the name of a data set: corpus = "hub:google/boolq".')
        if not NAME.fullmatch(name):
            raise DataError(
                f'"{name}" cannot be the name of a data set of the hub: that is owner/name in letters, '
                'digits, "-", "_" and "."; write it as in hub:google/boolq.'
            )
        self.name, self.subset, self.revision = name, subset, revision
        self.columns = Columns(text=text, pair=pair, target=target, label=label, answers=answers, group=group)
        self.labels, self.unit, self.skip_bad = labels, unit, skip_bad
        self._skipped: dict[str, int] = {}

    @functools.cached_property
    def held(self) -> dict[str, Any]:
        """The data set's splits, under our names."""
        splits = fetched(self.name, self.subset, self.revision)
        named = {OUR_NAMES.get(split, split): data for split, data in splits.items()}
        if "train" not in named:
            raise DataError(f'"{self.name}" has no train split; it has {", ".join(map(str, splits))}.')
        return named

    @property
    def given(self) -> tuple[str, ...]:
        return tuple(split for split in ("train", "dev", "test") if split in self.held)

    @property
    def skipped(self) -> int:
        return sum(self._skipped.values())

    def read(self, split: str = "train") -> Iterator[Example]:
        self.check_given(split)
        tally = Tally(f"hub:{self.name} ({split})", self.skip_bad)
        yield from tally.sound(self._items(split))
        self._skipped[split] = tally.broken

    def _items(self, split: str) -> Iterator[Example | Broken]:
        data, source = self.held[split], f"hub:{self.name} ({split})"
        parts = self.columns.found(list(data.column_names), source)
        if self.unit != "document":
            refuse_division(parts, self.unit, source)
        classes = getattr(data.features.get(parts.get("label")), "names", None)
        for number, row in enumerate(data, start=1):
            values = named_class(row, parts.get("label"), classes) if classes else row
            example = example_of(Record(f"{source} row {number}", values), parts, self.labels)
            yield from [example] if self.unit == "document" else division(example, self.unit)

    def fingerprint(self) -> str:
        # The library's own fingerprints follow content and version.
        prints = [(split, getattr(data, "_fingerprint", "")) for split, data in sorted(self.held.items())]
        settings = (
            self.name,
            self.subset,
            self.revision,
            self.columns,
            self.labels,
            self.unit,
            self.skip_bad,
        )
        return hashlib.sha256(repr((prints, settings)).encode()).hexdigest()[:16]


def named_class(row: dict[str, Any], column: str | None, classes: list[str]) -> dict[str, Any]:
    """A row with the name of its class for its number; hidden labels (−1) become null."""
    number = row.get(column or "")
    if isinstance(number, int) and 0 <= number < len(classes):
        return {**row, str(column): classes[number]}
    return {**row, str(column): None}


def fetched(name: str, subset: str, revision: str) -> dict[str, Any]:
    """Every split of a data set, or a sentence on why it cannot be had."""
    import datasets

    try:
        chosen = None if subset == "default" else subset
        with few_words():
            refuse_waiting(name, revision)
            return dict(datasets.load_dataset(name, chosen, revision=revision))
    except Exception as error:  # the library passes on whatever its many parts raise
        raise DataError(explained(name, error)) from error


@contextmanager
def few_words() -> Iterator[None]:
    """The library tells of every try; what matters of it comes as an error."""
    from huggingface_hub.utils import logging as library

    before = library.get_verbosity()
    library.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        library.set_verbosity(before)


def refuse_waiting(name: str, revision: str) -> None:
    """Ask the hub once: the library itself tries six times over 23 s, and has no setting for it."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    try:
        HfApi().dataset_info(name, revision=revision, timeout=PATIENCE)
    except HfHubHTTPError:
        return  # it answered; the library knows what to make of it
    except Exception as error:  # no answer, by whichever part of the network
        if not kept_here(name, revision):
            raise ConnectionError(f"no network: {error}") from error


def kept_here(name: str, revision: str) -> bool:
    """Whether an earlier download may be in one of the library's two caches."""
    import datasets
    from huggingface_hub import try_to_load_from_cache

    card = try_to_load_from_cache(name, "README.md", revision=revision, repo_type="dataset")
    tables = Path(datasets.config.HF_DATASETS_CACHE).glob(f"{name.split('/')[0]}*")
    return card is not None or any(tables)


def explained(name: str, error: Exception) -> str:
    """What went wrong with the hub, and what to do."""
    text = f"{type(error).__name__}: {error}".lower()
    if isinstance(error, ValueError) and "config name is missing" in text:
        choose = f'corpus = {{ kind = "hub", name = "{name}", subset = "…" }}'
        return f'"{name}" has several subsets; name one: {choose}. {" ".join(str(error).split())}'
    offline = ("offline", "connection", "couldn't reach", "timed out", "resolve", "proxy", "network")
    if any(word in text for word in offline):
        return (
            f'The data set "{name}" could not be fetched: the hub cannot be reached from here. Connect, or '
            "download it elsewhere and give the path of its files."
        )
    if "notfound" in text or "doesn't exist" in text or "not found" in text:
        return (
            f'The hub has no data set "{name}" (or it is private); write it as owner/name, e.g. google/boolq.'
        )
    reason = next(iter(str(error).splitlines()), type(error).__name__)
    return f'The data set "{name}" could not be loaded: {reason}'
