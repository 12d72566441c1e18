"""Batching: how much of a batch is padding, and what does that cost?

Set-up: a small decoder (mini-gpt: words, sentences cut at 100 tokens, about 1.4 million
parameters), one epoch of the embedded Python documentation. Four ways to put its sentences into
batches, each with about 600 tokens of text per step on average, and the same budget in tokens: padded, 32
sentences at random; longest first, 32 neighbours in the order of length; bucketed, sentences of similar
length, batches in random order; packed, several sentences in each line.

Hypothesis: with random batches more than two places in three are padding, which takes time and teaches
nothing. Bucketed and packed have little of it, and end at the same dev loss in less time. Longest first
pads least of those with a line for each sentence, but trains on lengths in order, and loses by it.

How to read it: the share of padding, seconds and tokens of text per second; then the differences in
dev loss, which should be small where the order is random. --quick does not reach the end of an epoch, so
that longest first has then seen long sentences only.

Time: four arms × 5 seeds take about twenty minutes on two cores; --quick about three minutes.
"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, ClassVar

from attnlab.config.values import Choice
from attnlab.metrics.measures import Measure
from attnlab.runs.result import RunResult
from attnlab.studies.extras import Extras, OwnMeasures, Summary
from attnlab.studies.outcome import SeriesRecord, StudyOutcome
from attnlab.studies.shown import figure, mean, runs_by_arm, table
from attnlab.studies.spec import Quick, Study

if TYPE_CHECKING:
    from attnlab.data.dataset import Dataset
    from attnlab.session.trained import Trained

FACTORS = (0.25, 0.5, 1, 2, 4)
"""How much larger than the arm's own the batches of the figure are."""


def study() -> Study:
    return Study(
        question="How much time does padding take, and does the way to batch change what is learned?",
        hypothesis="Random batches are mostly padding; bucketed and packed reach the same loss sooner.",
        base="mini-gpt",
        arms={
            "padded": {"data.batching": "padded(batch_size=32)"},
            "longest-first": {"data.batching": "longest_first(batch_size=32)"},
            "bucketed": {"data.batching": "bucketed(tokens=670)"},
            "packed": {"data.batching": "packed(batch_size=6)"},
        },
        about=("budget",),  # batches of other shapes: as many tokens, in other steps and times
        set={"training.evaluate_every": 100},
        quick=Quick(seeds=3, budget={"tokens": 50_000}, set={"training.evaluate_every": 40}),
        extras="attnlab.studies.builtin.batching:Waste",
    )


class Waste(Extras):
    """How much padding each way to batch has, for its own batches and for smaller and larger ones."""

    metrics: ClassVar[dict[str, Measure]] = {
        "waste": Measure("share of a batch's places that hold padding, over the whole first epoch"),
        "tokens_per_step": Measure(
            "tokens of text per step, padding aside, over the whole first epoch", better="higher"
        ),
    }

    def measure(self, trained: Trained) -> OwnMeasures:
        config, dataset = trained.config, trained.dataset
        by_size = [padding_of(dataset, sized(config.data.batching, f), config.seed) for f in FACTORS]
        metrics = padding_of(dataset, config.data.batching, config.seed)
        return OwnMeasures(metrics, extra={"by_size": by_size})

    def summarise(self, outcome: StudyOutcome, folder: Path) -> Summary:
        arms = runs_by_arm(outcome)
        series: list[SeriesRecord] = [
            {"name": arm, "x": averaged(runs, "tokens_per_step"), "y": averaged(runs, "waste")}
            for arm, runs in arms.items()
        ]
        names = ("waste", "tokens_per_step", "seconds", "tokens_per_second", "loss")
        rows = [
            [arm, len(runs), fmean(run.steps for run in runs), *(mean(runs, name) for name in names)]
            for arm, runs in arms.items()
        ]
        heads = ("padding (share)", "tokens per step", "training (s)", "tokens/s", "dev loss (nats)")
        return Summary(
            figures=[
                figure(
                    "Padding against the size of a batch",
                    x="tokens of text per step",
                    y="share of places that hold padding",
                    series=series,
                    log_x=True,
                    note="Counted over a whole epoch, from the plan of its batches; means over the seeds.",
                )
            ],
            tables=[
                table(
                    "What padding costs",
                    ("arm", "seeds", "steps", *heads),
                    rows,
                    "Means over the seeds. Padding is counted over a whole epoch, whatever the budget. "
                    "Seconds are this machine's, with several runs at once: only ratios mean anything.",
                )
            ],
        )


def sized(choice: Choice, factor: float) -> Choice:
    """The same way to batch with batches so much larger."""
    options = {
        name: max(1, round(value * factor))
        if name in ("batch_size", "tokens") and isinstance(value, int)
        else value
        for name, value in choice.options.items()
    }
    return Choice(choice.kind, options)


def padding_of(dataset: Dataset, choice: Choice, seed: int) -> dict[str, float]:
    """Padding and tokens a step of a run's first epoch, in the order of its seed."""
    from attnlab.config.streams import stream_seed
    from attnlab.data.batching import BATCHING

    batching = BATCHING.build(choice, length=dataset.settings.length)
    loader = dataset.loader("train", seed=stream_seed(seed, "data"), batching=batching)
    text = sum(int(lengths.sum()) for lengths in loader.rows.sizes)
    return {"waste": loader.waste(), "tokens_per_step": text / len(loader)}


def averaged(runs: list[RunResult], name: str) -> list[float]:
    return [fmean(run.extra["by_size"][place][name] for run in runs) for place in range(len(FACTORS))]
