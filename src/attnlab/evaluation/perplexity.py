"""Loss, perplexity and bits per byte of language models, computed the usual way and the honest way."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.generation.decoder import Decoder
from attnlab.model.losses import CHUNK
from attnlab.model.model import Model
from attnlab.model.tokens import Tokens


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


@torch.no_grad()
def token_losses(model: Model, ids: Tensor, tokens: Tokens | None = None) -> Tensor:
    """Nats of each next token, ids (B,T) -> (B,T−1), all positions at once, a chunk of logits at a time."""
    model.eval()
    hidden = model.trunk(ids, tokens)[:, :-1]
    targets = ids[:, 1:]
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
    losses: list[float] = []
    start = 0
    while len(losses) < len(ids) - 1:
        window = torch.tensor([list(ids[start : start + context])], device=next(model.parameters()).device)
        found = token_losses(model, window)[0].tolist()
        losses += found[len(losses) - start :]
        start += stride
    return losses


@torch.no_grad()
def incremental(model: Model, row: Sequence[int]) -> list[float]:
    """Nats of every token but the first, each scored from its prefix alone, with no future present."""
    model.eval()
    decoder = Decoder(model, [list(row[:1])])
    losses = []
    for token in row[1:]:
        target = torch.tensor([token], device=decoder.next.device)
        losses.append(float(F.cross_entropy(decoder.next, target)))
        if len(losses) < len(row) - 1:
            decoder.step(target)
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
            return "equal: each token is scored from its past alone"
        return (
            f"the usual loss is {self.difference:.3f} nats a token too low: it sees what comes after, "
            "which is not there when text is written"
        )


def honesty(model: Model, rows: Sequence[Sequence[int]]) -> Honesty:
    """Parallel against incremental loss over some rows, with a 95 % interval over rows."""
    kept = [row for row in rows if len(row) > 1]
    if not kept:
        raise ValueError("Honest scoring needs rows of at least two tokens, and there are none.")
    device = next(model.parameters()).device
    usual = [
        token_losses(model, torch.tensor([list(row)], device=device))[0].double().sum().item() for row in kept
    ]
    alone = [math.fsum(incremental(model, row)) for row in kept]
    counts = [len(row) - 1 for row in kept]
    total = sum(counts)
    gaps = torch.tensor(
        [(a - u) / n for a, u, n in zip(alone, usual, counts, strict=True)], dtype=torch.float64
    )
    mean = (math.fsum(alone) - math.fsum(usual)) / total
    spread = 1.96 * float(gaps.std()) / math.sqrt(len(kept)) if len(kept) > 1 else math.inf
    scores = (Score(math.fsum(usual), total), Score(math.fsum(alone), total))
    return Honesty(*scores, difference=mean, interval=(mean - spread, mean + spread), rows=len(kept))


@torch.no_grad()
def pseudo_losses(model: Model, row: Sequence[int], *, mask: int, batch: int = 32) -> list[float]:
    """For masked models: nats of each token with that token alone masked. Not a probability of the text."""
    model.eval()
    device = next(model.parameters()).device
    whole = torch.tensor(list(row), device=device)
    losses: list[float] = []
    for places in torch.arange(len(row), device=device).split(batch):
        ids = whole.repeat(len(places), 1)
        each = torch.arange(len(places), device=device)
        ids[each, places] = mask
        tokens = Tokens.of(len(row), device=device)
        hidden = model.trunk(ids, tokens)[each, places]
        losses += F.cross_entropy(model.head(hidden, tokens), whole[places], reduction="none").tolist()
    return losses
