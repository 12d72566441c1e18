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

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attnlab.studies.extras import Extras
from attnlab.studies.shown import figure, mean, over_seeds, runs_by_arm, table
from attnlab.studies.spec import Quick, Study

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

    def summarise(self, results: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        rows = [row for row in results["comparisons"] if row["metric"] == results["study"]["metric"]]
        if not rows:
            return {}
        arms, metric = {arm["name"]: arm for arm in results["arms"]}, results["study"]["metric"]
        sizes = [arms[row["arm"]]["parameters"] for row in rows]
        series = {"name": "difference", "x": sizes} | {
            key: [row[name] for row in rows]
            for key, name in (("y", "difference"), ("low", "low"), ("high", "high"))
        }
        told = [
            [row["arm"], row["baseline"], size, row["difference"], row["low"], row["high"], row["verdict"]]
            for row, size in zip(rows, sizes, strict=True)
        ]
        columns = ("arm", "less", "parameters", f"{metric} difference", "low", "high", "verdict")
        return {
            "figures": [
                figure(
                    "The difference by size",
                    x="parameters",
                    y=f"{metric}: arm less its baseline",
                    series=[series],
                    log_x=True,
                    note=f"95 % intervals over {rows[0]['seeds']} seeds, each by itself; 0 is no difference.",
                ),
                losses(results),
            ],
            "tables": [table("The verdict by size", columns, told, "Corrected together for their number.")],
            "notes": [holds(told)],
        }


def losses(results: Mapping[str, Any]) -> dict[str, Any]:
    """Each rule's measure against the size of its arms."""
    metric = results["study"]["metric"]
    sizes = {arm["name"]: arm["parameters"] for arm in results["arms"]}
    arms, series = runs_by_arm(results), []
    for rule in RULES:
        held = [(sizes[arm], runs) for arm, runs in arms.items() if arm.startswith(f"{rule}-")]
        if held and all(mean(runs, metric) is not None for _, runs in held):
            least = min(len(runs) for _, runs in held)
            values = [[runs[seed].metrics[metric] for _, runs in held] for seed in range(least)]
            series.append(over_seeds(rule, [size for size, _ in held], values))
    return figure(f"Dev {metric} by size", x="parameters", y=metric, series=series, log_x=True)


def holds(told: list[list[Any]]) -> str:
    """Whether all sizes earn the same word, in a sentence that claims no more than they do."""
    words = {row[-1] for row in told}
    apart = max(row[4] for row in told) > min(row[5] for row in told) if unknown_free(told) else False
    if len(words) > 1:
        by_size = "; ".join(f"{row[0]}: {row[-1]}" for row in told)
        return f"The verdict is not the same at every size ({by_size})."
    word = words.pop()
    if word == "inconclusive":
        return f"At none of the {len(told)} sizes does this study tell the two apart; more seeds might."
    ending = "but their intervals do not all overlap: the size of the difference depends on the model's."
    return f"The verdict is the same at all {len(told)} sizes ({word})" + (f", {ending}" if apart else ".")


def unknown_free(told: list[list[Any]]) -> bool:
    """Whether every difference has an interval; with one seed none has."""
    return all(isinstance(bound, float) and bound == bound for row in told for bound in row[4:6])
