"""The parallel loss, and the token-by-token loss."""

from __future__ import annotations

from typing import ClassVar

from attnlab.checks.check import Case, Check
from attnlab.checks.real import evaluator_of, uneven
from attnlab.evaluation.honesty import honesty
from attnlab.evaluation.texts import texts_of
from attnlab.model.isolation import undisturbed
from attnlab.runs.findings import Finding, Outcome, When

LINES, TOKENS = 4, 1500


class Honesty(Check):
    """Honesty: is the reported loss the same when later tokens are removed?

    Formula: nats of targets of a few dev texts, all positions at once, compared with the same with each
    target scored from a text that ends with the last token it may depend on; in a float64 copy the two
    agree to 1e-6 nats at every target. For next-token predictions the text ends with the token before the
    target, for an encoder-decoder the source is whole, for UniLM the text ends with its source.

    When it helps: whatever lets a score depend on later tokens makes the reported loss too low, and this
    shows by how much. A source that is marked too long is found too: what is marked does not decide here.

    Cannot see: a leak beyond the first tokens of these texts (see `dependency`), targets that the source
    of an encoder-decoder holds (see `targets`), and nothing at all of models that see both sides.
    """

    when: ClassVar[tuple[When, ...]] = ("evaluation",)
    limit: ClassVar[float] = 0.5

    def run(self, case: Case) -> Finding:
        if not case.task.predicts_words:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "no_words")
        evaluator = evaluator_of(case)
        pieces = uneven(evaluator.loader, LINES)
        texts = [
            text
            for number, batch in enumerate(pieces.batches)
            for text in texts_of(batch, evaluator.prepare(batch, number), pieces.rows)
        ]
        with undisturbed(case.model) as model:
            compared = honesty(model, case.task, texts, tokens=TOKENS)
        if compared is None:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "sees_all")
        if compared.sound:
            return self.finding(case.when, Outcome.PASS, "equal", compared.difference, **compared.values)
        return self.finding(case.when, Outcome.FAIL, "differs", compared.largest, **compared.values)
