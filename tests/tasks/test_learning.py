"""Every task learns a small task: words that count upwards, so that a neighbour tells all."""

import math

import numpy as np
import pytest
import torch

import attnlab as lab
from attnlab.tasks import TASKS
from tests.tasks.examples import FIRST, SIZE, START, STOP, batch, vocabulary

WORDS = SIZE - FIRST
MODEL = {"vocabulary": SIZE, "width": 32, "layers": 2, "heads": 2, "length": 24, "positions": "rotary"}
LEARNT = {
    # steps, and the part of a uniform guess's loss that must be left at the most. What cannot be
    # known (the first word, a word among masked ones at both ends) keeps each from 0.
    "causal": (lab.decoder, {}, 120, 0.35),
    "masked": (lab.encoder, {}, 250, 0.4),
    "span": (lab.encoder, {"output": "span_boundary"}, 250, 0.6),
    "prefix": (lab.decoder, {"mask": "prefix"}, 150, 0.4),
    "unilm": (lab.encoder, {"mask": "prefix"}, 300, 0.6),
    "seq2seq": (lab.encoder_decoder, {}, 250, 0.35),
    "denoising": (lab.encoder_decoder, {}, 250, 0.4),
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
    if name == "seq2seq":
        return batch(*rows, target=[[START, *reversed(row[1:-1]), STOP] for row in rows])
    return batch(*rows)


@pytest.mark.parametrize("name", TASKS)
def test_every_task_learns_a_small_task(name):
    family, changes, steps, left = LEARNT[name]
    model = family(**MODEL, **changes)
    task = TASKS.build(name, vocabulary=vocabulary())
    task.check(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, betas=(0.9, 0.98))
    uniform = math.log(SIZE)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 5e-3 * min(1.0, (step + 1) / 20, (steps - step) / (steps / 2))
        loss = task.loss(model, task.prepare(data(name, step), step))
        mean = loss.parts.get("masked", loss.total) / loss.count
        if step == 0:
            assert float(mean.detach()) == pytest.approx(uniform, rel=0.15)
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
