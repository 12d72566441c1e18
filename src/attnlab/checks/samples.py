"""What the model writes, in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from attnlab.checks.check import EARLY, Case, Check
from attnlab.checks.real import held_out
from attnlab.evaluation.sample_quality import SampleQuality, quality
from attnlab.generation.generate import Written
from attnlab.runs.findings import Finding, When

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
            return self.not_applicable(case, "no samples were generated")
        if case.step < EARLY:
            return self.not_applicable(case, f"not checked before step {EARLY}")
        unknown = case.dataset.tokenizer.specials.unknown
        length = max(len(sample.new) for sample in case.samples)
        real = texts(case, length)
        found, usual = quality(case.samples, unknown=unknown), quality(real, unknown=unknown)
        variety, usual_variety = different(case.samples), different(real)
        told = (
            f"{found.n} samples: {found.repeated_4:.0%} of 4-grams repeated (real {usual.repeated_4:.0%}), "
            f"{variety:.0%} of tokens distinct ({usual_variety:.0%}), {found.stopped:.0%} stopped "
            f"({usual.stopped:.0%} end within {length} tokens)"
        )
        fault = self.fault(found, usual, variety, usual_variety) or at_once(case, found)
        if fault:
            return self.warned(
                case,
                told,
                found.repeated_4,
                meaning=fault,
                fix="Train longer, or sample with a higher temperature; if that changes nothing, look at "
                "the data: does it repeat, do texts end with the stop token?",
            )
        return self.passed(case, told, found.repeated_4)

    @staticmethod
    def fault(found: SampleQuality, usual: SampleQuality, variety: float, usual_variety: float) -> str:
        if found.repeated_4 > usual.repeated_4 + REPEATS:
            return "The model repeats itself."
        if found.tokens and variety < FEW * usual_variety:
            return "The model has collapsed to a few tokens."
        if found.stopped == 0 and usual.stopped > ENDS:
            return "The model does not stop where texts do."
        return ""


def at_once(case: Case, found: SampleQuality) -> str:
    usual = float(case.dataset.rows(held_out(case)).lengths.mean())
    mean = found.tokens / found.n
    if found.stopped == 1 and mean < SHORT * usual:
        return f"The model stops at once: {mean:.1f} tokens per text, where real texts have {usual:.0f}."
    return ""


def texts(case: Case, length: int) -> list[Written]:
    """Real texts as if they had been written: cut to the length, or ended."""
    rows, stop = case.dataset.rows(held_out(case)), case.dataset.tokenizer.specials.stop
    before = len(case.dataset.tokenizer.form.before)
    held = [rows.ragged("ids", row).tolist()[before:] for row in range(min(len(rows), TEXTS))]
    return [Written([], ids[:length], stopped=len(ids) <= length and ids[-1:] == [stop]) for ids in held]


def different(samples: Sequence[Written]) -> float:
    """Different tokens of all, in the first three: shares of larger sets would be smaller."""
    some = [sample.new for sample in samples if sample.new][:3]
    tokens = [token for text in some for token in text]
    return len(set(tokens)) / len(tokens) if tokens else 0.0
