"""Random configs with nothing wrong: every part, task, tokenizer, corpus, batching and length, by a seed.

Seeds from LABELLED on are about labels, numbers, tags, pairs of texts and answers; those below, about words.
"""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

from attnlab.checks.check import run_checks
from attnlab.config.files import config_of
from attnlab.config.schema import Config
from attnlab.config.values import ConfigError
from attnlab.model.attention import ATTENTION
from attnlab.model.combinations import examples
from attnlab.model.feedforward import FEEDFORWARDS
from attnlab.model.positions import POSITIONS
from attnlab.model.projections import PROJECTIONS
from attnlab.session.session import Session
from attnlab.tasks import TASKS
from tests.checks.cases import of, shared
from tests.training import small_run
from tests.training.small_run import set_up

TOKENIZERS = [
    "word(vocabulary=80, minimum_count=1)",
    "bpe(vocabulary=300)",
    "wordpiece(vocabulary=200)",
    "unigram(vocabulary=80)",
    "character",
]
PUZZLES = [
    "copy(examples=600, shortest=6)",
    "reverse(examples=600, shortest=6)",
    "sorting(examples=600, shortest=6)",
    "recall(examples=600)",
    "pairs(examples=600)",
    "induction(examples=600)",
    "modular_addition(modulus=29)",
]
MASKS = ["causal", "causal & window(size=4)", "bidirectional", "window(size=4)", "prefix"]
FAMILIES = {
    "causal": ["decoder"],
    "masked": ["encoder"],
    "span": ["encoder"],
    "prefix": ["decoder"],
    "unilm": ["encoder"],
    "seq2seq": ["encoder_decoder"],
    "denoising": ["encoder_decoder"],
}
TRUE = ("truncation", "answers", "giveaway", "unknown_words")
"""Lengths and vocabularies are drawn small on purpose, and the class of the labelled sentences is their verb:
that texts are cut, that words are unknown, and that a word decides the label, is no false alarm."""
UNSCALED = "dot(scale=1.0)"  # saturates by design, and is told so


def healthy(seed: int) -> Config:
    """The config of a seed: drawn again until its parts go together."""
    pick = random.Random(seed)
    while True:
        try:
            settings = drawn(pick) if seed < LABELLED else labelled(pick)
            config = config_of(settings | {"seed": seed})
            Session(config)
        except ConfigError:
            continue
        return config


LABELLED = 1000
LABELS = ["classification", "multilabel", "regression", "tagging", "similarity", "answering"]


def labelled(pick: random.Random) -> dict[str, Any]:
    """A task about examples: every pooling, batching and side of padding, texts in windows."""
    task, rows = pick.choice(LABELS), pick.choice([2, 4, 8])
    base = small_run.for_task(task, shared())
    length = pick.choice([32, 48])
    batching = [
        f"padded(batch_size={max(rows, 8) if task == 'similarity' else rows})",
        "bucketed(tokens=128)",
    ]
    data = base["data"] | {
        "tokenizer": pick.choice(TOKENIZERS[:4]),
        "batching": pick.choice(batching),
        "padding": pick.choice(["right", "left"]),
        "length": length,
        "dev_share": 0.1,
    }
    if task == "answering":
        overlap, length = pick.choice([(12, 36), (16, 40)])
        data |= {"encoding": f"question(overlap={overlap}, question_length=10)", "length": length}
    parts = model(pick, "causal")
    del parts["output"], parts["mask"]
    while parts["attention"].startswith(("window", "argmax")):  # one token must see all that decides its text
        parts["attention"] = model(pick, "causal")["attention"]
    family = pick.choice(["encoder", "decoder"]) if task in POOLED else "encoder"
    parts |= {"family": family, "length": 2 * length, "token_types": base["model"].get("token_types", 0)}
    if task in POOLED:  # the first token of a decoder sees nothing
        parts["output"] = {
            "kind": "classification",
            "pooling": pick.choice(["mean", "last"] if family == "decoder" else ["first", "mean", "last"]),
        }
    return {"task": task, "data": data, "model": parts}


POOLED = ("classification", "multilabel", "regression")


def drawn(pick: random.Random) -> dict[str, Any]:
    task = pick.choice(list(FAMILIES))
    encoding = pick.choice(TASKS[task].encodings)
    length = pick.choice([16, 24, 32, 48])
    rows = pick.choice([2, 4, 8])
    return {
        "task": task,
        "data": {
            "corpus": pick.choice(corpora(encoding)),
            "tokenizer": pick.choice(TOKENIZERS),
            "encoding": encoding,
            "batching": pick.choice(
                [f"packed(batch_size={rows})", f"padded(batch_size={rows})", "bucketed(tokens=128)"]
            ),
            "padding": pick.choice(["right", "left"]),
            "length": length,
            "dev_share": 0.1,
        },
        "model": model(pick, task)
        | {"length": length * pick.choice([1, 1, 2, 6])}
        | {"token_types": 2 if encoding == "pair" else 0},
    }


def corpora(encoding: str) -> list[Any]:
    """Where an encoding finds the fields that it needs."""
    if encoding in ("translation", "prefix"):
        return [*PUZZLES, str(small_run.pairs(shared()))]
    if encoding == "pair":
        return [str(questions())]
    return [{"kind": "files", "path": str(small_run.corpus(shared())), "unit": "line"}]


def questions() -> Path:
    """A question and a passage in each row."""
    file = shared() / "questions.csv"
    if not file.exists():
        asked = zip(small_run.sentences(400, seed=1), small_run.sentences(400, seed=2), strict=True)
        file.write_text("question,passage\n" + "".join(f"{a},{b}\n" for a, b in asked))
    return file


def model(pick: random.Random, task: str) -> dict[str, Any]:
    attention = [str(one) for one in examples(ATTENTION) if str(one) != UNSCALED]
    heads = pick.choice([1, 2, 4])
    return {
        "family": pick.choice(FAMILIES[task]),
        "width": pick.choice([16, 32]),
        "layers": pick.choice([1, 2, 3]),
        "heads": heads,
        "mask": pick.choice(MASKS),
        "attention": pick.choice(attention),
        "cross_attention": pick.choice(attention),
        "positions": pick.choice([str(one) for one in examples(POSITIONS)]),
        "projections": pick.choice([str(one) for one in examples(PROJECTIONS)]),
        "feedforward": pick.choice([str(one) for one in examples(FEEDFORWARDS)]),
        "norm": pick.choice(["layer", "rms"]),
        "residual": pick.choice(["pre", "post"]),
        "output": pick.choice(OUTPUTS["span" if task == "span" else "others"]),
        "bias": pick.random() < 0.5,
        "dropout": pick.choice([0.0, 0.1]),
        "attention_dropout": pick.choice([0.0, 0.0, 0.1]),
        "embedding_norm": pick.random() < 0.2,
    }


OUTPUTS = {
    "span": ["span_boundary", "language_model"],
    "others": [
        "language_model",
        "language_model(tied=false)",
        'language_model(bias=true, transform="dense")',
    ],
}


def alarms(seed: int) -> list[str]:
    """What the checks before training hold against the healthy config of a seed."""
    config = healthy(seed)
    findings = run_checks(of(set_up(config)))
    true = [one for one in findings if one.check in TRUE and one.outcome == "warn"]
    bad = [one for one in findings if one.outcome in ("warn", "fail") and one not in true]
    return [f"seed {seed}, {one.check}: {one.found}" for one in bad]


if __name__ == "__main__":  # as many as time allows: python -m tests.checks.healthy FIRST
    import sys
    import time

    for seed in itertools.count(int(sys.argv[1])):
        began = time.perf_counter()
        try:
            found = alarms(seed)
        except Exception as error:  # a crash is an alarm too
            found = [repr(error)]
        print(seed, f"{time.perf_counter() - began:.1f} s", found or "quiet", flush=True)
