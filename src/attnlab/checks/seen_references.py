"""Texts that are to be written, and that were targets of training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import ClassVar

from attnlab.checks.check import Case, Check
from attnlab.data.dataset import Dataset
from attnlab.data.encode import ENCODINGS
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.runs.typed import Value

MORE = 0.1
"""The share of references that is told, above the share of training targets that recur in training."""
MOST = 400_000
"""Rows of a split that are compared."""


class SeenReferences(Check):
    """Seen references: are the texts that are to be written also targets of training rows?

    Formula: the share of the targets of dev, or of the split that is evaluated, that are the target of a
    training row, case and white space aside, whatever the source. Targets recur by themselves, such as short
    sentences or labels: it is a warning where the share is 10 points above that of training targets which
    another training row has.

    When it helps: sources that were changed by a word, or paraphrased, share their reference with a row of
    training: a model that learned it by heart scores as if it had translated. `contamination` compares
    sources. `attnlab evaluate` asks it of the split that it scores, and `attnlab check RUN` of dev, where the
    text of training is at hand.

    Cannot see: references that were changed by a word; rows behind the first 400,000 of a split.
    """

    when: ClassVar[tuple[When, ...]] = ("before",)
    limit: ClassVar[float] = 0.5
    same_for_seeds: ClassVar[bool] = True

    def run(self, case: Case) -> Finding:
        return self.of_split(case.when, case.dataset)

    def of_split(self, when: When, dataset: Dataset, split: str = "dev") -> Finding:
        """Of the targets of a split, against those of training."""
        uses = ENCODINGS[dataset.settings.encoding.kind].uses
        if split == "train" or not {"train", split} <= {*dataset.splits.names} or "target" not in uses:
            return self.finding(when, Outcome.NOT_APPLICABLE, "no_references")
        train, references = (
            (example.target for example in islice(dataset.examples(name), MOST)) for name in ("train", split)
        )
        return self.judge(when, train, references)

    def judge(self, when: When, train: Iterable[str | None], references: Iterable[str | None]) -> Finding:
        """Of the targets of training rows, and of texts that are to be written."""
        counts = Counter(map(plain, train))
        wanted = [plain(text) for text in references]
        seen = sum(text in counts for text in wanted) / max(1, len(wanted))
        recurring = sum(count for count in counts.values() if count > 1) / max(1, counts.total())
        values: dict[str, Value] = {"n": len(wanted), "share": seen, "recurring": recurring}
        fault = seen > recurring + MORE
        outcome, kind = (Outcome.WARN, "seen") if fault else (Outcome.PASS, "as_in_training")
        return self.finding(when, outcome, kind, seen, **values)


def plain(text: str | None) -> str:
    return " ".join((text or "").lower().split())
