"""Text that the tokenizer does not know."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from attnlab.checks.check import Case, Check
from attnlab.data.rows import Rows
from attnlab.data.tokenizers.tokenizer import Tokenizer
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.runs.typed import Value

ROWS = 2_000
MUCH = 0.1


class UnknownWords(Check):
    """Unknown words: how much of the text does the tokenizer not know?

    Formula: tokens that are the tokenizer's unknown token, by all tokens of the texts; of the first 2,000
    rows of train and of dev; above 10% is a warning. Patches of pictures are no text.

    When it helps: a start brings its own tokenizer. Words of another language, script or trade are all one
    token to it: the model cannot tell them apart, and no loss shows it.

    Cannot see: words that are cut into letters or bytes: they are known, and make rows long.
    """

    when: ClassVar[tuple[When, ...]] = ("before",)
    limit: ClassVar[float] = 0.5
    same_for_seeds: ClassVar[bool] = True

    def run(self, case: Case) -> Finding:
        tokenizer = case.dataset.tokenizer
        sides = {"ids": tokenizer, "target": tokenizer.target}
        if all(one.specials.unknown is None for one in sides.values()):
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "knows_all")
        splits = [name for name in ("train", "dev") if name in case.dataset.splits.names]
        shares: dict[str, Value] = {name: unknown_share(case.dataset.rows(name), sides) for name in splits}
        worst = max(float(share) for share in shares.values() if isinstance(share, float))
        outcome, kind = (Outcome.PASS, "few") if worst <= MUCH else (Outcome.WARN, "many")
        return self.finding(case.when, outcome, kind, worst, splits=shares, rows=ROWS)


def unknown_share(rows: Rows, sides: dict[str, Tokenizer]) -> float:
    """Unknown tokens by all tokens of text of the first rows; 0 where there is no text."""
    unknown = tokens = 0
    for row in range(min(len(rows), ROWS)):
        for column, tokenizer in sides.items():
            if rows.has(column):
                ids = np.asarray(rows.ragged(column, row))
                if column == "ids" and rows.has("patch"):
                    ids = ids[np.asarray(rows.ragged("patch", row)) == 0]
                known_specials = [*(tokenizer.special_ids - {tokenizer.specials.unknown})]
                unknown += int((ids == tokenizer.specials.unknown).sum())
                tokens += int(np.isin(ids, known_specials, invert=True).sum())
    return unknown / tokens if tokens else 0.0
