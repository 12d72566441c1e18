"""Sizes: does a verdict on a small model hold for a larger one?

Set-up: dot-product against linear attention at three widths of a small decoder (mini-gpt: words,
sentences cut at 100 tokens): 48, 96 and 192, which is 0.6, 1.4 and 3.7 million parameters; one epoch of the
embedded Python documentation, the same batches for every arm. Each linear arm is compared with the dot arm
of its own width, and the three comparisons are corrected together.

Hypothesis: linear attention comes near dot on sentences this short, and the gap is as small at each width:
a verdict from the smallest would have been right for the largest.

How to read it: the three differences in the figure by size. The verdict holds where the words are the same
at every size and the intervals overlap; it does not where the sign turns, or where the difference grows
with size beyond its interval. Sizes that were not tried are not answered, and the learning rate is the
same at every width, though wider models often want a lower one.

Time: six arms × 5 seeds take about forty minutes on two cores; --quick about three minutes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from attnlab.evaluation.comparison import Comparison, Verdict
from attnlab.runs.typed import Value
from attnlab.studies.extras import Extras, Summary
from attnlab.studies.outcome import FigureRecord, Note, NoteKind, SeriesRecord, StudyOutcome
from attnlab.studies.shown import figure, mean, over_seeds, runs_by_arm, table
from attnlab.studies.spec import Quick, Study
from attnlab.studies.wording import verdict_phrase

WIDTHS = (48, 96, 192)
RULES = ("dot", "linear")


def study() -> Study:
    return Study(
        question="Does the verdict on linear against dot-product attention hold at three sizes?",
        hypothesis="The difference is equally small at each width: the smallest model already shows it.",
        base="mini-gpt",
        arms={
            f"{rule}-{width}": {"model.attention": rule, "model.width": width}
            for width in WIDTHS
            for rule in RULES
        },
        against={f"linear-{width}": f"dot-{width}" for width in WIDTHS},
        set={"training.evaluate_every": 100},
        quick=Quick(seeds=3, budget={"tokens": 30_000}, set={"training.evaluate_every": 40}),
        extras="attnlab.studies.builtin.sizes:BySize",
    )


class BySize(Extras):
    """Each comparison by the size of its arms, and whether its words are the same at every one."""

    def summarise(self, outcome: StudyOutcome, folder: Path) -> Summary:
        rows = [comparison for comparison in outcome.comparisons if comparison.metric == outcome.study.metric]
        if not rows:
            return Summary()
        arms, metric = {arm.name: arm for arm in outcome.arms}, outcome.study.metric
        sizes = [arms[row.arm].parameters for row in rows]
        series: SeriesRecord = {
            "name": "difference",
            "x": sizes,
            "y": [row.difference for row in rows],
            "low": [row.low for row in rows],
            "high": [row.high for row in rows],
        }
        cells = [
            [row.arm, row.baseline, size, row.difference, row.low, row.high, verdict_phrase(row)]
            for row, size in zip(rows, sizes, strict=True)
        ]
        columns = ("arm", "less", "parameters", f"{metric} difference", "low", "high", "verdict")
        return Summary(
            figures=[
                figure(
                    "The difference by size",
                    x="parameters",
                    y=f"{metric}: arm less its baseline",
                    series=[series],
                    log_x=True,
                    note=f"95% intervals over {rows[0].seeds} seeds, each by itself; 0 is no difference.",
                ),
                losses(outcome),
            ],
            tables=[table("The verdict by size", columns, cells, "Corrected together for their number.")],
            notes=[holds(rows)],
        )


def losses(outcome: StudyOutcome) -> FigureRecord:
    """Each rule's measure against the size of its arms."""
    metric = outcome.study.metric
    sizes = {arm.name: arm.parameters or 0 for arm in outcome.arms}
    arms, series = runs_by_arm(outcome), []
    for rule in RULES:
        by_size = [(sizes[arm], runs) for arm, runs in arms.items() if arm.startswith(f"{rule}-")]
        if by_size and all(mean(runs, metric) is not None for _, runs in by_size):
            least = min(len(runs) for _, runs in by_size)
            values = [[runs[seed].metrics[metric] for _, runs in by_size] for seed in range(least)]
            series.append(over_seeds(rule, [size for size, _ in by_size], values))
    return figure(f"Dev {metric} by size", x="parameters", y=metric, series=series, log_x=True)


def holds(rows: Sequence[Comparison]) -> Note:
    """Whether all sizes earn the same verdict; it claims no more than they do."""
    known = all(math.isfinite(bound) for row in rows for bound in (row.low, row.high))
    disjoint = known and max(row.low for row in rows) > min(row.high for row in rows)
    first = rows[0]
    if len({(row.verdict, row.margin if row.verdict is Verdict.SAME else 0) for row in rows}) > 1:
        by_size: dict[str, Value] = {row.arm: [row.verdict.value, row.margin] for row in rows}
        return Note(NoteKind.OTHER_BY_SIZE, {"verdicts": by_size})
    values: dict[str, Value] = {"sizes": len(rows), "verdict": first.verdict.value, "margin": first.margin}
    return Note(NoteKind.SAME_AT_EVERY_SIZE, values | {"disjoint": disjoint})
