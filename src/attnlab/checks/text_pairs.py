"""Written texts beside their references: of one form, and line by line of the same examples?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from attnlab.checks.check import EARLY, Case, Check
from attnlab.metrics.metric import Examples
from attnlab.metrics.written import references_of
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.runs.typed import Value

PIECES = re.compile(r"@@(?:\s|$)|▁|(?:^|\s)##\w|[ĠĊ]|</w>")
"""Marks of subwords: of BPE, SentencePiece, WordPiece and byte-level BPE."""
SPACED = re.compile(r"[^\W_] [.,](?:\s|$)|\w (?:n't|'(?:s|re|ve|ll|d|m))\b|\w ' \w")
"""Full stops, commas and endings that a tokenizer parted from their words; French has a space before ? ! : ;
by itself."""
PARTED_END = re.compile(r"\w\s\.$")
ESCAPED = re.compile(r"&(?:apos|quot|amp|lt|gt|#\d+);")
LATIN = re.compile(r"[a-z0-9]")
MARKED, PARTED, HALF = 0.01, 0.1, 0.5
"""Shares of texts above those of the other side, from which on it is said."""
UPPER, LOST, LETTERS = 0.005, 0.1, 10
"""Capitals of all letters from which on case means something, of which a tenth is left, and how many."""
FEW, MOST = 10, 2000
"""Pairs below which nothing is said of lines, and of which lines are compared with their neighbours."""
NEIGHBOUR = 0.3
EQUAL, WRONG = 0.95, 0.5


@dataclass(frozen=True)
class TextFault:
    """Why texts and references do not belong together: on which side, and the share of texts on both."""

    kind: str
    share: float
    other: float = 0.0
    side: str = "texts"


class TextPairs(Check):
    """Text pairs: do written texts and their references have the same form, and belong together?

    Formula: the share of texts with marks of subwords (@@, ▁, ##), with full stops or commas parted from
    words, with escaped signs (&apos;), and the share of capitals, of texts and of references: a warning where
    one side has them and the other has not, and where more than half of both end in a parted full stop. ROUGE
    is doubted where half of the letters are none that it reads (a–z). Not in the first 200 steps. Of files
    (`attnlab score`) also: lines that match the line before or after their own, equal files, and texts that
    are each as long as their reference and mostly wrong, as under teacher forcing.

    When it helps: BLEU of tokenised or lower-cased text is another number, points higher or lower than that
    of others, and nothing in it shows that.

    Cannot see: text that was normalised on both sides in the same way, but for parted full stops.
    """

    when: ClassVar[tuple[When, ...]] = ("evaluation", "after")
    limit: ClassVar[float] = 0.1
    of_scores: ClassVar[bool] = True

    def run(self, case: Case) -> Finding:
        texts = None if case.evaluation is None else case.evaluation.texts
        if texts is None or not len(texts):
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "nothing_written")
        if case.step < EARLY:  # few words are written by then, and their form says nothing
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "too_early", first=EARLY)
        return self.judge(case.when, texts)

    def judge(self, when: When, examples: Examples, *, files: bool = False) -> Finding:
        """Of texts that a model wrote, or of the lines of `files`."""
        texts, references = examples["generated"].tolist(), references_of(examples)
        firsts = [several[0] for several in references]
        fault = form_fault(texts, firsts) or (line_fault(texts, references) if files else None)
        if fault is None:
            return self.finding(when, Outcome.PASS, "alike", 0.0, n=len(texts))
        values: dict[str, Value] = {"n": len(texts), "side": fault.side, "share": fault.share}
        return self.finding(when, Outcome.WARN, fault.kind, fault.share, **values, other=fault.other)


# ---------------------------------------------------------------- form
def form_fault(texts: Sequence[str], references: Sequence[str]) -> TextFault | None:
    """The first difference in form between both sides, or a form that no detokenised text has."""
    limits = {"pieces": (PIECES, MARKED), "escaped": (ESCAPED, MARKED), "tokenised": (SPACED, PARTED)}
    for kind, (mark, limit) in limits.items():
        share, other = (share_of(side, mark) for side in (texts, references))
        if abs(share - other) > limit:
            side = "texts" if share > other else "references"
            return TextFault(kind, max(share, other), min(share, other), side)
    both = min(share_of(side, PARTED_END) for side in (texts, references))
    if both > HALF:
        return TextFault("both_tokenised", both)
    return case_fault(texts, references) or unread_by_rouge(references)


def share_of(texts: Sequence[str], mark: re.Pattern[str]) -> float:
    """The share of texts, empty ones aside, that have a mark."""
    full = [text.strip() for text in texts if text.strip()]
    return sum(mark.search(text) is not None for text in full) / len(full) if full else 0.0


def case_fault(texts: Sequence[str], references: Sequence[str]) -> TextFault | None:
    """One side in lower case."""
    counts = []
    for side in (texts, references):
        cased = [letter.isupper() for text in side for letter in text if letter.isupper() or letter.islower()]
        counts.append((sum(cased), len(cased)))
    for side, (few, letters), (capitals, others) in (
        ("texts", counts[0], counts[1]),
        ("references", counts[1], counts[0]),
    ):
        share, other = few / max(1, letters), capitals / max(1, others)
        if letters and capitals >= LETTERS and other > UPPER and share < LOST * other:
            return TextFault("lower_case", share, other, side)
    return None


def unread_by_rouge(references: Sequence[str]) -> TextFault | None:
    letters = [letter for text in references for letter in text.lower() if letter.isalnum()]
    unread = sum(LATIN.match(letter) is None for letter in letters) / max(1, len(letters))
    return TextFault("unread_by_rouge", unread, side="references") if unread > HALF else None


# ---------------------------------------------------------------- lines of two files
def line_fault(texts: Sequence[str], references: Sequence[Sequence[str]]) -> TextFault | None:
    """What two files have that were not made line by line from the same examples, or not by a model alone."""
    if len(texts) < FEW:
        return None
    firsts = [several[0] for several in references]
    equal = sum(text == first for text, first in zip(texts, firsts, strict=True)) / len(texts)
    if equal == 1:
        return TextFault("identical", equal)
    own = overlap(texts, firsts)
    neighbours = {"before": overlap(texts[1:], firsts[:-1]), "after": overlap(texts[:-1], firsts[1:])}
    for side, near in neighbours.items():
        if near > NEIGHBOUR and own < near / 2:
            return TextFault("shifted", near, own, side)
    words = [(len(text.split()), len(first.split())) for text, first in zip(texts, firsts, strict=True)]
    same = sum(a == b for a, b in words) / len(words)
    varied = len({b for _, b in words}) >= FEW / 2
    if varied and same > EQUAL and equal < WRONG:
        return TextFault("as_long_as_references", same, equal)
    return None


def overlap(texts: Sequence[str], references: Sequence[str]) -> float:
    """The mean share of words that a line shares with its reference."""
    shares = []
    for text, reference in zip(texts[:MOST], references[:MOST], strict=True):
        own, other = Counter(text.lower().split()), Counter(reference.lower().split())
        shares.append(2 * (own & other).total() / max(1, own.total() + other.total()))
    return sum(shares) / max(1, len(shares))
