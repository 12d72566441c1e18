"""Whether a language model knows more than how often words occur."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

from attnlab.checks.check import Case, Check
from attnlab.evaluation.word_frequencies import split_frequencies
from attnlab.metrics.metric import Examples, known
from attnlab.metrics.words import Loss
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.runs.typed import Value


class Learned(Check):
    """Learned: is a language model better than counting words?

    Formula: tokens, and pairs of neighbours, are counted in the training text with the run's own tokenizer
    (absolute discounting, d = 0.75; a pair that was not seen backs off to its token's share, and that to
    1/V), and lose on the same targets of dev. The loss of the model must be below that of the tokens' shares
    (unigram), with the whole 95% interval of the paired difference. At the end it is a warning.

    When it helps: two arms of a study that have learned nothing yet do not differ, and that says nothing of
    them: it gives no verdict on such arms.

    Cannot see: what a model has learned beyond that; compare its loss with that of pairs (bigram).
    """

    when: ClassVar[tuple[When, ...]] = ("evaluation", "after")
    limit: ClassVar[float] = 0.5
    of_scores: ClassVar[bool] = True

    def run(self, case: Case) -> Finding:
        if not case.task.predicts_words:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "no_words")
        if case.evaluation is None or case.evaluator is None:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "not_scored")
        counted = split_frequencies(case.dataset, "dev", case.evaluator)
        return self.judge(
            case.when, case.evaluation.examples, counted.by_batch, training=case.when != "after"
        )

    def judge(
        self, when: When, scored: Examples, counted: Mapping[str, Examples], *, training: bool = False
    ) -> Finding:
        """What a model loses on texts or batches, compared with what counting loses on the same ones. In the
        course of `training` nothing is expected yet."""
        words = Examples({"nats": scored["words"], "targets": scored["targets"]})
        difference = Loss().difference(words, counted["unigram"])
        values: dict[str, Value] = {name: Loss().value(losses) for name, losses in counted.items()}
        values |= {"loss": Loss().value(words), "targets": int(scored["targets"].sum())}
        values |= {"low": known(difference.low), "high": known(difference.high)}
        least = difference.high if math.isfinite(difference.high) else difference.value
        if least < 0:
            return self.finding(when, Outcome.PASS, "better", difference.value, **values)
        if training:
            return self.finding(when, Outcome.NOT_APPLICABLE, "not_yet", difference.value, **values)
        kind = "not_better" if not difference.value < 0 else "indistinguishable"
        return self.finding(when, Outcome.WARN, kind, difference.value, **values)
