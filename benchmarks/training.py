"""Pretraining, side by side with transformers on the same work, in interleaved rounds.

Only ratios taken in one run count: absolute rates swing with the machine's load. With NANOGPT set to a
folder that holds nanoGPT's model.py, it is measured too.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from attnlab.config.files import config_of
from attnlab.config.schema import Config
from attnlab.data.batching import Padded
from attnlab.data.columns import Row
from attnlab.data.loader import Loader
from attnlab.data.rows import in_memory
from attnlab.model.assemble import build_model
from attnlab.model.model import Model
from attnlab.runs.checkpoints import Checkpoints
from attnlab.runs.metrics_file import MetricsFile
from attnlab.session.session import Session
from attnlab.session.training import in_order
from attnlab.tasks import TASKS
from attnlab.tasks.task import Task
from attnlab.tasks.vocabulary import Vocabulary
from attnlab.training.failure import Failure
from attnlab.training.loop import Loop
from attnlab.training.machine import autocast_of
from attnlab.training.optimizers import OPTIMIZERS, Optimizers
from attnlab.training.schedules import SCHEDULES
from benchmarks.measure import high_water, interleaved, nanogpt, row

Step = Callable[[], object]

SMALL = {"vocabulary": 10_000, "width": 128, "layers": 4, "heads": 4, "length": 128, "positions": "learned"}
MEDIUM = {"vocabulary": 50_257, "width": 384, "layers": 6, "heads": 6, "length": 256, "positions": "learned"}
BERT = {
    "family": "encoder",
    "vocabulary": 30_522,
    "width": 256,
    "layers": 4,
    "heads": 4,
    "length": 128,
    "positions": "learned",
    "residual": "post",
    "embedding_norm": True,
    "token_types": 2,
    "output": {"kind": "language_model", "bias": True, "transform": "dense"},
}
WORK = {"small": (SMALL, 32), "medium": (MEDIUM, 8), "masked": (BERT, 16)}


def config_for(name: str) -> Config:
    model, _ = WORK[name]
    budget = {"budget": {"steps": 1_000_000}, "schedule": "constant"}
    return config_of({"model": model, "task": "masked" if name == "masked" else "causal", "training": budget})


def loop(name: str, folder: Path) -> Loop:
    """Our own loop on random tokens: all that a step of `attnlab train` does."""
    config, (sizes, rows) = config_for(name), WORK[name]
    vocabulary, length = sizes["vocabulary"], sizes["length"]
    generator = np.random.default_rng(0)
    held = [Row(generator.integers(6, vocabulary, length).tolist(), i, [1] * length) for i in range(8 * rows)]
    task = TASKS.build(config.task, vocabulary=Vocabulary.draft(vocabulary))
    loader = Loader(in_memory(held, vocabulary=vocabulary), Padded(length, batch_size=rows), seed=0, pad=0)
    return made(config, build_model(config.model), task, loader, folder)


def loop_of(setup: Session, folder: Path) -> Loop:
    """The loop of a run on its own text."""
    return made(setup.config, setup.model, setup.task, in_order(setup), folder)


def made(config: Config, model: Model, task: Task, loader: Loader, folder: Path) -> Loop:
    settings, device, checkpoints = config.training, torch.device("cpu"), Checkpoints(folder / "checkpoints")
    model.train()
    return Loop(
        model=model,
        task=task,
        loader=loader,
        evaluate=None,
        optimizer=Optimizers(OPTIMIZERS.build(settings.optimizer), model),
        schedule=SCHEDULES.build(settings.schedule),
        settings=settings,
        checkpoints=checkpoints,
        failure=Failure(folder, checkpoints),
        seed=config.seed,
        autocast=autocast_of(settings.precision, device),
        device=device,
    )


def trained(model: torch.nn.Module, loss_of: Callable[[], torch.Tensor]) -> Step:
    """A peer's step: forward, backward, clipping and a fused AdamW, as ours has them."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, betas=(0.9, 0.95), fused=True)
    model.train()

    def step() -> None:
        loss_of().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def transformers_step(name: str) -> Step:
    import transformers

    sizes, rows = WORK[name]
    ids = torch.randint(6, sizes["vocabulary"], (rows, sizes["length"]))
    if name == "masked":
        settings = transformers.BertConfig(
            vocab_size=sizes["vocabulary"],
            hidden_size=sizes["width"],
            num_hidden_layers=sizes["layers"],
            num_attention_heads=sizes["heads"],
            intermediate_size=4 * sizes["width"],
            max_position_embeddings=sizes["length"],
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
        model: Any = transformers.BertForMaskedLM(settings)
        labels = torch.where(torch.rand(ids.shape) < 0.15, ids, -100)
    else:
        settings = transformers.GPT2Config(
            vocab_size=sizes["vocabulary"],
            n_embd=sizes["width"],
            n_layer=sizes["layers"],
            n_head=sizes["heads"],
            n_positions=sizes["length"],
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            use_cache=False,
        )
        model, labels = transformers.GPT2LMHeadModel(settings), ids
    return trained(model, lambda: model(input_ids=ids, labels=labels).loss)


def nanogpt_step(name: str) -> Step | None:
    module = nanogpt()
    if module is None or name == "masked":
        return None
    sizes, rows = WORK[name]
    settings = module.GPTConfig(
        block_size=sizes["length"],
        vocab_size=sizes["vocabulary"],
        n_layer=sizes["layers"],
        n_head=sizes["heads"],
        n_embd=sizes["width"],
        dropout=0.0,
    )
    model = module.GPT(settings)
    ids = torch.randint(6, sizes["vocabulary"], (rows, sizes["length"]))
    targets = torch.roll(ids, -1, 1)
    return trained(model, lambda: model(ids, targets)[1])


def bare_products(name: str) -> Step:
    """The matrix products that a step cannot do without, one after the other, and nothing else."""
    sizes, rows = WORK[name]
    tokens, width = rows * sizes["length"], sizes["width"]
    shapes = [(width, 3 * width), (width, width), (width, 4 * width), (4 * width, width)] * sizes["layers"]
    made: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = {}
    for shape in {*shapes, (width, sizes["vocabulary"])}:
        made[shape] = torch.randn(min(tokens, CHUNK), shape[0]), torch.randn(shape)

    @torch.no_grad()
    def step() -> None:
        for shape in [*shapes, (width, sizes["vocabulary"])]:
            given, weight = made[shape]
            for _ in range(0, tokens, CHUNK):  # in pieces that stay near the processor
                found = given @ weight
                _ = found @ weight.T, given.T @ found  # the gradients of what was given, and of the weight

    return step


CHUNK = 512
TARGETS = {
    # against transformers: what the targets against nanoGPT come to, by the rates of both in one run
    ("small", "transformers"): 2.1,
    ("medium", "transformers"): 2.7,
    ("masked", "transformers"): 3.0,
    ("small", "nanoGPT"): 1.7,
    ("medium", "nanoGPT"): 1.75,
}
NAMES = {"small": "pretrain small", "medium": "pretrain medium", "masked": "masked LM"}


def speed(name: str, *, rounds: int) -> list[dict[str, object]]:
    works: dict[str, Callable[[], object]] = {"transformers": transformers_step(name)}
    nano = nanogpt_step(name)
    if nano is not None:
        works["nanoGPT"] = nano
    tokens = WORK[name][1] * WORK[name][0]["length"]
    with tempfile.TemporaryDirectory() as folder:
        works |= {"ours": loop(name, Path(folder)).step, "products": bare_products(name)}
        seconds = interleaved(works, rounds=rounds, warmups=1)
    own, floor = seconds.pop("ours"), seconds.pop("products")
    found = []
    if name != "masked":  # whose head does not see every token
        detail = f"a step {own:.2f} s, its matrix products alone {floor:.2f} s"
        work = f"{NAMES[name]}, a step over its matrix products alone"
        found.append(row(work, own / floor, "–", True, detail))
    for peer, taken in seconds.items():
        target, ratio = TARGETS[name, peer], taken / own
        detail = f"{tokens / own:,.0f} tokens/s, {peer} {tokens / taken:,.0f}"
        work = f"{NAMES[name]}, against {peer}"
        found.append(row(work, ratio, f"at least {target}", ratio >= target, detail))
    return found


def memory() -> list[dict[str, object]]:
    """Peak memory of the medium work, each in a process of its own, less what it took before the model."""
    found = {}
    for who in ("ours", "transformers"):
        command = [sys.executable, "-m", "benchmarks.training", "--peak", who]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        found[who] = int(said.split()[-1]) / 1024
    ratio = found["ours"] / found["transformers"]
    detail = f"{found['ours']:,.0f} MiB, transformers {found['transformers']:,.0f}"
    return [row("pretrain medium, peak memory of transformers'", ratio, "at most 0.5", ratio <= 0.5, detail)]


def peak(who: str) -> int:
    """Kilobytes that two steps add to this process at the most."""
    import transformers  # noqa: F401 - loaded by both, so that it counts for neither

    before = high_water()
    with tempfile.TemporaryDirectory() as folder:
        step = loop("medium", Path(folder)).step if who == "ours" else transformers_step("medium")
        step()
        step()
    return high_water() - before


def checkpointing() -> list[dict[str, object]]:
    """Saving every so often by the default, and metrics at every step, as a share of the time to train."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = loop("small", folder)
        with MetricsFile(folder / "metrics.jsonl") as metrics:
            event = made.step()
            works = {"step": made.step, "tell": lambda: metrics(event)}
            seconds = interleaved(works, rounds=5, warmups=1)
        saves = []
        for _ in range(5):
            began = time.perf_counter()
            made.save()
            saves.append(time.perf_counter() - began)
            made.step()
    save, every = statistics.median(saves), made.settings.checkpoint_every
    share = 100 * (save / every + seconds["tell"]) / seconds["step"]
    detail = f"{1000 * save:.0f} ms every {every} steps of {1000 * seconds['step']:.0f} ms"
    return [row("checkpointing and metrics, % of training", share, "at most 2", share <= 2, detail)]


def rows() -> list[dict[str, object]]:
    """Every row of this module, measured now."""
    found = [*speed("small", rounds=15), *speed("medium", rounds=5), *memory(), *speed("masked", rounds=5)]
    return [*found, *checkpointing()]


if __name__ == "__main__":
    print(peak(sys.argv[-1]) if "--peak" in sys.argv else rows())
