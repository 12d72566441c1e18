"""Text that no row holds."""

from __future__ import annotations

from typing import ClassVar

from attnlab.checks.check import Case, Check
from attnlab.data.encode.encoding import MUCH, Cuts
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.runs.typed import Value

SPLITS = ("train", "dev")


class Truncation(Check):
    """Truncation: how much of the text is cut off, since it does not fit into a row?

    Formula: tokens that data.length (or the encoding's own limit, such as question_length) removes, by all
    tokens of the texts; of train and dev; above 5% is a warning. Texts that are split into rows lose
    nothing.

    When it helps: scores of cut texts are scores of their beginnings. A review whose verdict stands in its
    last sentence, or a summary's last point, is not learned and not judged, and no loss shows it.

    Cannot see: text that was cut before it came here (by whoever made the file), and what a row that was
    split lacks of the context before it.
    """

    when: ClassVar[tuple[When, ...]] = ("before",)
    limit: ClassVar[float] = 0.1
    same_for_seeds: ClassVar[bool] = True

    def run(self, case: Case) -> Finding:
        dataset, length = case.dataset, case.config.data.length
        cuts = {split: dataset.truncation(split) for split in SPLITS if split in dataset.splits.names}
        values: dict[str, Value] = {
            "splits": {split: values_of(cut) for split, cut in cuts.items()},
            "length": length,
            "longest": max(of.longest for of in cuts.values()),
        }
        worst = max(of.token_share for of in cuts.values())
        outcome, kind = (Outcome.PASS, "little") if worst <= MUCH else (Outcome.WARN, "much")
        return self.finding(case.when, outcome, kind, worst, **values)


def values_of(cuts: Cuts) -> dict[str, Value]:
    """What was cut off of a split, as a finding holds it."""
    counts = {name: getattr(cuts, name) for name in ("cut", "lost", "tokens", "inexact", "split", "answers")}
    shares = {"text_share": cuts.text_share, "token_share": cuts.token_share}
    return {"texts": cuts.examples, **counts, **shares}
