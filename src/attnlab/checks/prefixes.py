"""Each score from its prefix alone: what is written, beside what is scored."""

from __future__ import annotations

import torch

from attnlab.generation.decoder import Decoder
from attnlab.model.masks import asks_for_source, incremental
from attnlab.model.model import Model


@torch.no_grad()
def prefix_gap(model: Model, vocabulary: int, length: int) -> float | None:
    """The largest difference between parallel and cached scores, of the largest; None without a cache."""
    trunk = model.trunk
    writes = trunk.decoder is not None and incremental(trunk.main.mask)
    if not writes or asks_for_source(trunk.main.mask):  # a source is read at once: its length is its prefix
        return None
    model.eval()
    ids = torch.randint(vocabulary, (1, length), generator=torch.Generator().manual_seed(1))
    inputs = {} if trunk.encoder is None else {"source": ids.flip(1)}
    parallel = model(ids, **inputs)[0]
    decoder = Decoder(model, [ids[0, :1].tolist()], sources=None if not inputs else ids.flip(1).tolist())
    alone = [decoder.next[0]]
    for token in ids[0, 1:]:
        alone.append(decoder.step(token[None])[0])
    gap = (torch.stack(alone) - parallel).abs().max()
    return float(gap / parallel.abs().max().clamp(min=1e-30))
