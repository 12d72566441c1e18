"""Loss, perplexity and bits per byte of texts under a language model."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.metrics.words import BitsPerByte, Loss, Perplexity
from attnlab.model.heads.head import Head
from attnlab.model.losses import CHUNK
from attnlab.model.model import Model
from attnlab.model.tokens import Tokens

ROWS = 32
"""Rows that are scored side by side."""


@dataclass(frozen=True)
class Score:
    """A sum of nats over tokens, and the bytes of text that these tokens stand for."""

    nats: float
    tokens: int
    bytes: int = 0

    @property
    def loss(self) -> float:
        """Nats per token."""
        return float(Loss().of(np.array([self.nats, self.tokens])))

    @property
    def perplexity(self) -> float:
        """e^(nats per token), over the whole corpus: not the mean of its sentences' perplexities."""
        return float(Perplexity().of(np.array([self.nats, self.tokens])))

    @property
    def bits_per_byte(self) -> float:
        """Bits a byte of text: comparable between models with different tokenizers."""
        return float(BitsPerByte().of(np.array([self.nats, self.bytes])))

    def __add__(self, other: Score) -> Score:
        return Score(self.nats + other.nats, self.tokens + other.tokens, self.bytes + other.bytes)


@torch.inference_mode()
def token_losses(model: Model, ids: Tensor, tokens: Tokens | None = None, *, first: int = 0) -> Tensor:
    """Nats of each token after the first `first` + 1, ids (B,T) -> (B,T−1−first), all positions at once.

    The logits exist for a chunk of positions at a time, and not at all for those before `first`.
    """
    targets = ids[:, first + 1 :]

    def losses(head: Head, hidden: Tensor, tokens: Tokens, *, training: bool) -> Tensor:
        rows = zip(hidden.flatten(0, 1).split(CHUNK), targets.flatten().split(CHUNK), strict=True)
        chunks = [F.cross_entropy(head(h, tokens), t, reduction="none") for h, t in rows]
        return torch.cat(chunks).view(targets.shape) if chunks else hidden.new_zeros(targets.shape)

    scored = slice(None), slice(first, -1)
    nats: Tensor = model.eval()(ids, tokens, places=scored, objective=losses)
    return nats


def strided(model: Model, ids: Sequence[int], *, context: int, stride: int | None = None) -> list[float]:
    """Nats of every token but the first, each counted once, in windows that overlap.

    A window holds `context` tokens and moves by `stride` (half of it by default); only tokens that
    no earlier window scored count, so that each has at least context − stride tokens before it.
    """
    stride = stride or max(context // 2, 1)
    if not 0 < stride < context:
        raise ValueError(f"stride {stride} must be at least 1 and below the context of {context} tokens.")
    windows = [ids[at : at + context] for at in range(stride, len(ids) - context + stride, stride)]
    losses: list[float] = []
    for batch in _stacked(model, [ids[:context]]):
        losses += token_losses(model, batch).flatten().tolist()
    for batch in _stacked(model, windows):
        losses += token_losses(model, batch, first=context - stride - 1).flatten().tolist()
    return losses


def _stacked(model: Model, rows: Sequence[Sequence[int]]) -> Iterator[Tensor]:
    """Rows as batches of one length each, in their order."""
    device = next(model.parameters()).device
    for _, same in itertools.groupby(rows, key=len):
        equal_rows = [list(row) for row in same]
        for start in range(0, len(equal_rows), ROWS):
            yield torch.tensor(equal_rows[start : start + ROWS], device=device)


@torch.inference_mode()
def pseudo_losses(
    model: Model, row: Sequence[int], *, mask: int, but: Collection[int] = (), batch: int = ROWS
) -> list[float]:
    """For masked models: nats of each token but some, that token alone masked. No probability of the text."""
    model.eval()
    device = next(model.parameters()).device
    whole = torch.tensor(list(row), device=device)
    scored = torch.tensor(
        [i for i, token in enumerate(row) if token not in but], device=device, dtype=torch.long
    )
    tokens = seen_whole(model, len(row))
    losses: list[float] = []
    for places in scored.split(batch):
        ids = whole.repeat(len(places), 1)
        each = torch.arange(len(places), device=device)
        ids[each, places] = mask
        scores = model(ids, tokens, places=(each, places))
        losses += F.cross_entropy(scores, whole[places], reduction="none").tolist()
    return losses


@torch.inference_mode()
def answer_losses(model: Model, source: Sequence[int], target: Sequence[int]) -> list[float]:
    """Nats of every token of the target but the first, after the source that an encoder reads."""
    device = next(model.parameters()).device
    read, ids = torch.tensor([list(source)], device=device), torch.tensor([list(target)], device=device)
    tokens, source_tokens = (Tokens.of(x.shape[1], device=device) for x in (ids[:, :-1], read))
    scores = model.eval()(ids[:, :-1], tokens, source=read, source_tokens=source_tokens)[0]
    losses: list[float] = F.cross_entropy(scores, ids[0, 1:], reduction="none").tolist()
    return losses


def seen_whole(model: Model, length: int) -> Tokens:
    """The tokens of one text under a masked model: a mask that asks for a source gets all of it as one."""
    device = next(model.parameters()).device
    asked = model.trunk.asks_for_source
    source = torch.ones(1, length, dtype=torch.bool, device=device) if asked else None
    return Tokens.of(length, source=source, device=device)
