"""What batches hold, against the lines of the files that they come from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar

import numpy as np
import torch

from attnlab.checks.check import Case, Check
from attnlab.checks.real import prepared_of
from attnlab.checks.source import Source, SourceRow, source_of
from attnlab.checks.source_values import differing, right_of
from attnlab.data.batch import Batch
from attnlab.data.loader import Loader
from attnlab.data.tokenizers.tokenizer import Tokenizer
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.runs.typed import Value

BATCHES, ROWS = 3, 8
"""Batches of a split, from its first to its last, and rows of each that are compared."""
LONGEST = 20_000
"""Characters of a text that is tokenised again; longer ones are compared as text."""


@dataclass(frozen=True)
class Mismatch:
    """A row of a batch that is not that of its line."""

    kind: str
    place: str
    held: str
    written: str


class SourceRows(Check):
    """Source rows: do batches hold the texts and labels that stand in the lines of the files?

    Formula: the files are read a second time by Python's own csv and json, every row with its line and its
    split. Each split has as many rows as its lines say; some rows of its first, middle and last batch have
    the tokens of the text of their line (tokenised again by the tokenizer's library, or as characters), its
    label and its target text; no target is padding.

    When it helps: labels that moved against their texts by a shuffle, a join or a header line, rows that are
    left out, a split of other rows: the loss falls all the same, and nobody looks at line 4,711.

    Cannot see: rows that are not compared; what was wrong in the file already; files above 32 MB, and text
    that is not from files.
    """

    when: ClassVar[tuple[When, ...]] = ("before",)
    limit: ClassVar[float] = 0.5
    same_for_seeds: ClassVar[bool] = True

    def run(self, case: Case) -> Finding:
        source = source_of(case.dataset)
        if source is None:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "not_files")
        compared, counts = 0, dict[str, Value]()
        for split in case.dataset.splits.names:
            there, rows = number_of_examples(case, split), source.rows.get(split, [])
            if there is not None and source.countable and there != len(rows):
                values: dict[str, Value] = {"split": split, "held": there, "lines": len(rows)}
                return self.finding(case.when, Outcome.FAIL, "count", float(there), **values)
            counts[split] = len(rows)
            for batch, loader in batches_of(case, split):
                padded = padding_targets(case, batch)
                if padded:
                    return self.finding(case.when, Outcome.FAIL, "padding", padded, split=split)
                compared += min(ROWS, len(batch.rows))
                mismatch = next(mismatches(case, split, source, batch, loader), None)
                if mismatch is not None:
                    said: dict[str, Value] = {"place": mismatch.place, "split": split}
                    said |= {"held": mismatch.held, "written": mismatch.written}
                    return self.finding(case.when, Outcome.FAIL, mismatch.kind, 1.0, **said)
        return self.finding(
            case.when, Outcome.PASS, "same", float(compared), compared=compared, counts=counts
        )


def number_of_examples(case: Case, split: str) -> int | None:
    """The examples that a split's encoded rows are of; None where not all were encoded."""
    settings = case.dataset.settings
    if split == "train" and (settings.train_rows, settings.tokens) != ("unlimited", "unlimited"):
        return None
    return len(np.unique(case.dataset.rows(split).scalars("example")))


def batches_of(case: Case, split: str) -> Iterator[tuple[Batch, Loader]]:
    """Some batches as training or an evaluation meets them, with what loads them."""
    dataset = case.dataset
    loader = dataset.trained(case.config.seed) if split == "train" else dataset.scored(split)
    plan = loader.plan(0)
    for number in sorted({0, len(plan) // 2, len(plan) - 1})[:BATCHES]:
        yield loader.load(plan, number), loader


def padding_targets(case: Case, batch: Batch) -> float:
    """The share of targets that are the padding token, of a task that predicts words."""
    specials = case.dataset.tokenizer.target.specials
    others = {specials.stop, specials.start, specials.unknown, None}
    if not case.task.predicts_words or specials.pad in others:
        return 0.0
    prepared = prepared_of(case, batch)
    wanted = prepared.targets[prepared.targets >= 0]
    return wanted.tolist().count(specials.pad) / max(1, len(wanted))


# ---------------------------------------------------------------- rows
def mismatches(case: Case, split: str, source: Source, batch: Batch, loader: Loader) -> Iterator[Mismatch]:
    """Rows of a batch that are not those of their lines."""
    examples, lines = loader.rows.scalars("example"), source_lines(case, split, source)
    if lines is None:
        return
    rows = batch.rows[:ROWS].tolist()
    for row in rows:
        line = lines(int(examples[row]))
        for tokenizer, held, written in texts_of(batch, row, line, case.dataset.tokenizer):
            if not holds(tokenizer, held, written, stand_ins="vectors" in batch.columns):
                shown = tokenizer.decode(held)
                yield Mismatch("other_text", line.place, shown[:60], written[:60])
    if case.task.predicts_words or len(batch.rows) != len(batch.ids):
        return
    whole = (
        np.bincount(examples)[examples[batch.rows.numpy()]] == 1
    )  # of windows each has a part of the label
    columns = {name: array(column) for name, column in case.task.truth(prepared_of(case, batch)).items()}
    right = right_of(columns, case.task)
    some = [n for n in range(len(right)) if whole[n]]
    own = [lines(int(examples[batch.rows[n]])) for n in some]
    for place, label, stands in differing([right[n] for n in some], own, case.task):
        yield Mismatch("other_label", place, label, stands)


def array(column: Any) -> Any:
    return column.cpu().numpy() if isinstance(column, torch.Tensor) else column


def source_lines(case: Case, split: str, source: Source) -> Any:
    """What leads from the number of an example to its line; nothing where numbers do not lead there."""
    rows = source.rows.get(split, [])
    if source.countable and number_of_examples(case, split) is not None:
        return lambda number: rows[number]
    if source.whole_rows:
        examples = case.dataset.texts(split)
        by_place = {row.place: row for row in rows}
        known = all(examples[number].place in by_place for number in range(len(examples)))
        return (lambda number: by_place[examples[number].place]) if known else None
    return None


def texts_of(
    batch: Batch, row: int, line: SourceRow, tokenizer: Tokenizer
) -> Iterator[tuple[Tokenizer, list[int], str]]:
    """The ids that a batch holds of a row, with the tokenizer and the text of its line that they are of."""
    own = (batch.owner.expand_as(batch.ids) == row) & batch.real
    texts = " ".join(filter(None, [line.text, as_text(line.values.get("pair"))]))
    target = as_text(line.values.get("target"))
    beside = batch.target_ids is None and target
    yield tokenizer, batch.ids[own].tolist(), f"{texts} {target}" if beside else texts
    if batch.target_ids is not None and batch.target_real is not None and target:
        at = batch.rows.tolist().index(row)
        yield tokenizer.target, batch.target_ids[at][batch.target_real[at]].tolist(), target


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def holds(tokenizer: Tokenizer, ids: Sequence[int], text: str, *, stand_ins: bool = False) -> bool:
    """Whether each stretch of ids between special tokens stands in a text: as tokens, or as characters.
    Unknown ones may be `stand_ins` of vectors, else there are no more than the text has."""
    special = tokenizer.special_ids - {tokenizer.specials.unknown}
    stretches = [list(ids) for is_special, ids in groupby(ids, key=special.__contains__) if not is_special]
    written = tokenizer.inner.encode(text, add_special_tokens=False).ids if len(text) <= LONGEST else []
    unknown = tokenizer.specials.unknown
    if (
        unknown is not None
        and written
        and not stand_ins
        and list(ids).count(unknown) > written.count(unknown)
    ):
        return False  # words that it knows were read as unknown ones
    return all(within(stretch, written) or spelt(tokenizer, stretch, text) for stretch in stretches)


def within(ids: Sequence[int], among: Sequence[int]) -> bool:
    size = len(ids)
    return any(list(among[at : at + size]) == list(ids) for at in range(len(among) - size + 1))


def spelt(tokenizer: Tokenizer, ids: Sequence[int], text: str) -> bool:
    """Whether the ids read as a part of the text, case and white space aside; unknown words may be any."""
    unknown = tokenizer.specials.unknown
    known = [list(part) for is_unknown, part in groupby(ids, key=lambda i: i == unknown) if not is_unknown]
    letters = squeezed(text)
    return all(squeezed(tokenizer.decode(part)) in letters for part in known)


def squeezed(text: str) -> str:
    return "".join(character for character in text.casefold() if character.isalnum())
