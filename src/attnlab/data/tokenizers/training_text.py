"""The text that a tokenizer was trained on, in a few thousand numbers: enough to know other text again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from attnlab.data.ngrams import Hashes, Numbering, Worded, distinct
from attnlab.runs.atomic import replace_bytes

RUN = 5
"""Words of a run by which text is known again, however it was cut into lines or sentences."""
KEPT = 8192
"""Runs that are kept: those with the smallest hashes, so that of any other text the same are chosen."""
TOGETHER = 1000


@dataclass(frozen=True)
class TrainingText:
    """`fingerprint` is a hash of all texts in order, `source` says where they came from, `runs` are the
    smallest hashes of their runs of five words; `tokenizer` is the fingerprint of what was made of them.
    `characters` are those that occur in them; empty where that was not recorded."""

    tokenizer: str
    fingerprint: str
    source: str
    texts: int
    runs: Sequence[int]
    characters: str = ""

    def unseen(self, text: str) -> list[str]:
        """The letters and signs of a text that do not occur in these, each once."""
        if not self.characters:
            return []
        return [character for character in dict.fromkeys(text) if character not in self.characters]

    @property
    def identity(self) -> dict[str, Any]:
        """What a run's record says of it."""
        return {"fingerprint": self.fingerprint, "source": self.source, "texts": self.texts}

    def share_of(self, hashes: Sequence[int]) -> tuple[int, int]:
        """How many of another text's runs are in this text, and of how many that can be told."""
        known = [run for run in hashes if len(self.runs) < KEPT or run <= self.runs[-1]]
        return len(set(self.runs) & set(known)), len(known)

    def save(self, tokenizer: Path) -> None:
        """Write it beside a tokenizer.json, whole or not at all."""
        replace_bytes(record_of(tokenizer), json.dumps(asdict(self)).encode())


class Watched:
    """Texts on their way to a tokenizer's training, and what is kept of them."""

    def __init__(self, texts: Iterable[str]):
        self.texts, self.count = texts, 0
        self.hash, self.numbering = hashlib.sha256(), Numbering()
        self.runs = np.zeros(0, np.uint64)
        self.characters: set[str] = set()

    def __iter__(self) -> Iterator[str]:
        texts = iter(self.texts)
        while some := list(islice(texts, TOGETHER)):
            for text in some:
                self.hash.update(text.encode("utf-8", "surrogatepass") + b"\0")
                self.characters.update(text)
            self.count += len(some)
            hashes = Worded.of(some, self.numbering).runs(RUN).hashes
            if len(self.runs) == KEPT:  # hardly any is among the smallest: few are left to sort
                hashes = hashes[hashes < self.runs[-1]]
            self.runs = smallest(np.concatenate([self.runs, hashes]), KEPT)
            yield from some

    def record(self, *, tokenizer: str, source: str) -> TrainingText:
        characters = "".join(sorted(self.characters))
        return TrainingText(
            tokenizer, self.hash.hexdigest()[:16], source, self.count, self.runs.tolist(), characters
        )


def text_of(texts: Iterable[str], *, tokenizer: str, source: str) -> TrainingText:
    """The record of texts that a tokenizer was trained on before."""
    watched = Watched(texts)
    for _ in watched:
        pass
    return watched.record(tokenizer=tokenizer, source=source)


def smallest(hashes: Hashes, most: int) -> Hashes:
    """Each once, in order."""
    return distinct(hashes)[:most]


def record_of(tokenizer: Path) -> Path:
    """Where the record of a tokenizer.json stands."""
    return tokenizer.with_suffix(".text.json")


def recorded(tokenizer: Path, fingerprint: str) -> TrainingText | None:
    """The record beside a tokenizer.json, where there is one and it is of this tokenizer."""
    try:
        text = TrainingText(**json.loads(record_of(tokenizer).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return text if text.tokenizer == fingerprint else None
