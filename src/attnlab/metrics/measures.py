"""Every number that is told of a run, in one table: what it is, and which side of it is better.

A metric (`METRICS`) is made of what a model said of each example, and defines itself. Beside them stand the
numbers that are not: what training cost, and losses of a sample. A study's own measures come on top.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from attnlab.config.registry import card
from attnlab.metrics import METRICS


@dataclass(frozen=True)
class Measure:
    """A number of a run. `of_task` is one that the run's task gives its meaning: under another task it is
    another number. `refers` names the measures that its definition speaks of."""

    definition: str
    better: Literal["lower", "higher"] = "lower"
    of_task: bool = False
    refers: tuple[str, ...] = ()

    @property
    def lower_is_better(self) -> bool:
        return self.better == "lower"


COSTS = {
    "seconds": Measure("seconds of training steps; evaluation and saving aside"),
    "tokens_per_second": Measure("training tokens per second", "higher"),
    "peak_memory_bytes": Measure("the largest memory of the run's process until training ended"),
}
TIMES = ("seconds", "tokens_per_second")
"""Costs that a busy machine makes worse."""
SAMPLED = {
    "parallel_loss": Measure(
        "nats per token, all positions at once, on the rows of token_by_token_loss",
        of_task=True,
        refers=("token_by_token_loss",),
    ),
    "token_by_token_loss": Measure(
        "nats per token, each scored with the later tokens removed, on a sample of dev rows", of_task=True
    ),
    "parallel_perplexity": Measure("e^parallel_loss", of_task=True, refers=("parallel_loss",)),
    "token_by_token_perplexity": Measure(
        "e^token_by_token_loss", of_task=True, refers=("token_by_token_loss",)
    ),
    "leak": Measure(
        "token_by_token_loss − parallel_loss, in nats per token; 0 for a sound causal model",
        of_task=True,
        refers=("token_by_token_loss", "parallel_loss"),
    ),
}
TRAIN = "train_"
"""Before the name of a metric: the same of the training split."""


def measures(own: Mapping[str, Measure] | None = None) -> dict[str, Measure]:
    """Every measure by its name, with a study's own."""
    metrics = {name: measure_of(name) for name in METRICS}
    trained = {
        f"{TRAIN}{name}": Measure(
            f"{name} of a fixed sample of the training split, after training", m.better, True, (name,)
        )
        for name, m in metrics.items()
    }
    return metrics | trained | SAMPLED | COSTS | dict(own or {})


TITLES = {
    "loss": "dev loss",
    "seconds": "training time",
    "tokens_per_second": "tokens/s",
    "peak_memory_bytes": "peak memory",
    "flops_per_token": "FLOPs per token",
    "token_by_token_loss": "token-by-token loss",
    "token_by_token_perplexity": "token-by-token perplexity",
    "macro_f1": "macro F1",
    "micro_f1": "micro F1",
    "entity_f1": "entity F1",
    "span_f1": "span F1",
    "span_f1_answerable": "span F1, answerable",
    "recall_at_1": "recall@1",
    "recall_at_10": "recall@10",
    "bleu": "BLEU",
    "chrf": "chrF",
    "rouge1": "ROUGE-1",
    "rouge2": "ROUGE-2",
    "rougeL": "ROUGE-L",
    "copied1": "copied words",
    "copied2": "copied pairs",
    "copied3": "copied triples",
    "copied4": "copied runs of 4",
}
"""What measures are called where their name with spaces is not it."""


def title_of(name: str) -> str:
    """What a measure is called, the same in every sentence, table and figure."""
    if name.startswith(TRAIN):
        return f"train {title_of(name.removeprefix(TRAIN)).removeprefix('dev ')}"
    return TITLES.get(name, name.replace("_", " "))


def is_share(name: str) -> bool:
    """Whether a measure is read as a percentage, and its differences in points."""
    name = name.removeprefix(TRAIN)
    return name in METRICS and METRICS[name].share


def form_of(name: str) -> Literal["percent", "plain", "count"]:
    """How a measure's values are written."""
    return "percent" if is_share(name) else "count" if name == "tokens_per_second" else "plain"


def measure_of(name: str) -> Measure:
    """A metric as one of the measures: its definition is the first line of its card."""
    return _measure_of(METRICS[name], name)


@cache  # of the class: a name may be given to another
def _measure_of(metric: Any, name: str) -> Measure:
    summary = card(METRICS, name).summary
    return Measure(summary.partition(": ")[2].rstrip(".") or summary, metric.better, of_task=True)


def signed(definition: str, signature: str) -> str:
    """A definition with the signature of the package that computed the score, where there is one."""
    return f"{definition.rstrip('.')}. Signature: {signature}" if signature else definition


def limits_of(measure: str) -> tuple[float, float]:
    """The values that a measure can have; nothing takes less than no time."""
    if measure in COSTS:
        return 0.0, math.inf
    of_loss = (kind for kind in ("loss", "perplexity") if measure.endswith(f"_{kind}"))
    name = measure.removeprefix("train_") if measure.startswith("train_") else next(of_loss, measure)
    return METRICS[name].limits if name in METRICS else (-math.inf, math.inf)
