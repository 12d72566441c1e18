"""What the model writes, in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from attnlab.checks.check import EARLY, Case, Check
from attnlab.checks.real import held_out
from attnlab.evaluation.sample_quality import SampleQuality, quality
from attnlab.generation.generate import Written
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.runs.typed import Value

TEXTS = 200
REPEATS, FEW, ENDS, SHORT = 0.5, 0.2, 0.8, 0.1


class Samples(Check):
    """Samples: do samples repeat themselves, never stop, or use only a few words?

    Formula: of the samples of an evaluation, compared with dev texts cut to the same length: repeated
    4-grams, more by 0.5 of all; different tokens, less than 0.2 of theirs; none that stopped, where 0.8 of
    the texts would have; all stopped, and shorter than 0.1 of the texts. Not in the first 200 steps.

    When it helps: the loss of a model that loops can be good. It is a warning, not a failure.

    Cannot see: text that is fluent and wrong, and what other decoding rules than the run's own samples
    would write.
    """

    when: ClassVar[tuple[When, ...]] = ("evaluation",)
    limit: ClassVar[float] = 0.1

    def run(self, case: Case) -> Finding:
        if not case.samples:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "no_samples")
        if case.step < EARLY:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "too_early", first=EARLY)
        unknown = case.dataset.tokenizer.specials.unknown
        length = max(len(sample.new) for sample in case.samples)
        real = texts(case, length)
        written, usual = quality(case.samples, unknown=unknown), quality(real, unknown=unknown)
        variety, usual_variety = different(case.samples), different(real)
        mean = written.tokens / written.n
        usual_mean = float(case.dataset.rows(held_out(case)).lengths.mean())
        values: dict[str, Value] = {
            "n": written.n,
            "repeated": written.repeated_4,
            "usual_repeated": usual.repeated_4,
            "variety": variety,
            "usual_variety": usual_variety,
            "stopped": written.stopped,
            "usual_stopped": usual.stopped,
            "length": length,
            "mean": mean,
            "usual_mean": usual_mean,
        }
        fault = self.fault(written, usual, variety, usual_variety)
        if not fault and written.stopped == 1 and mean < SHORT * usual_mean:
            fault = "stop_at_once"
        outcome = Outcome.WARN if fault else Outcome.PASS
        return self.finding(case.when, outcome, fault or "varied", written.repeated_4, **values)

    @staticmethod
    def fault(written: SampleQuality, usual: SampleQuality, variety: float, usual_variety: float) -> str:
        """The kind of fault that samples have, beside texts cut to their length."""
        if written.repeated_4 > usual.repeated_4 + REPEATS:
            return "repeat"
        if written.tokens and variety < FEW * usual_variety:
            return "few_tokens"
        return "no_stop" if written.stopped == 0 and usual.stopped > ENDS else ""


def texts(case: Case, length: int) -> list[Written]:
    """Real texts as if they had been written: cut to the length, or ended."""
    rows, stop = case.dataset.rows(held_out(case)), case.dataset.tokenizer.specials.stop
    before = len(case.dataset.tokenizer.form.before)
    rows_of_ids = [rows.ragged("ids", row).tolist()[before:] for row in range(min(len(rows), TEXTS))]
    return [
        Written([], ids[:length], stopped=len(ids) <= length and ids[-1:] == [stop]) for ids in rows_of_ids
    ]


def different(samples: Sequence[Written]) -> float:
    """Different tokens of all, in the first three: shares of larger sets would be smaller."""
    some = [sample.new for sample in samples if sample.new][:3]
    tokens = [token for text in some for token in text]
    return len(set(tokens)) / len(tokens) if tokens else 0.0
