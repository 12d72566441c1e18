"""What a model writes for the examples of a split: texts of its own, that end?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from attnlab.checks.check import EARLY, Case, Check
from attnlab.metrics.metric import Examples
from attnlab.metrics.written import references_of
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.runs.typed import Value

LOOP = re.compile(r"(?:^|\s)(\S+(?:\s\S+){0,7})(?:\s\1){3}(?=\s|$)")
"""Up to eight words, four times in a row."""
MANY, LOOPS, HALF = 0.05, 0.1, 0.5
"""Shares of texts above those of the references, from which on it is said."""
FEW = 10
LONGEST = 4000
"""Characters of a text that are searched for loops."""


class Outputs(Check):
    """Outputs: does the model write texts of its own, which end by themselves?

    Formula: of the texts that were written, the share that is empty, that repeats its source where the
    reference does not, that was cut by the length limit before the model ended it, that has up to eight words
    four times in a row, and that is the most frequent text; each compared with the references. More by 5% of
    all (loops 10%, one text for half of the examples) is a warning. Not in the first 200 steps.

    When it helps: a score says how much is wrong, not what. Cut or empty texts are often a setting
    (the length, a stop token), and copies of the source raise BLEU between related languages.

    Cannot see: text that is fluent and wrong; loops of more than eight words.
    """

    when: ClassVar[tuple[When, ...]] = ("evaluation", "after")
    limit: ClassVar[float] = 0.1
    of_scores: ClassVar[bool] = True

    def run(self, case: Case) -> Finding:
        texts = None if case.evaluation is None else case.evaluation.texts
        if texts is None or not len(texts):
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "nothing_written")
        if case.step < EARLY:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "too_early", first=EARLY)
        return self.judge(case.when, texts)

    def judge(self, when: When, examples: Examples) -> Finding:
        """Of columns `generated` and `reference`, and `source` and `stopped` where they are known."""
        texts = [text.strip() for text in examples["generated"].tolist()]
        references = [[one.strip() for one in several] for several in references_of(examples)]
        firsts = [several[0] for several in references]
        shares = {"empty": empty_share(texts) - empty_share(firsts)}
        if "stopped" in examples:
            shares["cut"] = 1 - float(np.mean(examples["stopped"]))
        if "source" in examples:
            shares["copied"] = copied_share(texts, references, examples["source"])
        shares |= {
            "loops": loop_share(texts) - loop_share(firsts),
            "one_text": frequent_share(texts) - frequent_share(firsts),
        }
        limits = {"loops": LOOPS, "one_text": HALF}
        faults = [kind for kind, share in shares.items() if share > limits.get(kind, MANY)]
        worst = max(faults, key=shares.__getitem__, default="")
        known: dict[str, Value] = {kind: max(0.0, share) for kind, share in shares.items()}
        outcome = Outcome.WARN if worst and len(texts) >= FEW else Outcome.PASS
        kind = worst if outcome is Outcome.WARN else "own_texts"
        values: dict[str, Value] = {"n": len(texts), "shares": known, "faults": faults}
        return self.finding(when, outcome, kind, shares.get(worst, 0.0), **values)


def empty_share(texts: Sequence[str]) -> float:
    return sum(not text for text in texts) / max(1, len(texts))


def copied_share(
    texts: Sequence[str], references: Sequence[Sequence[str]], sources: NDArray[np.object_]
) -> float:
    """The share of texts that are their source, where no reference is."""
    triples = zip(texts, references, (source.strip() for source in sources), strict=True)
    copies = sum(bool(text) and text == source not in right for text, right, source in triples)
    return copies / max(1, len(texts))


def loop_share(texts: Sequence[str]) -> float:
    return sum(LOOP.search(text[:LONGEST]) is not None for text in texts) / max(1, len(texts))


def frequent_share(texts: Sequence[str]) -> float:
    """The share of the most frequent text; empty ones are counted apart."""
    counts = Counter(text for text in texts if text)
    return max(counts.values(), default=0) / max(1, len(texts))
