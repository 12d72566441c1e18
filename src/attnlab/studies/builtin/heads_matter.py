"""Heads that matter: which heads can a trained model lose, and does attention's picture say which?

Set-up: a small decoder (mini-gpt: words, about 1.4 million parameters), one epoch of the embedded Python
documentation, with four heads in each of its four layers (the baseline) and with eight. After training every
head is removed in turn, by setting what it reads to 0, and the loss of dev texts is measured again, paired by
text. That is compared with three numbers that a picture of the head shows without removing it: the mean
entropy of its weights, the mean distance at which it looks, and the mean length of its values.

Hypothesis: many heads can be lost at little cost. Heads that look sharp or far are not the ones that matter:
no number of the picture predicts the cost of removal well, values' length best of them.

How to read it: Spearman's rank correlation over the heads of a run, of each number with the change of loss
without the head, as a mean over seeds with its 95% interval over seeds. An interval that holds 0 means that
the picture was not shown to predict anything; one that leaves it out says how well the order agrees. A
correlation over 16 heads varies by about 0.26 by chance alone, so one run says little.

Time: --quick took fifteen minutes on one core of a busy machine; the whole study has ten runs instead of six,
each of one epoch instead of 100,000 tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from attnlab.metrics.measures import Measure
from attnlab.metrics.metric import Estimate
from attnlab.runs.typed import Value
from attnlab.studies.extras import Extras, OwnMeasures, Summary
from attnlab.studies.outcome import Note, NoteKind, StudyOutcome
from attnlab.studies.shown import figure, mean, over_seeds, runs_by_arm, table
from attnlab.studies.spec import Quick, Study

if TYPE_CHECKING:
    from attnlab.runs.result import RunResult
    from attnlab.session.trained import Trained

TEXTS, PICTURES = 100, 40
CLOSE = 0.999
"""A correlation is taken for no larger than that, where z would have no end."""
SMALL = 0.01
"""Nats a token: a head that costs less can be lost."""
MEASURES = {
    "entropy": "entropy of its weights",
    "distance": "distance at which it looks",
    "value_norm": "length of its values",
}


def study() -> Study:
    return Study(
        question="Which heads can a trained model lose, and does attention's picture say which?",
        hypothesis="Many heads can be lost, and neither entropy nor distance of their weights says which.",
        base="mini-gpt",
        arms={f"heads-{heads}": {"model.heads": heads} for heads in (4, 8)},
        baseline="heads-4",
        set={"training.evaluate_every": 100},
        quick=Quick(seeds=3, budget={"tokens": 100_000}, set={"training.evaluate_every": 40}),
        extras="attnlab.studies.builtin.heads_matter:Worth",
    )


class Worth(Extras):
    """What each head is worth, and how well its picture predicts that."""

    metrics: ClassVar[dict[str, Measure]] = {
        "heads_to_spare": Measure(
            f"share of heads whose removal, one at a time, costs less than {SMALL} nats a token", "higher"
        ),
        **{
            f"{name}_correlation": Measure(
                f"rank correlation over heads of the {title} with the change of loss without the head",
                "higher",
            )
            for name, title in MEASURES.items()
        },
    }

    def measure(self, trained: Trained) -> OwnMeasures:
        from attnlab.explain.head_losses import HeadLosses, head_pictures, rank_correlations

        ablation, reading = trained.heads(texts=TEXTS), trained.reading
        assert isinstance(ablation, HeadLosses)  # of models that a study has trained
        examples = trained.dataset.first("dev", PICTURES)
        rows = [reading.row(reading.cut(example.text)) for example in examples]
        pictures = head_pictures(trained.model, rows)
        spare = sum(head.change.value < SMALL for head in ablation.heads) / len(ablation.heads)
        correlations = rank_correlations(pictures, ablation.heads)
        metrics = {f"{name}_correlation": value for name, value in correlations.items()}
        heads = [
            {"head": str(head.name), "change": head.change.value, **vars(pictures[head.name])}
            for head in ablation.ranked
        ]
        return OwnMeasures(
            {"heads_to_spare": spare} | metrics, extra={"heads": heads, "texts": ablation.texts}
        )

    def summarise(self, outcome: StudyOutcome, folder: Path) -> Summary:
        arms = runs_by_arm(outcome)
        if not arms:
            return Summary()
        rows = [row for arm, runs in arms.items() for row in correlation_rows(arm, runs)]
        first = next(iter(arms.values()))[0].extra
        series = [
            over_seeds(
                arm,
                list(range(1, len(runs[0].extra["heads"]) + 1)),
                [[head["change"] for head in run.extra["heads"]] for run in runs],
            )
            for arm, runs in arms.items()
        ]
        return Summary(
            figures=[
                figure(
                    "Change of the loss without one head",
                    x="rank of the head in its run",
                    y="nats a token",
                    series=series,
                )
            ],
            tables=[
                table(
                    "Does the picture predict the cost of removal?",
                    ("arm", "number of the picture", "seeds", "heads", "rank correlation", "95% interval"),
                    rows,
                    f"Spearman's correlation over the heads of a run with the change of loss on "
                    f"{first['texts']} dev texts; means over the seeds and their t interval, of Fisher's z.",
                ),
                table(
                    "Heads of the first run",
                    ("head", "change (nats)", "entropy", "distance", "length of values"),
                    [
                        [h["head"], h["change"], h["entropy"], h["distance"], h["value_norm"]]
                        for h in first["heads"]
                    ],
                ),
            ],
            notes=[verdict(arm, runs) for arm, runs in arms.items()],
        )


def correlation_rows(arm: str, runs: Sequence[RunResult]) -> list[list[Any]]:
    """Each number of the picture with its mean correlation over seeds and the interval."""
    heads = len(runs[0].extra["heads"])
    rows = []
    for name, title in MEASURES.items():
        mean = estimate(runs, name)
        if mean is not None:
            interval = f"{mean.low:+.2f} to {mean.high:+.2f}" if len(runs) > 1 else "one seed: unknown"
            rows.append([arm, title, len(runs), heads, mean.value, interval])
    return rows


def estimate(runs: Sequence[RunResult], name: str) -> Estimate | None:
    """The mean correlation over seeds with its interval; nothing where no run has one.

    Both are of Fisher's z, atanh of a correlation, so that no end of the interval is beyond ±1.
    """
    from attnlab.evaluation.statistics import mean_of_seeds

    values = [run.metrics[f"{name}_correlation"] for run in runs if f"{name}_correlation" in run.metrics]
    if not values:
        return None
    mean = mean_of_seeds([math.atanh(max(-CLOSE, min(CLOSE, value))) for value in values])
    value, low, high = map(math.tanh, (mean.value, mean.low, mean.high))
    return replace(mean, value=value, low=low, high=high)


def verdict(arm: str, runs: Sequence[RunResult]) -> Note:
    """Which numbers of a head's picture were shown to predict the cost of removing it."""
    estimates = {name: estimate(runs, name) for name in MEASURES}
    predicting: dict[str, Value] = {
        MEASURES[name]: correlation.value
        for name, correlation in estimates.items()
        if correlation is not None and (correlation.low > 0 or correlation.high < 0)
    }
    spare = mean(runs, "heads_to_spare")
    values = {"arm": arm, "predicting": predicting, "spare": spare, "nats": SMALL}
    return Note(NoteKind.HEADS_PREDICTED, values)
