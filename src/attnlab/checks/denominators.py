"""What scores are divided by."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from attnlab.checks.check import Case, Check, Finding, When
from attnlab.config.streams import stream_seed
from attnlab.objectives.causal import Causal
from attnlab.objectives.seq2seq import SequenceToSequence

EQUAL = 1e-6


class Denominators(Check):
    """Denominators: does each score of an evaluation have the denominator that its name says?

    Formula: the number of targets is that of the split's rows (all tokens but the first of each text
    for objectives that predict the next, at most all tokens for others); perplexity is e^loss over
    all targets (of its first part, where it has several), not a mean of sentences'; bits a byte are
    nats·targets / ln 2 / bytes.

    When it helps: a mean of batch means, or of exponentials, is another number under the same name.
    """

    when: ClassVar[tuple[When, ...]] = ("evaluation",)
    limit: ClassVar[float] = 0.3

    def run(self, case: Case) -> Finding:
        scores = case.scores
        if "loss" not in scores or "dev" not in case.dataset.splits.names:
            return self.not_applicable(case, "nothing was scored")
        if "targets" not in scores:
            return self.bad(case, f"{', '.join(scores)} without the number of targets", "no n is beside them")
        targets, loss = scores["targets"], scores["loss"]
        least, most, size = expected(case)
        if not least <= targets <= most:
            bounds = f"{least:,}" if least == most else f"{least:,} to {most:,}"
            return self.bad(
                case, f"{targets:,.0f} targets; the rows have {bounds}", "some count twice or never"
            )
        usual = math.exp(min(of_words(scores), 700.0))
        perplexity = scores.get("perplexity", usual)
        if not abs(perplexity - usual) <= EQUAL * usual:
            told = f"perplexity {perplexity:,.4f}, but e^loss is {usual:,.4f}"
            return self.bad(case, told, "it is another mean, such as one over batches or sentences")
        bits = loss * targets / math.log(2) / size if size else math.nan
        if "bits_per_byte" in scores and size and not abs(scores["bits_per_byte"] - bits) <= EQUAL * bits:
            told = f"{scores['bits_per_byte']:.4f} bits a byte, but nats/ln 2/bytes is {bits:.4f}"
            return self.bad(case, told, "other bytes were counted than those of the targets' text")
        return self.passed(case, f"{targets:,.0f} targets, as the rows have; perplexity is e^loss", targets)

    def bad(self, case: Case, told: str, why: str) -> Finding:
        return self.failed(
            case,
            told,
            case.scores.get("targets"),
            meaning=f"The scores are not what their names say: {why}.",
            fix="Sum nats and targets over all batches, and divide once.",
        )


def of_words(scores: Mapping[str, float]) -> float:
    """The loss; where it is a sum of parts the first of them, which is that of the words."""
    known = {"loss", "perplexity", "targets", "bits_per_byte"}
    return next((part for name, part in scores.items() if name not in known), scores["loss"])


def expected(case: Case) -> tuple[int, int, int]:
    """The least and the most targets of an evaluation, and the bytes of its text, by its rows' lengths."""
    loader = case.dataset.loader("dev", seed=stream_seed(case.config.data.split_seed, "evaluation"))
    plan, batches = loader.plan(0), case.config.training.evaluate_batches
    end = len(plan) if batches == "all" else min(batches, len(plan))
    rows = plan.order[: plan.place_bounds[plan.batch_bounds[end]]]
    sizes = loader.rows.sizes
    size = sum(loader.rows.scalar("bytes", int(row)) for row in rows)
    if type(case.objective) is Causal:
        count = int(np.maximum(sizes[0][rows] - 1, 0).sum())
        return count, count, size
    if type(case.objective) is SequenceToSequence:
        count = int(np.maximum(sizes[1][rows] - 1, 0).sum())
        return count, count, size
    return 1, int(sizes[0][rows].sum()) + len(rows), size
