"""Texts that are to be written, and that were targets of training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import ClassVar

from attnlab.checks.check import Case, Check
from attnlab.data.encode import ENCODINGS
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.runs.typed import Value

MORE = 0.1
"""The share of references that is told, above the share of training targets that recur in training."""
MOST = 400_000
"""Rows of a split that are compared."""


class SeenReferences(Check):
    """Seen references: are the texts that are to be written also targets of training rows?

    Formula: the share of dev's targets that are the target of a training row, case and white space aside,
    whatever the source. Targets recur by themselves, such as short sentences or labels: it is a warning where
    the share is 10 points above that of training targets which another training row has.

    When it helps: sources that were changed by a word, or paraphrased, share their reference with a row of
    training: a model that learned it by heart scores as if it had translated. `contamination` compares
    sources.

    Cannot see: references that were changed by a word; rows behind the first 400,000 of a split.
    """

    when: ClassVar[tuple[When, ...]] = ("before",)
    limit: ClassVar[float] = 0.5
    same_for_seeds: ClassVar[bool] = True

    def run(self, case: Case) -> Finding:
        uses = ENCODINGS[case.config.data.encoding.kind].uses
        if not {"train", "dev"} <= {*case.dataset.splits.names} or "target" not in uses:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "no_references")
        first = {split: islice(case.dataset.examples(split), MOST) for split in ("train", "dev")}
        targets = {split: [example.target for example in examples] for split, examples in first.items()}
        return self.judge(case.when, targets["train"], targets["dev"])

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
