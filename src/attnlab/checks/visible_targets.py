"""Whether a model can read what it is to predict."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import ClassVar

import torch
from torch import Tensor

from attnlab.checks.check import Case
from attnlab.checks.targets import OfTargets
from attnlab.data.batch import Batch
from attnlab.model.losses import IGNORE
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.tasks.task import Prepared

LINES, LENGTH = 8, 256
UNLIKELY = 1e-4


class VisibleTargets(OfTargets):
    """Visible targets: does a prediction's own input hold the answer?

    Formula: of a real batch, by the mask that the model declares and by the targets alone. Where the next
    token is predicted, place p must not reach token p + 1 in any number of layers. Where tokens are
    hidden, no more of them may stand at their own place than the task keeps on purpose (binomial
    test over stretches of targets, 1e-4). Where the source is a text with holes, no more of the target may
    be in it than half-way from what it keeps to everything.

    When it helps: a source that covers the targets, or reaches one token too far, makes the loss fall to
    almost nothing; so do tokens that were chosen but never hidden.

    Cannot see: an answer that is given away by something else than its token (a type, a position, another
    text), and translations that repeat their source, which the data decides.
    """

    when: ClassVar[tuple[When, ...]] = ("before",)
    limit: ClassVar[float] = 0.5

    def judge(self, case: Case, batch: Batch, prepared: Prepared, *, hidden: bool) -> Finding:
        if hidden:
            return self.at_their_place(case, prepared)
        if prepared.source is not None and case.task.shown_source < 1:
            finding = self.in_source(case, prepared, batch)
            if finding.outcome != "pass":
                return finding
        return self.ahead(case, prepared)

    def ahead(self, case: Case, prepared: Prepared) -> Finding:
        """Next-token targets: the answer is the next input."""
        seen = count = 0
        for targets, ids, reach in lines(case, prepared):
            places = ((targets[:-1] != IGNORE) & (targets[:-1] == ids[1:])).nonzero()[:, 0]
            seen, count = seen + int(reach[places, places + 1].sum()), count + len(places)
        outcome, kind = (Outcome.FAIL, "ahead") if seen else (Outcome.PASS, "not_ahead")
        return self.finding(case.when, outcome, kind, seen / count if seen else 0.0, seen=seen, targets=count)

    def at_their_place(self, case: Case, prepared: Prepared) -> Finding:
        """Hidden targets: the answer is what stood there."""
        from scipy.special import bdtrc  # takes a while to import, and most tasks hide nothing

        there = prepared.targets != IGNORE
        left = there & (prepared.ids == prepared.targets)
        stretches = [bool(left[row, places].all()) for row, places in runs(there)]
        allowed = min(1.0, case.task.shown_targets + 1 / case.task.vocabulary.size)
        share = float(left.sum()) / float(there.sum())
        luck = bdtrc(sum(stretches) - 1, len(stretches), allowed)
        outcome, kind = (Outcome.FAIL, "at_their_place") if luck < UNLIKELY else (Outcome.PASS, "hidden")
        kept = case.task.shown_targets
        return self.finding(case.when, outcome, kind, share, targets=prepared.count, kept=kept)

    def in_source(self, case: Case, prepared: Prepared, batch: Batch) -> Finding:
        """Targets of a text with holes: the answer is in the source where there is no hole."""
        assert prepared.source is not None
        matched = count = 0
        for source, targets in zip(prepared.source[:LINES], prepared.targets[:LINES], strict=True):
            wanted = targets[targets != IGNORE].tolist()
            blocks = SequenceMatcher(None, source.tolist(), wanted, autojunk=False).get_matching_blocks()
            matched, count = matched + sum(block.size for block in blocks), count + len(wanted)
        share, kept = matched / count, case.task.shown_source
        much = share > kept + (1 - kept) / 2
        outcome, kind = (Outcome.FAIL, "in_source") if much else (Outcome.PASS, "not_in_source")
        return self.finding(case.when, outcome, kind, share, kept=kept)


def lines(case: Case, prepared: Prepared) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Targets and ids (T) of some lines, with what each place reaches (T,T) by the declared mask."""
    for line in range(min(LINES, len(prepared.ids))):
        tokens = prepared.tokens.select(torch.tensor([line]))
        marked = None if tokens.source is None else tokens.source[0].nonzero()[:, 0]
        # where the source ends is where marks go wrong
        start = 0 if marked is None or not len(marked) else max(0, int(marked[-1]) - LENGTH // 2)
        stop = min(start + LENGTH, tokens.length)
        reach = case.model.trunk.ways(tokens.part(start, stop))[0].reach
        yield prepared.targets[line, start:stop], prepared.ids[line, start:stop], reach


def runs(there: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Each stretch of places in a row, as (row, places)."""
    for row, flags in enumerate(there):
        places = flags.nonzero()[:, 0]
        if len(places):
            borders = ((places[1:] - places[:-1]) > 1).nonzero()[:, 0] + 1
            for stretch in torch.tensor_split(places, borders):
                yield row, stretch
