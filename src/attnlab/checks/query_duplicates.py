"""Queries that stand in the passages that they are to find."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from attnlab.checks.check import Case, Check
from attnlab.runs.findings import Finding, Outcome, When

MUCH = 0.05
"""The share of queries from which on they are told."""
TEXTS = 2000
"""Of dev, from its beginning."""


class QueryDuplicates(Check):
    """Query duplicates: do queries stand word for word in the passages that are searched?

    Formula: case, punctuation and white space aside, (a) the share of queries that are equal to a passage or
    to another query, (b) the share that are contained whole in their own passage; a warning above 5% of
    either.

    When it helps: a query that is copied from its passage is found by its words alone, and recall says
    nothing of other queries. Equal queries with other passages cannot all be found.

    Cannot see: queries that repeat most words of their passage in another order; what a model has read
    before.
    """

    when: ClassVar[tuple[When, ...]] = ("before",)
    limit: ClassVar[float] = 0.5
    same_for_seeds: ClassVar[bool] = True

    def run(self, case: Case) -> Finding:
        if not case.task.target.compares_batch:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "no_pairs")
        split = "dev" if "dev" in case.dataset.splits.names else "train"
        examples = case.dataset.first(split, TEXTS)
        if any(example.image is not None for example in examples):
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "pictures")
        return self.judge(case.when, [(example.text, example.pair or "") for example in examples])

    def judge(self, when: When, pairs: Sequence[tuple[str, str]]) -> Finding:
        """Queries with the passages that they belong to."""
        queries, passages = ([plain(text) for text in side] for side in zip(*pairs, strict=True))
        n, known = len(queries), {*passages}
        seen = dict.fromkeys(queries, 0)
        for query in queries:
            seen[query] += 1
        equal = sum(query in known or seen[query] > 1 for query in queries)
        inside = sum(f" {q} " in f" {p} " for q, p in zip(queries, passages, strict=True) if q != p)
        few = max(equal, inside) <= MUCH * n
        outcome, kind = (Outcome.PASS, "few") if few else (Outcome.WARN, "many")
        return self.finding(when, outcome, kind, max(equal, inside) / n, n=n, equal=equal, inside=inside)


def plain(text: str) -> str:
    """A text by its words."""
    return " ".join("".join(c if c.isalnum() else " " for c in text.casefold()).split())
