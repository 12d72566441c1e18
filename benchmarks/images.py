"""Pictures: training of a small ViT against transformers', decoding from parquet, and attention in groups.

Both models read the same 32 × 32 pictures in patches of 4 (64 tokens and a class token) in batches of 64.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from attnlab.config.files import config_of, load
from attnlab.config.pictures import PictureGrid
from attnlab.data.batching import BATCHING
from attnlab.data.columns import Row
from attnlab.data.images.decoding import png_of
from attnlab.data.images.patches import patches_of
from attnlab.data.loader import Loader
from attnlab.data.rows import in_memory
from attnlab.model.assemble import build_model
from attnlab.model.tokens import Tokens
from attnlab.session.session import Session
from attnlab.targets import TARGETS
from attnlab.tasks import TASKS
from attnlab.tasks.vocabulary import Vocabulary
from benchmarks.measure import interleaved, row
from benchmarks.training import made, trained

SIZE, PATCH, BATCH, CLASSES = 32, 4, 64, 2
WIDTH, LAYERS, HEADS = 192, 6, 3
PICTURES = 10_000

Results = list[dict[str, object]]


def rows() -> Results:
    return [training(), decoding(), groups()]


def pictures(count: int) -> np.ndarray:
    """Random pixels (count, size, size, 3)."""
    return np.random.default_rng(0).integers(0, 256, (count, SIZE, SIZE, 3), dtype=np.uint8)


def training() -> dict[str, object]:
    """A step of both on the same pictures."""
    import transformers

    drawn, grid = pictures(BATCH), PictureGrid(SIZE, PATCH)
    length = grid.patches + 1
    model = {
        "family": "encoder",
        "inputs": [f"image(size={SIZE}, patch={PATCH})"],
        "vocabulary": 8,
        "length": length,
        "width": WIDTH,
        "layers": LAYERS,
        "heads": HEADS,
        "positions": "learned(patches=order)",
        "output": "classification(pooling=first)",
    }
    data = {"batching": {"kind": "padded", "batch_size": BATCH}, "length": length, "encoding": "image"}
    limits = {"budget": {"epochs": 1e6}, "evaluate_every": "never"}
    config = config_of({"model": model, "task": "classification", "data": data, "training": limits})
    patch = [0, *range(1, grid.patches + 1)]
    held = (
        Row([1] * length, n, [0] * length, label=n % CLASSES, patch=patch, pixels=patches_of(whole, PATCH))
        for n, whole in enumerate(drawn)
    )
    batching = BATCHING.build(config.data.batching, length=length)
    loader = Loader(in_memory(held, vocabulary=8), batching, seed=0, pad=0)
    task = TASKS.build(config.task, vocabulary=Vocabulary.draft(8), labels=TARGETS["class"].draft())
    settings = transformers.ViTConfig(
        image_size=SIZE,
        patch_size=PATCH,
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=4 * WIDTH,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        num_labels=CLASSES,
    )
    peer = transformers.ViTForImageClassification(settings)
    values = torch.from_numpy(drawn).permute(0, 3, 1, 2).float() / 127.5 - 1
    labels = torch.arange(BATCH) % CLASSES
    step = trained(peer, lambda: peer(pixel_values=values, labels=labels).loss)
    with tempfile.TemporaryDirectory() as folder:
        loop = made(config, build_model(config.model, labels=CLASSES), task, loader, Path(folder))
        seconds = interleaved({"ours": loop.step, "theirs": step}, rounds=9)
    ratio = seconds["theirs"] / seconds["ours"]
    detail = f"{BATCH / seconds['ours']:,.0f} pictures/s, transformers {BATCH / seconds['theirs']:,.0f}"
    return row("training a small ViT", ratio, "≥ 1.3 × transformers", ratio >= 1.3, detail)


def decoding() -> dict[str, object]:
    """PNG files of 32 × 32 in a parquet, read, divided, decoded and kept as rows of patches, as a training
    begins: on all cores."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    encoded, times = [png_of(one) for one in pictures(500)], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for split, count in (("train", PICTURES), ("dev", 200)):
            column = [{"bytes": encoded[n % 500], "path": f"{n}.png"} for n in range(count)]
            table = pa.table({"image": column, "label": [str(n % 2) for n in range(count)]})
            pq.write_table(table, folder / f"{split}.parquet")
        changes = {"data.corpus": name, "data.tokenizer": "patches", "data.test_share": 0.0}
        config = load("image-classifier-mini", set=changes)
        for number in range(5):
            begun = time.perf_counter()
            rows = Session(config, cache=folder / f"cache-{number}").dataset.rows("train")
            times.append(time.perf_counter() - begun)
    rate = len(rows) / statistics.median(times)
    detail = f"{rate:,.0f} pictures/s, n = {len(rows):,}"
    return row("pictures from parquet", rate / 10_000, "≥ 10,000/s", rate >= 10_000, detail)


def groups() -> dict[str, object]:
    """Attention within two modalities of n tokens each against all 2n: half the pairs."""
    from attnlab.model.attention import ATTENTION
    from attnlab.model.pairs import Pairs

    patches, heads, width = 1024, 4, 32
    q, k, v = (torch.randn(2, heads, 2 * patches, width) for _ in range(3))
    patch = torch.cat([torch.arange(1, patches + 1), torch.zeros(patches, dtype=torch.long)])[None]
    tokens = Tokens.of(2 * patches, patch=patch)
    given = {"heads": heads, "head_width": width, "length": 2 * patches, "patches": patches}
    given |= {"masking": "minus_inf", "dropout": 0.0}
    dot, own = (ATTENTION.build(name, **given).eval() for name in ("dot", "group(by=modality)"))
    with torch.no_grad():
        seconds = interleaved(
            {
                "all": lambda: dot(q, k, v, Pairs(tokens, tokens)),
                "own": lambda: own(q, k, v, Pairs(tokens, tokens)),
            }
        )
    ratio = seconds["all"] / seconds["own"]
    detail = f"{2 * patches} tokens: {1e3 * seconds['all']:.1f} ms, in 2 groups {1e3 * seconds['own']:.1f} ms"
    return row("attention by modality, n²/G", ratio, "≥ 1.6 of 2", ratio >= 1.6, detail)
