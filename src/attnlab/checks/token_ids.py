"""Does every token id mean something of its own?"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor

from attnlab.checks.subject import ModelCheck, Subject
from attnlab.runs.findings import Finding, Outcome, When

AT_ONCE = 256
"""Rows of one token that are read together."""
LEAST, MOST = 64, 4096
"""Ids that are asked: all of a smaller vocabulary; of a larger one its first and last, and some between."""
WORK = 10_000_000_000
"""Parameters times ids that take a second or two."""
FEW = 0.1
"""The share of equal rows that a learned table may have, for ids that no text holds."""


class TokenIds(ModelCheck):
    """Token ids: do distinct ids have distinct embeddings, and can each change an output?

    Formula: every id of the vocabulary as a row of one token (at most 4,096: of more, and of models above 2.4
    million parameters fewer, the first, the last and some between): what the model makes of no two of them is
    equal, bit for bit, in float64. Of a model of ours these are the hidden states, of another project's the
    scores; of ours all ids' embeddings are compared too.

    When it helps: ids that are clamped, taken modulo something, or looked up in a table that is too small
    read different words as one, and a model learns all the same.

    Cannot see: an id that is wrong in longer rows only, and two ids of which one is not asked. Tables that
    were learned before may hold equal rows for ids that no text has: up to a tenth of them is a warning.
    """

    when: ClassVar[tuple[When, ...]] = ("before",)
    limit: ClassVar[float] = 1.0
    same_for_seeds: ClassVar[bool] = True

    def answer(self, subject: Subject) -> Finding:
        subject.refuse_unusable()
        asked, tables = asked_ids(subject), subject.tables_of_ids()
        sweeps = [("embeddings", torch.arange(size), read) for size, read in tables]
        sweeps.append(("outputs", asked, subject.outputs_of))
        for kind, ids, read in sweeps:
            again = equal_to_earlier(ids, read)
            if again:
                values = {"first": again[0][0], "second": again[0][1], "ids": len(ids), "equal": len(again)}
                few = subject.learned and len(again) <= FEW * len(ids)
                outcome = Outcome.WARN if few else Outcome.FAIL
                return self.finding(subject.when, outcome, kind, float(len(again)), **values)
        values = {"ids": len(asked), "vocabulary": subject.text_ids}
        return self.finding(subject.when, Outcome.PASS, "distinct", 0.0, **values)


def asked_ids(subject: Subject) -> Tensor:
    """The ids that are asked, in their order: fewer of larger models."""
    parameters = sum(p.numel() for p in subject.model.parameters())
    vocabulary, most = subject.text_ids, max(LEAST, min(MOST, WORK // max(parameters, 1)))
    if vocabulary <= most:
        return torch.arange(vocabulary)
    ends = torch.cat([torch.arange(most // 4), torch.arange(vocabulary - most // 4, vocabulary)])
    between = torch.linspace(most // 4, vocabulary - most // 4 - 1, most // 2).long()
    return torch.cat([ends, between]).unique()


def equal_to_earlier(ids: Tensor, read: Callable[[Tensor], Tensor]) -> list[tuple[int, int]]:
    """Ids that are read as an earlier one is, with that one."""
    seen: dict[bytes, int] = {}
    again = []
    for some in ids.split(AT_ONCE):
        for number, row in zip(some.tolist(), read(some).detach().contiguous().numpy(), strict=True):
            earlier = seen.setdefault(row.tobytes(), number)
            if earlier != number:
                again.append((earlier, number))
    return again
