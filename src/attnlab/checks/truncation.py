"""Text that no row holds."""

from __future__ import annotations

from typing import ClassVar

from attnlab.checks.check import Case, Check
from attnlab.data.encode.encoding import MUCH
from attnlab.runs.findings import Finding, When

SPLITS = ("train", "dev")


class Truncation(Check):
    """Truncation: how much of the text is cut off, since it does not fit into a row?

    Formula: tokens that data.length (or the encoding's own limit, such as question_length) removes, by all
    tokens of the texts; of train and dev; above 5 % is a warning. Texts that are split into rows lose
    nothing.

    When it helps: scores of cut texts are scores of their beginnings. A review whose verdict stands in its
    last sentence, or a summary's last point, is not learned and not judged, and no loss shows it.

    Cannot see: text that was cut before it came here (by whoever made the file), and what a row that was
    split lacks of the context before it.
    """

    when: ClassVar[tuple[When, ...]] = ("before",)
    limit: ClassVar[float] = 0.1

    def run(self, case: Case) -> Finding:
        dataset, length = case.dataset, case.config.data.length
        cuts = {split: dataset.truncation(split) for split in SPLITS if split in dataset.splits.names}
        told = "; ".join(f"{split}: {of}" for split, of in cuts.items()) + f" at data.length {length}"
        worst = max(of.token_share for of in cuts.values())
        if worst <= MUCH:
            return self.passed(case, told, worst)
        longest = max(of.longest for of in cuts.values())
        return self.warned(
            case,
            told,
            worst,
            meaning="What is cut off is neither trained on nor scored: scores are of the rest of each text.",
            fix=f"Raise data.length and model.length (the longest text has {longest:,} tokens), or take text "
            "in smaller units; a language model may split long ones (data.encoding = document(long=split)).",
        )
