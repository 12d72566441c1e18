"""Every task learns a small task: words that count upwards, so that a neighbour tells all."""

from typing import Any

import numpy as np
import pytest
import torch

import attnlab as lab
from attnlab.data.labels import Labels
from attnlab.targets import TARGETS
from attnlab.tasks import TASKS
from tests.tasks.examples import FIRST, SIZE, START, STOP, batch, vocabulary

WORDS = SIZE - FIRST
MODEL = {"vocabulary": SIZE, "width": 32, "layers": 2, "heads": 2, "length": 24, "positions": "rotary"}
PEAK = 1e-2
"""The largest learning rate."""
LEARNT = {
    # steps, and the part of a uniform guess's loss that must be left at the most. What cannot be
    # known (the first word, a word among masked ones at both ends) keeps each from 0.
    "causal": (lab.decoder, {}, 60, 0.35),
    "masked": (lab.encoder, {}, 125, 0.4),
    "span": (lab.encoder, {"output": "span_boundary"}, 125, 0.6),
    "prefix": (lab.decoder, {"mask": "prefix"}, 75, 0.4),
    "unilm": (lab.encoder, {"mask": "prefix"}, 130, 0.6),
    "seq2seq": (lab.encoder_decoder, {}, 90, 0.35),
    "denoising": (lab.encoder_decoder, {}, 90, 0.4),
    "classification": (lab.encoder, {"output": "classification(classes=3)"}, 75, 0.3),
    "multilabel": (lab.encoder, {"output": "classification(classes=4)"}, 125, 0.5),
    "similarity": (lab.encoder, {"output": "sentence"}, 75, 0.4),
    "tagging": (lab.encoder, {"output": "token_classification(classes=3)"}, 35, 0.3),
    "regression": (lab.decoder, {"output": "classification(classes=1, pooling=last)"}, 55, 0.3),
    "answering": (lab.encoder, {"output": "span"}, 55, 0.3),
}


def counting(rows: int, seed: int):
    generator = np.random.default_rng(seed)
    held = []
    for begin in generator.integers(WORDS, size=rows):
        words = FIRST + (begin + np.arange(int(generator.integers(8, 14)))) % WORDS
        held.append([START, *words.tolist(), STOP])
    return held


def data(name: str, seed: int):
    rows = counting(16, seed)
    if name == "similarity":  # a beginning, and what follows on it
        return batch(*(row[:6] for row in rows), target=[[START, *row[6:]] for row in rows])
    if name == "seq2seq":
        return batch(*rows, target=[[START, *reversed(row[1:-1]), STOP] for row in rows])
    if name == "answering":  # the first word that stands for a multiple of 8, and the one after it
        first = [next(place for place in range(1, len(row)) if (row[place] - FIRST) % 8 == 0) for row in rows]
        last = [min(place + 1, len(row) - 2) for place, row in zip(first, rows, strict=True)]
        places = [[-1, *range(len(row) - 2), -1] for row in rows]
        ends = [[place + 1 if place >= 0 else -1 for place in held] for held in places]
        return batch(*rows, start=first, end=last, char_start=places, char_end=ends)
    firsts = [row[1] - FIRST for row in rows]
    labels: dict[str, Any] = {
        "classification": {"label": [first % 3 for first in firsts]},
        "multilabel": {"labels": [[first // power % 2 for power in (1, 2, 4, 8)] for first in firsts]},
        "regression": {"number": [float(first) for first in firsts]},
        "tagging": {
            "words": [[-1, *range(len(row) - 2), -1] for row in rows],
            "tags": [[-100, *((word - FIRST) % 3 for word in row[1:-1]), -100] for row in rows],
        },
    }
    return batch(*rows, **labels.get(name, {}))


LABELS = {
    "classification": Labels("class", ("a", "b", "c"), (1, 1, 1), 3),
    "multilabel": Labels("classes", ("a", "b", "c", "d"), (1, 1, 1, 1), 4),
    "similarity": Labels("pair", examples=3),
    "tagging": Labels("tags", ("B-x", "I-x", "O"), (1, 1, 1), 3),
    "regression": Labels("number", mean=(WORDS - 1) / 2, deviation=WORDS / 12**0.5),
    "answering": TARGETS["answer"].draft(),
}


@pytest.mark.parametrize("name", TASKS)
def test_every_task_learns_a_small_task(name):
    family, changes, steps, left = LEARNT[name]
    model = family(**MODEL, **changes)
    task = TASKS.build(name, vocabulary=vocabulary(), labels=LABELS.get(name, Labels()))
    task.check(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK, betas=(0.9, 0.98), fused=True)
    uniform = task.blind_loss(task.prepare(data(name, 0), 0))
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = PEAK * min(1.0, (step + 1) / 20, (steps - step) / (steps / 2))
        loss = task.loss(model, task.prepare(data(name, step), step))
        mean = loss.parts.get("masked", loss.total) / loss.count
        if (
            step == 0 and not task.target.compares_batch
        ):  # cosines by a small temperature are far apart at once
            assert float(mean.detach()) == pytest.approx(uniform, rel=0.15 if task.predicts_words else 0.6)
        loss.mean.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        tests = [task.loss(model, task.prepare(data(name, 10_000 + i), i)) for i in range(4)]
    total = sum(float(test.parts.get("masked", test.total)) for test in tests)
    count = sum(int(test.count) for test in tests)
    assert total / count < left * uniform, total / count / uniform
    if name == "span":  # the boundary alone can tell, too
        boundary = sum(float(test.parts["boundary"]) for test in tests) / count
        assert boundary < left * uniform, boundary / uniform
