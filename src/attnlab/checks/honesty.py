"""The loss as usual, and from the prefix alone."""

from __future__ import annotations

from typing import ClassVar

from attnlab.checks.check import Case, Check, Finding, When
from attnlab.checks.real import held_out, undisturbed
from attnlab.evaluation.perplexity import honesty
from attnlab.model.masks import incremental
from attnlab.objectives.causal import Causal

ROWS, LENGTH = 4, 16


class Honesty(Check):
    """Honesty: is the loss the one of a text that is written, with no future there?

    Formula: nats a token of four short rows of dev, all positions at once, beside the same with
    each token scored from its prefix alone, through the cache; the two agree to 0.001 nats.

    When it helps: whatever lets a score see what comes after it makes the usual loss too low, and
    nothing but this shows by how much. Only for causal models.
    """

    when: ClassVar[tuple[When, ...]] = ("evaluation",)
    limit: ClassVar[float] = 0.5

    def run(self, case: Case) -> Finding:
        trunk = case.model.trunk
        alone = trunk.decoder is not None and trunk.encoder is None
        if not (alone and isinstance(case.objective, Causal) and incremental(trunk.main.mask)):
            return self.not_applicable(case, "only a causal model writes from left to right")
        held = case.dataset.rows(held_out(case))
        step = max(len(held) // (4 * ROWS), 1)
        sample = [held.ragged("ids", row)[:LENGTH].tolist() for row in range(0, len(held), step)]
        longest = sorted((row for row in sample if len(row) > 1), key=len, reverse=True)[:ROWS]
        if not longest:
            return self.not_applicable(case, "no row has two tokens")
        with undisturbed(case.model) as model:
            found = honesty(model, longest)
        low, high = found.interval
        told = (
            f"{found.usual.loss:.3f} nats a token as usual, {found.alone.loss:.3f} from the prefix alone: "
            f"a difference of {found.difference:.4f} [{low:.4f}, {high:.4f}] over {found.rows} rows"
        )
        if found.sound:
            return self.passed(case, told, found.difference)
        return self.failed(
            case,
            told,
            found.difference,
            meaning=f"{found.meaning}.",
            fix='Look at the mask (model.masking = "-inf"), and at the check `dependency`.',
        )
