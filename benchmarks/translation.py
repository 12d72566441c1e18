"""Training a translator and writing with beams, beside transformers' MarianMT of the same shape."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from attnlab.config.files import config_of
from attnlab.data.batching import Padded
from attnlab.data.columns import Row
from attnlab.data.loader import Loader
from attnlab.data.rows import in_memory
from attnlab.generation.beam import Hypothesis, beam_searches
from attnlab.generation.packed_weights import by_columns
from attnlab.generation.target_writer import each_of
from attnlab.model.assemble import build_model
from attnlab.model.model import Model
from attnlab.tasks import TASKS
from attnlab.tasks.vocabulary import Vocabulary
from benchmarks.measure import interleaved, row
from benchmarks.training import Step, made, trained

WORDS, WIDTH, LAYERS, HEADS = 8000, 256, 3, 4
SENTENCES, TOGETHER, BEAMS, NEW = 128, 64, 4, 24
START, STOP, PAD = 1, 2, 0
MODEL = {
    "family": "encoder_decoder",
    "vocabulary": WORDS,
    "length": 128,
    "width": WIDTH,
    "layers": LAYERS,
    "heads": HEADS,
    "dropout": 0.1,
    "residual": "post",
}


def rows() -> list[dict[str, object]]:
    return [_training(), _translating()]


def _sentences() -> list[list[int]]:
    """Of random tokens, as long as sentences are, sorted by length as both sides get them."""
    generator = np.random.default_rng(0)
    lengths = np.sort(generator.integers(4, 33, SENTENCES))
    return [generator.integers(6, WORDS, length).tolist() for length in lengths]


def _marian() -> Any:
    import transformers

    return transformers.MarianMTModel(
        transformers.MarianConfig(
            vocab_size=WORDS,
            d_model=WIDTH,
            encoder_layers=LAYERS,
            decoder_layers=LAYERS,
            encoder_attention_heads=HEADS,
            decoder_attention_heads=HEADS,
            encoder_ffn_dim=4 * WIDTH,
            decoder_ffn_dim=4 * WIDTH,
            max_position_embeddings=128,
            activation_function="gelu",
            dropout=0.1,
            scale_embedding=True,
            pad_token_id=PAD,
            eos_token_id=STOP,
            decoder_start_token_id=START,
            forced_eos_token_id=None,
        )
    )


# ---------------------------------------------------------------- training
def _training() -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        works: dict[str, Step] = {"ours": _our_step(Path(folder)), "theirs": _their_step()}
        seconds = interleaved(works, rounds=9)
    ratio = seconds["theirs"] / seconds["ours"]
    tokens = 2 * sum(map(len, _batch()))
    detail = f"{tokens / seconds['ours']:.0f} and {tokens / seconds['theirs']:.0f} tokens/s"
    return row("training a translator over MarianMT's", ratio, "at least 1.5", ratio >= 1.5, detail)


def _batch() -> list[list[int]]:
    """One batch of sentences of all lengths below 33, each its own translation."""
    return _sentences()[::2]


def _our_step(folder: Path) -> Step:
    budget = {"budget": {"steps": 1_000_000}, "schedule": "constant"}
    config = config_of({"model": MODEL, "task": "seq2seq", "training": budget})
    sentences = _batch()
    held = [
        Row(ids, i, [1] * len(ids), target=[START, *ids, STOP], target_sizes=[1] * (len(ids) + 2))
        for i, ids in enumerate(sentences)
    ]
    task = TASKS.build(config.task, vocabulary=Vocabulary.draft(WORDS))
    batching = Padded(128, batch_size=len(held))
    loader = Loader(in_memory(held, vocabulary=WORDS), batching, seed=0, pad=PAD)
    loop = made(config, build_model(config.model), task, loader, folder)
    return loop.step


def _their_step() -> Step:
    model, sentences = _marian(), _batch()
    longest = max(map(len, sentences))
    source = torch.tensor([ids + [PAD] * (longest - len(ids)) for ids in sentences])
    target = torch.tensor([[*ids, STOP] + [-100] * (longest - len(ids)) for ids in sentences])
    return trained(model, lambda: model(source, attention_mask=source != PAD, labels=target).loss)


# ---------------------------------------------------------------- writing
def _translating() -> dict[str, object]:
    ours, theirs = build_model(config_of({"model": MODEL}).model).eval(), _marian().eval()
    by_columns(ours)  # as before every translation
    sentences = _sentences()
    works = {"ours": partial(_we_write, ours, sentences), "theirs": partial(_they_write, theirs, sentences)}
    seconds = interleaved(works, rounds=5, warmups=1)
    ratio = seconds["theirs"] / seconds["ours"]
    detail = f"{SENTENCES / seconds['ours']:.1f} and {SENTENCES / seconds['theirs']:.1f} sentences/s"
    work = f"translating, beam {BEAMS}, {NEW} new tokens, over MarianMT"
    return row(work, ratio, "at least 2", ratio >= 2, detail)


def _we_write(model: Model, sentences: Sequence[list[int]]) -> None:
    """As `attnlab translate` writes a file, in batches by the number of sentences and of tokens."""

    def write(batch: Sequence[list[int]]) -> list[list[Hypothesis]]:
        return beam_searches(model, [[START]] * len(batch), width=BEAMS, length=NEW, sources=batch)

    each_of(sentences, write, device=torch.device("cpu"))


def _they_write(model: Any, sentences: Sequence[list[int]]) -> None:
    for at in range(0, len(sentences), TOGETHER):
        batch = sentences[at : at + TOGETHER]
        longest = max(map(len, batch))
        source = torch.tensor([ids + [PAD] * (longest - len(ids)) for ids in batch])
        model.generate(
            source,
            attention_mask=source != PAD,
            num_beams=BEAMS,
            max_new_tokens=NEW,
            do_sample=False,
            eos_token_id=None,
        )
