"""Masking: does it matter where the future is removed, before the softmax or after it?

Set-up: a small decoder (mini-gpt: words, sentences cut at 100 tokens, about 1.4 million
parameters), one epoch of the embedded Python documentation. One arm sets the scores of later tokens
to −inf before the softmax; the other sets their weights to zero after it.

Hypothesis: the zero arm reaches a far lower dev loss, and it is not real: the softmax's denominator
still depends on the words to come. Scored token by token, with later tokens removed, it is the worse
model, and when it writes, where no words are to come, it ends at once or goes astray.

How to read it: the zero arm ends *invalid*, whatever its loss. Look at parallel and token-by-token loss
side by side (equal for a sound model), at the probe sentences, and at the samples.

Time: two arms × 5 seeds take about ten minutes on two cores; --quick about two minutes.
"""

from __future__ import annotations

from attnlab.studies.spec import Quick, Study


def study() -> Study:
    return Study(
        question="Does it matter whether a causal mask is applied before the softmax or after it?",
        hypothesis="Zeros after the softmax leak the future: a lower loss that no generated text can reach.",
        base="mini-gpt",
        arms={"minus-inf": {"model.masking": "-inf"}, "zero": {"model.masking": "zero"}},
        allow={"zero": ("dependency",)},
        set={"training.evaluate_every": 100},
        quick=Quick(seeds=3, budget={"tokens": 100_000}, set={"training.evaluate_every": 40}),
    )
