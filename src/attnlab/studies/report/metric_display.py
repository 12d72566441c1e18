"""What each measure is called, what it is, and how its numbers are written."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from attnlab.documents.nodes import Form
from attnlab.metrics.measures import TRAIN, Measure, is_share, measures, title_of
from attnlab.metrics.metric import Estimate
from attnlab.studies.report.study_results import Arm, StudyResults


@dataclass(frozen=True)
class DisplayedMetric:
    name: str
    definition: str = ""
    form: Form = "plain"
    lower_is_better: bool = True
    counted: bool = False  # exact, from the arm itself and not over seeds
    honest: bool = False  # measured with later tokens removed: true of an arm that leaks, too
    signature: str = ""

    @property
    def title(self) -> str:
        return title_of(self.name)

    @property
    def of_difference(self) -> Form:
        """How a difference of two of its values is written."""
        signed: dict[Form, Form] = {"percent": "points", "plain": "signed"}
        return signed.get(self.form, self.form)

    @property
    def unit(self) -> str:
        """What a difference is counted in; a definition tells the rest."""
        if self.form == "percent":
            return "percentage points"
        return "nats per token" if self.name.endswith("loss") else ""


QUALITY = (
    DisplayedMetric("loss"),
    DisplayedMetric("perplexity"),
    DisplayedMetric("bits_per_byte"),
    DisplayedMetric("train_loss"),
    DisplayedMetric("parallel_perplexity"),
    DisplayedMetric("token_by_token_perplexity", honest=True),
    DisplayedMetric("leak", form="signed", honest=True),
)
COST = (
    DisplayedMetric("seconds", form="seconds"),
    DisplayedMetric("tokens_per_second", form="count"),
    DisplayedMetric("peak_memory_bytes", form="bytes"),
    DisplayedMetric("parameters", "Numbers that the model consists of, counted.", form="count", counted=True),
    DisplayedMetric(
        "tuned_parameters", "Those of its numbers that training changes, counted.", form="count", counted=True
    ),
    DisplayedMetric(
        "flops_per_token",
        "Floating-point operations of training per token, in closed form.",
        form="scaled",
        counted=True,
    ),
)
RUNS_ONLY = {"token_by_token_loss", "parallel_loss", "train_perplexity", "targets", "unknown_share"}
"""Told of every run and in runs.csv; a table of arms says the same with what it has."""

WITHOUT_LEAK = DisplayedMetric("token_by_token_loss", honest=True)
"""What a leak cannot lower: the difference of an arm that leaks is shown by it."""

KNOWN = {metric.name: metric for metric in (*QUALITY, *COST, WITHOUT_LEAK)}


def metric(study: StudyResults, name: str) -> DisplayedMetric:
    """With the definition that the study's results give, or else that of the table of measures."""
    shown = _shown_as(name)
    known = measures().get(name, Measure(shown.definition))
    stated = next((m for m in study.facts.metrics if m.name == name), None)
    return replace(
        shown,
        definition=_with_titles((stated and stated.definition) or known.definition, known.refers),
        lower_is_better=known.lower_is_better if stated is None else stated.lower_is_better,
        signature="" if stated is None else stated.signature,
    )


def _shown_as(name: str) -> DisplayedMetric:
    return KNOWN.get(name, DisplayedMetric(name, form="percent" if is_share(name) else "plain"))


def _with_titles(definition: str, names: Iterable[str]) -> str:
    """The measures that a definition speaks of, by their names in the page."""
    for name in names:
        definition = definition.replace(name, _shown_as(name).title)
    return definition


def explained(study: StudyResults, shown: list[DisplayedMetric]) -> list[DisplayedMetric]:
    """The measures shown and those that their definitions speak of."""
    known, stated = measures(), [m.name for m in study.facts.metrics]
    spoken = {name for m in shown if m.name in known for name in known[m.name].refers}
    others = [metric(study, name) for name in stated if name in RUNS_ONLY & spoken]
    return [m for m in dict.fromkeys([*shown, *others]) if m.definition]


def estimate(arm: Arm, name: str) -> Estimate | None:
    """The arm's estimate of a measure; a perplexity follows from its loss if only that is there."""
    if name in ("parallel_perplexity", "token_by_token_perplexity") and name not in arm.scores:
        loss = arm.scores.get(name.replace("perplexity", "loss"))
        if loss is None:
            return None
        value, low, high = (_exponential(end) for end in (loss.value, loss.low, loss.high))
        return Estimate(value, low, high, loss.n)
    return arm.scores.get(name)


def _exponential(loss: float) -> float:
    return math.exp(loss) if loss < 700 else math.nan


def quality(study: StudyResults) -> list[DisplayedMetric]:
    """Measures of how well the arms did: the study's own metric first, then ours, then others that it has."""
    elsewhere = {m.name for m in COST} | RUNS_ONLY - {study.metric}
    names = dict.fromkeys(name for arm in study.arms for name in arm.scores if name not in elsewhere)
    order = dict.fromkeys([study.metric, *(m.name for m in QUALITY), *names])
    order = dict.fromkeys(sorted(order, key=lambda name: name != study.metric and name.startswith(TRAIN)))
    return [metric(study, name) for name in order if any(estimate(arm, name) for arm in study.arms)]


def _has(arm: Arm, measure: DisplayedMetric) -> bool:
    if measure.counted:
        return getattr(arm.outcome, measure.name) is not None
    return measure.name in arm.scores


def cost(study: StudyResults) -> list[DisplayedMetric]:
    """Measures of what the arms took."""
    known_costs = [m for m in COST if any(_has(arm, m) for arm in study.arms)]
    outcomes = [arm.outcome for arm in study.arms]
    all_tuned = all(one.tuned_parameters in (None, one.parameters) for one in outcomes)
    return [metric(study, m.name) for m in known_costs if not (all_tuned and m.name == "tuned_parameters")]
