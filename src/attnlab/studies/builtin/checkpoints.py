"""Checkpoints: which of two pretrained models is the better one to begin from?

Set-up: the same small encoder, pretrained on masked words of the embedded Python documentation for 1 epoch
(early) and for 10 (late), is fine-tuned on docstrings labelled by their package. Compared are accuracies on
the same dev texts, paired by seed and by text. For two models of your own: --set starts.early=FOLDER --set
starts.late=FOLDER, each a run, a checkpoint or a folder in transformers' layout; their sizes and tokenizers
may differ, and the report says so. For texts of your own: --set data.corpus=reviews.csv --set
data.corpus.text=review --set data.corpus.label=stars.

Hypothesis: the longer pretraining gives the better start, though by far less than its loss on masked words
says.

How to read it: the difference in accuracy with its interval, and the curves by epoch: a better start is
ahead after the first epoch already. The loss of each pretraining is in the table of starts.

Time: two pretrainings and two arms × 5 seeds; --plan tells what that takes on your machine.
"""

from __future__ import annotations

from attnlab.studies.builtin.pretrained import BASE, START
from attnlab.studies.spec import Quick, Study

EARLY = START | {"set": {"training.budget.epochs": 1.0}, "quick": {"training.budget.epochs": 0.5}}


def study() -> Study:
    return Study(
        question="Which of two pretrained models is the better start?",
        hypothesis="The longer pretraining gives the better start.",
        base=BASE,
        starts={"early": EARLY, "late": START},
        arms={name: {"start": f"study:{name}"} for name in ("early", "late")},
        metric="accuracy",
        collapse="result",
        probes=(),
        sentence="",
        quick=Quick(seeds=3, budget={"tokens": 190_000}),
    )
