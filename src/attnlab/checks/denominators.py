"""What scores are divided by."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from attnlab.checks.check import Case, Check
from attnlab.data.example import Example
from attnlab.data.rows import Rows, Stored
from attnlab.data.tokenizers.tokenizer import Tokenizer
from attnlab.metrics import METRICS
from attnlab.metrics.measures import TRAIN
from attnlab.model.losses import IGNORE
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.tasks.task import Task

EQUAL = 1e-6
TEXTS, TOKENS = 200, 20_000
"""Of dev, from its beginning, whose bytes are counted anew: as many texts, or tokens, at the most."""
BYTES = 5e-3
"""Counts of bytes that differ by less are taken as equal: offsets of some published tokenizers leave out
white space at the edges of tokens."""


class Denominators(Check):
    """Denominators: does each score of an evaluation have the denominator that its name says?

    Formula: the number of targets is that of the split's rows (all tokens but the first of each text
    for tasks that predict the next, at most all tokens for others, one a row for labels, one a word for
    tags); perplexity is e^loss over all targets (of its first part, where it has several), not a mean of
    sentences'; bits per byte are nats·targets / ln 2 / bytes, where the bytes are those of the text that the
    predicted tokens stand for. For the first 200 dev texts these are counted anew: each text is read and
    tokenised again, the predicted ids are searched in it, and the bytes from the first to the last of them
    must be those of the rows, to 0.5%.

    When it helps: a mean of batch means, or of exponentials, is another number under the same name; and the
    bytes of a whole text under the nats of a part of it make bits per byte too small.

    Cannot see: wrong bytes in later texts only, or of less than 0.5% (the first token of each row, where
    rows are longer than 200 tokens); a loss whose nats are wrong.
    """

    when: ClassVar[tuple[When, ...]] = ("evaluation",)
    limit: ClassVar[float] = 0.3

    def run(self, case: Case) -> Finding:
        scores = case.scores
        if "loss" not in scores or "dev" not in case.dataset.splits.names:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "not_scored")
        if "targets" not in scores:
            return self.finding(case.when, Outcome.FAIL, "no_count", scores=list(scores))
        targets, loss = scores["targets"], scores["loss"]
        least, most, size = expected(case)
        if not least <= targets <= most:
            counts = {"targets": targets, "least": least, "most": most}
            return self.finding(case.when, Outcome.FAIL, "miscounted", targets, **counts)
        if not case.task.predicts_words:
            return self.finding(case.when, Outcome.PASS, "targets", targets, targets=targets)
        usual = math.exp(min(of_words(scores), 700.0))
        perplexity = scores.get("perplexity", usual)
        if not abs(perplexity - usual) <= EQUAL * usual:
            values = {"perplexity": perplexity, "usual": usual}
            return self.finding(case.when, Outcome.FAIL, "perplexity", targets, **values)
        if "bits_per_byte" not in scores:
            return self.finding(case.when, Outcome.PASS, "targets_perplexity", targets, targets=targets)
        bits = loss * targets / math.log(2) / size if size else math.nan
        if not abs(scores["bits_per_byte"] - bits) <= EQUAL * bits:
            values = {"reported": scores["bits_per_byte"], "bits": bits}
            return self.finding(case.when, Outcome.FAIL, "bits", targets, **values)
        return self.recounted(case)

    def recounted(self, case: Case) -> Finding:
        """The bytes of some rows against those of their text."""
        in_rows, read, texts = bytes_of_rows_and_text(case)
        if abs(in_rows - read) > BYTES * read:
            ratio = read / in_rows if in_rows else math.inf
            values = {"texts": texts, "read": read, "held": in_rows, "ratio": ratio}
            more = in_rows / read if read else math.inf
            return self.finding(case.when, Outcome.FAIL, "bytes", more, **values)
        targets = case.scores["targets"]
        return self.finding(
            case.when, Outcome.PASS, "right", targets, targets=targets, held=in_rows, texts=texts
        )


def of_words(scores: Mapping[str, float]) -> float:
    """The loss; where it is a sum of parts the first of them, which is that of the words."""
    known = {*METRICS, "targets"}
    parts = (part for name, part in scores.items() if name.removeprefix(TRAIN) not in known)
    return next(parts, scores["loss"])


def expected(case: Case) -> tuple[int, int, int]:
    """The least and the most targets of an evaluation, and the bytes of its text, by its rows."""
    loader = case.dataset.scored("dev")
    plan, batches = loader.plan(0), case.config.training.evaluate_batches
    end = len(plan) if batches == "all" else min(batches, len(plan))
    rows = plan.order[: plan.place_bounds[plan.batch_bounds[end]]]
    counted = rows if "bits_per_byte" in case.scores and case.task.predicts_words else ()
    size = sum(int(predicted(case.task, loader.rows, int(row))[1].sum()) for row in counted)
    return *expected_targets(case.task, loader.rows, rows), size


def expected_targets(task: Task, stored: Rows, rows: NDArray[np.int64]) -> tuple[int, int]:
    """The least and the most targets that some encoded rows have."""
    if stored.has("tags"):
        count = sum(int((stored.ragged("tags", int(row)) != IGNORE).sum()) for row in rows)
        return count, count
    if not task.predicts_words:
        return len(rows), len(rows)
    lengths = stored.sizes
    if task.predicts_all:
        count = int(np.maximum(lengths[task.predicted_column == "target"][rows] - 1, 0).sum())
        return count, count
    return 1, int(lengths[0][rows].sum()) + len(rows)


def predicted(task: Task, rows: Rows, row: int) -> tuple[Stored, Stored]:
    """The ids of a row that are predicted, and their bytes: all but what a decoder begins with."""
    columns = ("target", "target_sizes") if task.predicted_column == "target" else ("ids", "sizes")
    ids, sizes = (rows.ragged(column, row)[1 if task.predicts_all else 0 :] for column in columns)
    return ids, sizes


def bytes_of_rows_and_text(case: Case) -> tuple[int, int, int]:
    """The bytes that the rows of some texts say, those of their text, and of how many texts."""
    dataset, rows = case.dataset, case.dataset.rows("dev")
    examples = dataset.first("dev", TEXTS)
    in_rows = read = tokens = row = 0
    for number, example in enumerate(examples):
        apart = rows.has("target") and case.task.predicted_column == "target"
        text = Retokenised(dataset.tokenizer.target if apart else dataset.tokenizer, example)
        while row < len(rows) and rows.scalar("example", row) == number:
            ids, sizes = predicted(case.task, rows, row)
            in_rows, read, tokens = (
                in_rows + int(sizes.sum()),
                read + text.bytes_of(ids.tolist()),
                tokens + len(ids),
            )
            row += 1
        if tokens > TOKENS:
            return in_rows, read, number + 1
    return in_rows, read, len(examples)


class Retokenised:
    """An example's texts, tokenised again with the place of each token: which bytes do some ids span?

    It asks the tokenizer's library itself, and shares nothing with what made the rows.
    """

    def __init__(self, tokenizer: Tokenizer, example: Example):
        self.texts = [text for text in (example.text, example.pair, example.target) if text]
        encodings = [tokenizer.inner.encode(text, add_special_tokens=False) for text in self.texts]
        self.ids = [encoding.ids for encoding in encodings]
        self.ends = [[end for _, end in encoding.offsets] for encoding in encodings]
        self.special = tokenizer.special_ids - {tokenizer.specials.unknown}
        self.reached = [0] * len(self.texts)

    def bytes_of(self, ids: Sequence[int]) -> int:
        """Of all stretches of ids between special tokens."""
        stretches = groupby(ids, key=self.special.__contains__)
        return sum(self._span(list(stretch)) for special, stretch in stretches if not special)

    def _span(self, ids: list[int]) -> int:
        """From the end of the token before them to the end of the last; 0 where no text has them."""
        for number, text in enumerate(self.texts):
            begin = place_of(ids, self.ids[number], self.reached[number])
            if begin is not None:
                ends, self.reached[number] = self.ends[number], begin + len(ids)
                start = ends[begin - 1] if begin else 0
                last = begin + len(ids) == len(ends)
                return len(text[start : len(text) if last else ends[begin + len(ids) - 1]].encode())
        return 0


def place_of(ids: Sequence[int], among: Sequence[int], after: int) -> int | None:
    """Where the ids stand among others, first behind what was reached, then from the beginning."""
    wanted, haystack = (np.array(values, np.int32).tobytes() for values in (ids, among))
    for begin in (4 * after, 0):
        at = haystack.find(wanted, begin)
        while at % 4 and at >= 0:  # between two ids
            at = haystack.find(wanted, at + 1)
        if at >= 0:
            return at // 4
    return None
