"""What each measure is called, what it is, and how its numbers are written."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from attnlab.studies.report.number_text import known
from attnlab.studies.report.study_results import Arm, StudyResults


@dataclass(frozen=True)
class DisplayedMetric:
    name: str
    title: str
    definition: str
    form: str = "plain"
    lower_is_better: bool = True
    counted: bool = False  # exact, from the arm itself and not over seeds
    honest: bool = False  # measured with no future present: true of an arm that leaks, too


QUALITY = (
    DisplayedMetric("loss", "dev loss", "Nats a target token, over all targets of the dev split."),
    DisplayedMetric(
        "perplexity",
        "perplexity",
        "e^loss over the whole dev split, of its words alone; not a mean of sentences.",
    ),
    DisplayedMetric(
        "bits_per_byte",
        "bits per byte",
        "Bits a byte of UTF-8 text; survives a change of tokenizer where no word is unknown.",
    ),
    DisplayedMetric(
        "train_loss", "train loss", "Nats a target token on the training text, at the end of training."
    ),
    DisplayedMetric(
        "parallel_perplexity",
        "parallel perplexity",
        "Perplexity as usual, all positions at once, on the rows of incremental perplexity.",
    ),
    DisplayedMetric(
        "incremental_perplexity",
        "incremental perplexity",
        "Perplexity when each token is scored from its prefix alone, with no future present.",
        honest=True,
    ),
    DisplayedMetric(
        "incremental_difference",
        "incremental − usual",
        "Incremental loss less the usual one, in nats a token: 0 for a sound causal model, otherwise how "
        "much the usual number lies.",
        "signed",
        honest=True,
    ),
)
COST = (
    DisplayedMetric("seconds", "training time", "Wall time of training, evaluation aside.", "seconds"),
    DisplayedMetric("tokens_per_second", "tokens/s", "Tokens read a second of training.", "count", False),
    DisplayedMetric("peak_memory_bytes", "peak memory", "Most memory that the process held.", "bytes"),
    DisplayedMetric(
        "parameters", "parameters", "Trained numbers of the model, counted.", "count", counted=True
    ),
    DisplayedMetric(
        "flops_per_token",
        "FLOPs a token",
        "Floating-point operations of training, a token, in closed form.",
        "scaled",
        counted=True,
    ),
)
RUNS_ONLY = {"incremental_loss", "parallel_loss", "train_perplexity", "targets", "unknown_share"}
"""Told of every run and in runs.csv; a table of arms says the same with what it has."""

KNOWN = {metric.name: metric for metric in QUALITY + COST}


def metric(study: StudyResults, name: str) -> DisplayedMetric:
    """The study's own definition where it gives one, otherwise ours."""
    ours = KNOWN.get(name, DisplayedMetric(name, name.replace("_", " "), ""))
    stated: Mapping[str, object] = next(
        (m for m in study.facts.get("metrics") or [] if m.get("name") == name), {}
    )
    return DisplayedMetric(
        name=name,
        title=ours.title,
        definition=_read(str(stated.get("definition") or ours.definition)),
        form=ours.form,
        lower_is_better=bool(stated.get("lower_is_better", ours.lower_is_better)),
        counted=ours.counted,
        honest=ours.honest,
    )


def _read(definition: str) -> str:
    """A sentence, with measures by their names in the page."""
    return re.sub(r"\b[a-z]+(?:_[a-z]+)+\b", lambda name: name[0].replace("_", " "), definition)


def explained(study: StudyResults, shown: list[DisplayedMetric]) -> list[DisplayedMetric]:
    """The measures shown and those that their definitions speak of."""
    stated = [m.get("name") for m in study.facts.get("metrics") or []]
    told = " ".join(m.definition for m in shown)
    others = [metric(study, n) for n in stated if n in RUNS_ONLY and f"{n}".replace("_", " ") in told]
    return [m for m in dict.fromkeys([*shown, *others]) if m.definition]


def estimate(arm: Arm, name: str) -> Mapping[str, Any] | None:
    """The arm's estimate of a measure; a perplexity follows from its loss if only that is there."""
    if name in ("parallel_perplexity", "incremental_perplexity") and name not in arm.metrics:
        loss = arm.metrics.get(name.replace("perplexity", "loss"))
        return (
            {key: _exponential(value) if key != "n" else value for key, value in loss.items()}
            if loss
            else None
        )
    return arm.metrics.get(name)


def _exponential(loss: Any) -> float | None:
    return math.exp(loss) if known(loss) and loss < 700 else None


def quality(study: StudyResults) -> list[DisplayedMetric]:
    """Measures of how well the arms did: the study's own metric first, then ours, then others that it has."""
    elsewhere = {m.name for m in COST} | RUNS_ONLY - {study.metric}
    found = dict.fromkeys(name for arm in study.arms for name in arm.metrics if name not in elsewhere)
    order = dict.fromkeys([study.metric, *(m.name for m in QUALITY), *found])
    return [metric(study, name) for name in order if any(estimate(arm, name) for arm in study.arms)]


def cost(study: StudyResults) -> list[DisplayedMetric]:
    """Measures of what the arms took."""
    return [m for m in COST if any(m.name in (arm.data if m.counted else arm.metrics) for arm in study.arms)]
