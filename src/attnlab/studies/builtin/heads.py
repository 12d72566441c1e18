"""Heads: how many ways of looking at once does a model need?

Set-up: a small decoder (mini-gpt: words, sentences cut at 100 tokens, about 1.4 million
parameters), one epoch of the embedded Python documentation. The width of 96 is divided among 1, 2, 4
(the baseline) or 8 heads, so that every arm has the same parameters and operations.

Hypothesis: one head is worst, since a single softmax must serve every purpose; beyond four, heads
become too narrow (12 numbers each) to gain anything more.

How to read it: each number of heads against four, and the attention maps: do heads look at
different things?

Time: four arms × 5 seeds take about twenty minutes on two cores; --quick about four minutes.
"""

from __future__ import annotations

from attnlab.studies.spec import Quick, Study


def study() -> Study:
    return Study(
        question="How many attention heads does a model of this width need?",
        hypothesis="One head is worst; more than four gain nothing at this width.",
        base="mini-gpt",
        arms={f"heads-{heads}": {"model.heads": heads} for heads in (1, 2, 4, 8)},
        baseline="heads-4",
        set={"training.evaluate_every": 100},
        quick=Quick(seeds=3, budget={"tokens": 100_000}, set={"training.evaluate_every": 40}),
    )
