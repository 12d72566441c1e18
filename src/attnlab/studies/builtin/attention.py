"""Attention: is the scaled dot product the best way to look, and what do the others cost?

Set-up: a small decoder (mini-gpt: words, sentences cut at 100 tokens, about 1.4 million
parameters), one epoch of the embedded Python documentation, the same batches in the same order for
every arm. The arms differ in the attention rule alone: scaled dot product; additive, a small network
on query and key; linear, without a softmax; group, which looks inside stretches of 10 tokens only;
argmax, which takes the one best key and so gets no gradient for where to look.

Hypothesis: on sentences this short, additive and linear come near the dot product; additive takes
several times as long. Group and argmax lose, since they do not see, or do not learn to choose.

How to read it: the differences against dot, with their intervals, and next to them seconds and
tokens per second. A lower loss that takes five times as long is not a better rule for the same time.

Time: five arms × 5 seeds take about an hour on two cores; --quick about six minutes.
"""

from __future__ import annotations

from attnlab.studies.spec import Quick, Study


def study() -> Study:
    return Study(
        question="Which attention rule models language best, and at what cost?",
        hypothesis="Additive and linear attention come near the dot product; group and argmax lose.",
        base="mini-gpt",
        arms={
            "dot": {"model.attention": "dot"},
            "additive": {"model.attention": "additive"},
            "linear": {"model.attention": "linear"},
            "group": {"model.attention": "group(groups=10)"},
            "argmax": {"model.attention": "argmax"},
        },
        about=("speed",),
        set={"training.evaluate_every": 100},
        quick=Quick(seeds=3, budget={"tokens": 60_000}, set={"training.evaluate_every": 40}),
    )
