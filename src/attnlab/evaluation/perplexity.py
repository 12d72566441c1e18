"""Loss, perplexity and bits per byte of language models, computed the usual way and the honest way."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.generation.decoder import Decoder
from attnlab.model.losses import CHUNK
from attnlab.model.masks import asks_for_source
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
        """Nats a token."""
        return self.nats / self.tokens if self.tokens else math.nan

    @property
    def perplexity(self) -> float:
        """e^(nats a token), over the whole corpus: not the mean of its sentences' perplexities."""
        return math.exp(self.loss) if self.loss < 700 else math.inf

    @property
    def bits_per_byte(self) -> float:
        """Bits a byte of text: comparable between models with different tokenizers."""
        return self.nats / math.log(2) / self.bytes if self.bytes else math.nan

    def __add__(self, other: Score) -> Score:
        return Score(self.nats + other.nats, self.tokens + other.tokens, self.bytes + other.bytes)


@torch.inference_mode()
def token_losses(model: Model, ids: Tensor, tokens: Tokens | None = None, *, first: int = 0) -> Tensor:
    """Nats of each token after the first `first` + 1, ids (B,T) -> (B,T−1−first), all positions at once.

    The logits exist for a chunk of positions at a time, and not at all for those before `first`.
    """
    model.eval()
    hidden = model.trunk(ids, tokens)[:, first:-1]
    targets = ids[:, first + 1 :]
    rows = zip(hidden.flatten(0, 1).split(CHUNK), targets.flatten().split(CHUNK), strict=True)
    found = [F.cross_entropy(model.head(h, tokens), t, reduction="none") for h, t in rows]
    return (
        torch.cat(found).view(targets.shape)
        if found
        else targets.new_zeros(targets.shape, dtype=hidden.dtype)
    )


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
        held = [list(row) for row in same]
        for start in range(0, len(held), ROWS):
            yield torch.tensor(held[start : start + ROWS], device=device)


def incremental(model: Model, row: Sequence[int]) -> list[float]:
    """Nats of every token but the first, each scored from its prefix alone, with no future present."""
    return incremental_rows(model, [row])[0]


@torch.inference_mode()
def incremental_rows(model: Model, rows: Sequence[Sequence[int]]) -> list[list[float]]:
    """`incremental` for many rows side by side; a row leaves the batch where it ends."""
    model.eval()
    order = sorted(range(len(rows)), key=lambda row: -len(rows[row]))
    losses: list[list[float]] = [[] for _ in rows]
    decoder = Decoder(model, [rows[row][:1] for row in order])
    live = order
    for place in range(1, len(rows[order[0]])):
        live = [row for row in live if len(rows[row]) > place]  # the longest come first
        targets = torch.tensor([rows[row][place] for row in live], device=decoder.device)
        found = F.cross_entropy(decoder.next[: len(live)], targets, reduction="none")
        for row, loss in zip(live, found.tolist(), strict=True):
            losses[row].append(loss)
        going = sum(len(rows[row]) > place + 1 for row in live)
        if 0 < going < len(decoder.next):
            decoder.select(torch.arange(going, device=decoder.device))
        if going:
            decoder.step(targets[:going])
    return losses


@dataclass(frozen=True)
class Honesty:
    """The usual loss beside the incremental one, on the same tokens."""

    usual: Score
    alone: Score
    difference: float
    interval: tuple[float, float]
    rows: int

    @property
    def sound(self) -> bool:
        """Whether the two agree to what rounding allows: then nothing saw the future."""
        return abs(self.difference) < 1e-3

    @property
    def meaning(self) -> str:
        if self.sound:
            return f"On these {self.rows} rows the two agree to {abs(self.difference):.1g} nats a token"
        way = "low" if self.difference > 0 else "high"
        return (
            f"The usual loss is {abs(self.difference):.3f} nats a token too {way}: it sees what comes after, "
            "which is not there when text is written"
        )


def honesty(model: Model, rows: Sequence[Sequence[int]]) -> Honesty:
    """Parallel against incremental loss over some rows, with a 95 % interval over rows."""
    kept = [row for row in rows if len(row) > 1]
    if not kept:
        raise ValueError("Honest scoring needs rows of at least two tokens, and there are none.")
    kept.sort(key=len)
    usual = [
        nats
        for batch in _stacked(model, kept)
        for nats in token_losses(model, batch).double().sum(1).tolist()
    ]
    parts = (kept[start : start + ROWS] for start in range(0, len(kept), ROWS))
    alone = [math.fsum(losses) for part in parts for losses in incremental_rows(model, part)]
    counts = [len(row) - 1 for row in kept]
    total = sum(counts)
    gaps = torch.tensor(
        [(a - u) / n for a, u, n in zip(alone, usual, counts, strict=True)], dtype=torch.float64
    )
    mean = (math.fsum(alone) - math.fsum(usual)) / total
    spread = 1.96 * float(gaps.std()) / math.sqrt(len(kept)) if len(kept) > 1 else math.inf
    scores = (Score(math.fsum(usual), total), Score(math.fsum(alone), total))
    return Honesty(*scores, difference=mean, interval=(mean - spread, mean + spread), rows=len(kept))


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
        hidden = model.trunk(ids, tokens)[each, places]
        losses += F.cross_entropy(model.head(hidden, tokens), whole[places], reduction="none").tolist()
    return losses


@torch.inference_mode()
def answer_losses(model: Model, source: Sequence[int], target: Sequence[int]) -> list[float]:
    """Nats of every token of the target but the first, after the source that an encoder reads."""
    device = next(model.parameters()).device
    read, ids = torch.tensor([list(source)], device=device), torch.tensor([list(target)], device=device)
    tokens, source_tokens = (Tokens.of(x.shape[1], device=device) for x in (ids[:, :-1], read))
    hidden = model.eval().trunk(ids[:, :-1], tokens, source=read, source_tokens=source_tokens)
    found: list[float] = F.cross_entropy(model.head(hidden, tokens)[0], ids[0, 1:], reduction="none").tolist()
    return found


def seen_whole(model: Model, length: int) -> Tokens:
    """The tokens of one text under a masked model: a mask that asks for a source gets all of it as one."""
    device = next(model.parameters()).device
    asked = asks_for_source(model.trunk.main.mask)
    source = torch.ones(1, length, dtype=torch.bool, device=device) if asked else None
    return Tokens.of(length, source=source, device=device)
