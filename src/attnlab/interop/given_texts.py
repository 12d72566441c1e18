"""Data sets that a person has in memory, compared with each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attnlab.checks.contamination import Contamination
from attnlab.data.corpora.corpus import Corpus
from attnlab.data.example import Example
from attnlab.data.overlap import overlap_of
from attnlab.data.splits import Splits
from attnlab.interop.module_checks import own_tokenizer
from attnlab.runs.findings import Finding, Outcome

READ = 20_000
"""Rows of each data set that are compared."""


@dataclass(frozen=True)
class GivenTexts(Corpus):
    """Texts that are there, as a corpus."""

    texts: Mapping[str, Sequence[str]]

    @property
    def given(self) -> tuple[str, ...]:
        return tuple(self.texts)

    def read(self, split: str = "train") -> Iterator[Example]:
        for text in self.texts[split]:
            yield Example(text=text)

    def fingerprint(self) -> str:
        return ""


def contamination(data: Mapping[str, Iterable[Any]], tokenizer: Any = None) -> Finding:
    """What the given data sets share, in at most 20,000 rows of each."""
    check = Contamination()
    texts = {name: texts_of(rows, tokenizer) for name, rows in data.items()}
    texts = {name: overlap for name, overlap in texts.items() if overlap}
    if "train" not in texts or len(texts) < 2:
        return check.finding("before", Outcome.NOT_APPLICABLE, "one_set")
    own = own_tokenizer(tokenizer) if tokenizer is not None else None
    overlap = overlap_of(Splits(GivenTexts(texts), 0, 0))
    return check.judge("before", overlap, None if own is None else own.text)


def texts_of(rows: Iterable[Any], tokenizer: Any) -> list[str]:
    """Each row as a text: its own, or that of its ids."""
    texts = []
    for _, row in zip(range(READ), rows, strict=False):
        if isinstance(row, str):
            texts.append(row)
        elif isinstance(row, Mapping) and isinstance(row.get("text"), str):
            texts.append(row["text"])
        elif isinstance(row, Mapping) and row.get("input_ids") is not None:
            ids = [int(number) for number in row["input_ids"]]
            decode = getattr(tokenizer, "decode", None)
            texts.append(decode(ids, skip_special_tokens=True) if decode else " ".join(map(str, ids)))
    return texts
