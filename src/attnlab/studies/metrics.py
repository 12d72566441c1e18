"""What a study can be judged by: each number with its definition and its better side."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """A number of a run. Only a `loss` is a sum over texts, which comparisons then pair.

    `own` is one that the run's task gives its meaning: under another it is another number.
    """

    definition: str
    lower_is_better: bool = True
    own: bool = False


METRICS: dict[str, Metric] = {
    "loss": Metric("nats a target token of the dev split, over all targets", own=True),
    "perplexity": Metric(
        "e^loss over the whole dev split, of the words alone where the loss has other parts; not a mean of "
        "sentences",
        own=True,
    ),
    "bits_per_byte": Metric(
        "bits a byte of the dev split's UTF-8 text; survives a change of tokenizer where no word is unknown",
        own=True,
    ),
    "train_loss": Metric(
        "nats a target token of a fixed sample of the training split, after training", own=True
    ),
    "train_perplexity": Metric("e^train_loss", own=True),
    "parallel_loss": Metric("nats a token, all positions at once, on the rows of incremental_loss", own=True),
    "incremental_loss": Metric(
        "nats a token, each scored from its prefix alone, on a sample of dev rows", own=True
    ),
    "parallel_perplexity": Metric("e^parallel_loss", own=True),
    "incremental_perplexity": Metric("e^incremental_loss", own=True),
    "incremental_difference": Metric(
        "incremental_loss − parallel_loss: how much the usual loss lies", own=True
    ),
    "seconds": Metric("seconds of training steps; evaluation and saving aside"),
    "tokens_per_second": Metric("training tokens a second", lower_is_better=False),
    "peak_memory_bytes": Metric("the largest memory of the run's process until training ended"),
}
"""A study's own measures (see extras.py) come beside these."""

COSTS = ("seconds", "tokens_per_second", "peak_memory_bytes")
