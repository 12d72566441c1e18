"""Translation: an encoder with a decoder, or a decoder alone that reads the source as its own prefix?

Set-up: the same pairs of source and target for all, numbers in words to digits unless --set data.corpus names
your own. The encoder-decoder has 3 + 3 layers, the decoders have 6, with feed-forwards made wider until all
have the same number of parameters; batches hold as many tokens, and the budget is as many passes over the
pairs. One decoder reads the source from both sides (mask prefix), the other from the left alone (mask
causal). Targets of dev are written by a beam of 4 and compared by chrF, with exact matches and BLEU next to
it.

Hypothesis: at this size the encoder-decoder is better than a decoder alone, and a decoder that sees its
source from both sides better than one that sees it from the left.

How to read it: chrF is of written text, without the right beginning being given; the loss is of the right
text, token by token. Of numbers, which are one word each, BLEU says little and exact matches most. Losses
of the two tasks are not compared.

Time: three arms × 5 seeds of a few minutes each; --plan tells what that takes on your machine.
"""

from __future__ import annotations

from attnlab.config.values import Settings
from attnlab.studies.spec import Quick, Study

ALONE: Settings = {
    "task": "prefix",
    "data": {"encoding": "prefix"},
    "model": {"family": "decoder", "layers": 6},
}
"""A decoder on the same pairs, source and target in one row."""


def alone(mask: str) -> Settings:
    return ALONE | {"model": {**ALONE["model"], "mask": mask}}


def study() -> Study:
    return Study(
        question="Which translates better: an encoder with a decoder, or a decoder alone of the same size?",
        hypothesis="The encoder-decoder; and of decoders the one that sees its source from both sides.",
        base="translator-mini",
        set={"task": "seq2seq"},  # no label smoothing, which the task prefix does not have
        arms={
            "encoder-decoder": {},
            "decoder": alone("prefix"),
            "decoder-causal": alone("causal"),
        },
        match="parameters",
        metric="chrf",
        about=("settings",),
        probes=(),
        sentence="",
        quick=Quick(
            seeds=2,
            budget={"tokens": 400_000},
            set={"data.corpus": "number_words(examples=6000, digits=6)", "training.generate_examples": 100},
        ),
    )
