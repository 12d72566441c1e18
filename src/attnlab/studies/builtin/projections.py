"""Projections: do queries, keys and values need weights of their own?

Set-up: a small decoder (mini-gpt: words, sentences cut at 100 tokens, about 1.4 million
parameters), one epoch of the embedded Python documentation. Three arms: separate maps for queries,
keys and values; one map for queries and keys; one map for all three. Sharing leaves out weights: the
shared arms have 2.6 and 5.3% fewer parameters, which the table of arms shows.

Hypothesis: with shared queries and keys a token's score with itself is the largest it can have, so
that attention leans towards itself; the residual around it lets the model live with that, and the
loss rises little.

How to read it: the verdict of each shared arm against separate. An earlier experiment saw no
difference, with one seed and no interval: look at how small a difference this study could have seen.

Time: three arms × 5 seeds take about a quarter of an hour on two cores; --quick about three minutes.
"""

from __future__ import annotations

from attnlab.studies.spec import Quick, Study


def study() -> Study:
    return Study(
        question="Do queries, keys and values need projections of their own?",
        hypothesis="Sharing costs little: the residual carries what attention to oneself would lose.",
        base="mini-gpt",
        arms={
            "separate": {"model.projections": "separate"},
            "shared-qk": {"model.projections": "shared_qk"},
            "shared-qkv": {"model.projections": "shared_qkv"},
        },
        set={"training.evaluate_every": 100},
        quick=Quick(seeds=3, budget={"tokens": 100_000}, set={"training.evaluate_every": 40}),
    )
