"""Understanding: which model finds a text by its meaning, an encoder, a decoder, or the encoder of both?

Set-up: three small transformers of 2 layers, 128 wide, each pretrained once on the embedded Python
documentation (without the packages that are judged on later) for the same number of tokens, by the task of
its kind: an encoder fills in masked words, a decoder predicts the next one, an encoder-decoder restores texts
with holes, and its encoder alone goes on. Then each learns, for the same epochs on the same batches, to find
the rest of a docstring by its first paragraph (task similarity, other docstrings of the batch as negatives;
the mean of the tokens' vectors). They are compared by mean reciprocal rank among all dev docstrings, paired
by seed and by text.

Hypothesis: the two encoders, which see both sides of every word, are better than the decoder; which of the
two is better is open.

How to read it: differences are those of families with the pretraining that belongs to each, at equal tokens;
an encoder-decoder has twice the parameters while it is pretrained, and half of them are thrown away. `attnlab
evaluate RUN` compares each run with BM25, which needs no training. The pretraining is one run an arm, whose
own luck the intervals do not hold.

Time: three pretrainings and three arms × 5 seeds; --plan tells what that takes on your machine.
"""

from __future__ import annotations

from attnlab.config.values import Settings
from attnlab.data.corpora.embedded import PACKAGES
from attnlab.studies.spec import Quick, Study

LENGTH = 128
TOKENS, QUICK_TOKENS = 2_000_000, 60_000
MODEL: Settings = {
    "length": LENGTH,
    "width": 128,
    "layers": 2,
    "heads": 4,
    "positions": "rotary",
    "dropout": 0.1,
}
KINDS = {
    "encoder": ("encoder", "masked"),
    "decoder": ("decoder", "causal"),
    "encoder-decoder": ("encoder_decoder", "denoising"),
}
"""Each arm's family, and the task that it is pretrained by."""


def start(family: str, task: str) -> Settings:
    """A model of a family, pretrained."""
    return {
        "base": {
            "task": task,
            "data": {
                "corpus": {"kind": "python_docs", "leave_out": list(PACKAGES)},
                "tokenizer": {"kind": "bpe", "vocabulary": 4000},
                "batching": {"kind": "bucketed", "tokens": 2048},
                "length": LENGTH,
            },
            "model": MODEL | {"family": family},
            "training": {
                "optimizer": {"kind": "adamw", "learning_rate": 1e-3, "weight_decay": 0.01},
                "schedule": {"kind": "linear", "warmup": 0.1},
                "budget": {"tokens": TOKENS},
                "evaluate_every": 500,
            },
        },
        "quick": {"training.budget.tokens": QUICK_TOKENS},
    }


def study() -> Study:
    return Study(
        question="Which finds a text by its meaning: an encoder, a decoder, or an encoder-decoder's encoder?",
        hypothesis="The encoders, which see both sides of every word, are better than the decoder.",
        base={
            "task": "similarity",
            "data": {
                "corpus": "docstring_pairs",
                "encoding": "apart",
                "batching": {"kind": "padded", "batch_size": 32},
                "length": LENGTH,
                "dev_share": 0.2,
            },
            "training": {
                "optimizer": {"kind": "adamw", "learning_rate": 5e-4, "weight_decay": 0.01},
                "schedule": {"kind": "linear", "warmup": 0.1},
                "budget": {"epochs": 4.0},
                "evaluate_every": "epoch",
            },
        },
        starts={name: start(*kind) for name, kind in KINDS.items()},
        arms={name: {"start": f"study:{name}"} for name in KINDS},
        metric="reciprocal_rank",
        about=("settings",),  # a start decides the model's settings
        probes=(),
        sentence="",
        quick=Quick(budget={"tokens": QUICK_TOKENS}),
    )
