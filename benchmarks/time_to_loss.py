"""Time to a loss: `modern-mini` until it is where nanoGPT's model and recipe end on WikiText-2.

The same tokenizer, the same lines of dev text and the same targets for both; only training is timed. With
NANOGPT (a folder with its model.py) and WIKITEXT2 (a folder with train.txt and valid.txt); without, not run.
Recipes are tuned on the first half of valid.txt and judged here on the second.
"""

from __future__ import annotations

import itertools
import math
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from attnlab.config.files import load
from attnlab.config.schema import Config
from attnlab.config.streams import stream_seed
from attnlab.evaluation.evaluator import judging
from attnlab.model.losses import IGNORE
from attnlab.session.session import Session
from attnlab.tasks.task import Prepared
from benchmarks.measure import nanogpt, row, wikitext
from benchmarks.training import loop_of
from tests.training.small_run import set_up

ROWS, LENGTH = 32, 128
NANO_STEPS = 293  # 1.2 million tokens
OUR_TOKENS = 205_000
JUDGED = 16  # batches of dev text


def rows() -> list[dict[str, object]]:
    module, text = nanogpt(), wikitext()
    if module is None or text is None:
        return []
    with tempfile.TemporaryDirectory() as name:
        setup = set_up(config_for(text, Path(name), half=1), cache=Path(name) / "cache")
        return [compared(module, setup, Path(name))]


def config_for(text: Path, folder: Path, *, half: int, **changes: Any) -> Config:
    """modern-mini on WikiText-2, judged on one half of its valid.txt."""
    lines = (text / "valid.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    middle = len(lines) // 2
    dev = folder / "dev.txt"
    dev.write_text("".join(lines[middle:] if half else lines[:middle]), encoding="utf-8")
    corpus = {"kind": "files", "path": str(text / "train.txt"), "dev": str(dev)}
    settings = {"data.corpus": corpus, "data.test_share": 0.0, "training.evaluate_every": "never"}
    budget = {"training.budget.epochs": "unlimited", "training.budget.tokens": OUR_TOKENS}
    return load("modern-mini", set=settings | budget | changes)


@dataclass(frozen=True)
class Point:
    """Where a training stands."""

    seconds: float
    tokens: int
    loss: float


def compared(module: Any, setup: Session, folder: Path) -> dict[str, object]:
    """Both trained in turn, a piece of each at a time, so that the machine's load hits both alike."""
    judge = judge_of(setup)
    pieces = itertools.zip_longest(nano_points(module, setup, judge), our_points(setup, judge, folder))
    theirs, ours = ([point for point in points if point] for points in zip(*pieces, strict=True))
    wanted = theirs[-1]
    reached = next((point for point in ours if point.loss <= wanted.loss), None)
    work = "time to nanoGPT's dev loss on WikiText-2, modern-mini against nanoGPT"
    if reached is None:
        return row(work, 0.0, TARGET, False, f"{wanted.loss:.3f} not reached: {ours[-1].loss:.3f}")
    ratio = wanted.seconds / reached.seconds
    detail = (
        f"loss {reached.loss:.3f} after {reached.tokens:,} tokens in {reached.seconds:.0f} s; "
        f"nanoGPT {wanted.loss:.3f} after {wanted.tokens:,} in {wanted.seconds:.0f} s"
    )
    return row(work, ratio, TARGET, ratio >= 3.5, detail)


TARGET = "at least 3.5 (stretch 5)"

Judge = Callable[[Callable[[Prepared], torch.Tensor]], float]
"""The mean loss over the dev text of a model that gives the sum over the targets of a batch."""


def judge_of(setup: Session) -> Judge:
    task = setup.task
    loader = setup.dataset.loader("dev", seed=stream_seed(0, "evaluation"))
    plan = loader.plan(0)
    held = [task.prepare(loader.load(plan, i), 0) for i in range(min(JUDGED, len(plan)))]
    count = sum(prepared.count for prepared in held)

    @torch.no_grad()
    def judge(loss_of: Callable[[Prepared], torch.Tensor]) -> float:
        return sum(float(loss_of(prepared)) for prepared in held) / count

    return judge


def our_points(setup: Session, judge: Judge, folder: Path) -> Iterator[Point]:
    """`attnlab train modern-mini`, looked at every twentieth of its budget from the middle on."""
    loop, look = loop_of(setup, folder), 0.5
    while look <= 1:
        loop.step()
        if min(loop.progress(loop.state), 1.0) >= look:
            with judging(setup.model):
                loss = judge(lambda prepared: setup.task.loss(setup.model, prepared).total)
            yield Point(loop.state.seconds, loop.state.tokens, loss)
            look = round(look + 0.05, 2)


def nano_points(module: Any, setup: Session, judge: Judge, *, warmup: int = 100) -> Iterator[Point]:
    """nanoGPT's model and its recipe for small models (config/train_shakespeare_char.py, as run on a CPU)."""
    torch.manual_seed(1337)
    vocabulary = setup.dataset.tokenizer.size
    sizes = {"n_layer": 4, "n_head": 4, "n_embd": 128, "block_size": LENGTH, "vocab_size": vocabulary}
    model = module.GPT(module.GPTConfig(**sizes, bias=False, dropout=0.0))
    optimizer = model.configure_optimizers(0.1, 1e-3, (0.9, 0.99), "cpu")
    parts = setup.dataset.rows("train").parts
    stream = torch.from_numpy(np.concatenate([part["ids"] for part in parts]).astype(np.int64))
    seconds = 0.0

    def loss_of(prepared: Prepared) -> torch.Tensor:
        targets = prepared.targets.masked_fill(prepared.targets == IGNORE, -1)
        return model(prepared.ids, targets)[1] * prepared.count

    for step in range(NANO_STEPS):
        began = time.perf_counter()
        places = torch.randint(len(stream) - LENGTH, (ROWS,))
        ids = torch.stack([stream[i : i + LENGTH] for i in places])
        targets = torch.stack([stream[i + 1 : i + 1 + LENGTH] for i in places])
        for group in optimizer.param_groups:
            group["lr"] = nano_rate(step, warmup)
        model(ids, targets)[1].backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds += time.perf_counter() - began
        if (step + 1) % (NANO_STEPS // 10) == 0 or step + 1 == NANO_STEPS:
            model.eval()
            yield Point(seconds, (step + 1) * ROWS * LENGTH, judge(loss_of))
            model.train()


def nano_rate(step: int, warmup: int, *, most: float = 1e-3, least: float = 1e-4) -> float:
    if step < warmup:
        return most * (step + 1) / (warmup + 1)
    share = (step - warmup) / (NANO_STEPS - warmup)
    return least + 0.5 * (1 + math.cos(math.pi * share)) * (most - least)
