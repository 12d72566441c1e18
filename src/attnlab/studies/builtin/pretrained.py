"""What the studies of adaptation share: labelled docstrings, and an encoder that is pretrained for them.

The encoder learns masked words of the embedded Python documentation, without the docstrings of the packages
that are the classes later: no text that it is judged on was seen before.
"""

from __future__ import annotations

from typing import Any

from attnlab.data.corpora.embedded import PACKAGES

LENGTH = 128
MODEL: dict[str, Any] = {
    "family": "encoder",
    "length": LENGTH,
    "width": 128,
    "layers": 2,
    "heads": 4,
    "positions": "rotary",
    "dropout": 0.1,
}
"""The encoder, pretrained or from scratch."""

START: dict[str, Any] = {
    "base": {
        "task": "masked",
        "data": {
            "corpus": {"kind": "python_docs", "leave_out": list(PACKAGES)},
            "tokenizer": {"kind": "bpe", "vocabulary": 4000},
            "batching": {"kind": "packed", "batch_size": 8},
            "length": LENGTH,
        },
        "model": MODEL,
        "training": {
            "optimizer": {"kind": "adamw", "learning_rate": 1e-3, "weight_decay": 0.01},
            "schedule": {"kind": "linear", "warmup": 0.1},
            "budget": {"epochs": 10.0},
            "evaluate_every": "epoch",
        },
    },
    "quick": {"training.budget.epochs": 2.0},
}
"""A study's own start: the encoder, pretrained."""

BASE: dict[str, Any] = {
    "task": "classification",
    "data": {
        "corpus": "docstrings",
        "batching": {"kind": "bucketed", "batch_size": 32, "tokens": 4096},
        "length": LENGTH,
        "dev_share": 0.15,
        "test_share": 0.15,
    },
    "training": {
        "optimizer": {"kind": "adamw", "learning_rate": 1e-3, "weight_decay": 0.01},
        "schedule": {"kind": "linear", "warmup": 0.1},
        "budget": {"epochs": 10.0},
        "evaluate_every": "epoch",
    },
}
"""Labelled docstrings: which of nine packages is a text from?"""
