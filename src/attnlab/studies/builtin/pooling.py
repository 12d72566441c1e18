"""Pooling: which vector of a text should a classifier read, the first, the mean of all or the last?

Set-up: docstrings of the standard library, labelled by the package that they are from (classifier-mini: nine
classes, a byte-pair vocabulary of 4,000, at most 512 tokens); small transformers of 2 layers, 128 wide, ten
epochs, once as an encoder, where every place sees the whole text, and once as a decoder, where a place sees
what stands before it. Each is compared with the mean of its own family, by accuracy, paired by seed and by
text.

Hypothesis: in the encoder the three are close, since every place can gather the whole text. In the decoder
the first place has seen nothing but the token that opens every text, so that it can only say the most
frequent class; the last has seen all of it.

How to read it: the accuracy of decoder-first should be the share of the most frequent class; the checks
majority and collapse then name it, which checks the set-up, and it is invalid. A difference between the
others is one of how easily a vector learns to gather a text in few steps from scratch; a pretrained model
has learned it before, and may answer otherwise.

Time: six arms × 5 seeds are 30 runs of about 490 steps; --quick took seven minutes on two busy cores, and
--plan tells what the whole takes on yours.
"""

from __future__ import annotations

from attnlab.studies.spec import Quick, Study

FAMILIES = {"encoder": "bidirectional", "decoder": "causal"}
POOLINGS = ("mean", "first", "last")


def study() -> Study:
    return Study(
        question="Which pooling classifies texts best, in an encoder and in a decoder?",
        hypothesis="In an encoder the three are close; in a decoder the first position has seen nothing.",
        base="classifier-mini",
        arms={
            f"{family}-{pooling}": {
                "model.family": family,
                "model.mask": mask,
                "model.output": f"classification(pooling={pooling})",
            }
            for family, mask in FAMILIES.items()
            for pooling in POOLINGS
        },
        against={f"decoder-{pooling}": "decoder-mean" for pooling in POOLINGS[1:]},
        metric="accuracy",
        allow={"decoder-first": ("inputs_matter", "overfit", "collapse", "majority")},
        probes=(),
        sentence="",
        quick=Quick(seeds=3, budget={"tokens": 100_000}, set={"training.evaluate_every": 30}),
    )
