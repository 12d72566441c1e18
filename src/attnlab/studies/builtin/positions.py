"""Positions: how should a model know where its tokens stand?

Set-up: the course's small decoder (mini-gpt: words, sentences cut at 100 tokens, about 1.4 million
parameters), one epoch of the embedded Python documentation. Every scheme is an arm: none, fixed
sinusoids (the baseline), a learned table, a part of the embedding set aside (concat), learned biases
by distance (relative) and by buckets of it (bucketed), biases that fall with distance (alibi), and
rotated queries and keys (rotary).

Hypothesis: schemes that tell distance (relative, bucketed, alibi, rotary) learn faster than those that
tell place, since what matters in text is how far apart two words stand. No positions at all is worst,
and not hopeless: a causal mask by itself lets a model count.

How to read it: each scheme against sinusoidal, corrected for seven comparisons.

Time: eight arms × 5 seeds take about an hour on two cores; --quick about eight minutes.
"""

from __future__ import annotations

from attnlab.studies.spec import Quick, Study

SCHEMES = ("sinusoidal", "none", "learned", "concat", "relative", "bucketed", "alibi", "rotary")


def study() -> Study:
    return Study(
        question="Which position scheme learns a language best?",
        hypothesis="Schemes that tell distance beat those that tell place; none at all is worst.",
        base="mini-gpt",
        arms={scheme: {"model.positions": scheme} for scheme in SCHEMES},
        baseline="sinusoidal",
        set={"training.evaluate_every": 100},
        quick=Quick(seeds=3, budget={"tokens": 100_000}, set={"training.evaluate_every": 40}),
    )
