"""The scores of the first layer, taken apart: word·word, word·position, position·word, position·position.

The input of the first layer is a sum of a word's part and a position's (added, or side by side). A norm whose
statistics are held is an affine map, and so are the projections: each query and key is a sum of three, from
the word, from the position, and a constant (shifts and biases). Their products add up to the scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab.config.values import ConfigError
from attnlab.model.attention.argmax import Argmax
from attnlab.model.attention.dot import Dot
from attnlab.model.attention.rule import spread
from attnlab.model.blocks import Block, PreNorm, Residual, SelfAttention
from attnlab.model.isolation import undisturbed
from attnlab.model.model import Model
from attnlab.model.norms import LayerNorm, RMSNorm
from attnlab.model.positions.absolute import Concat, Learned, Sinusoidal
from attnlab.model.projections import Projections, SharedQK, SharedQKV
from attnlab.model.stack import Embedding, Stack
from attnlab.model.tokens import Tokens
from attnlab.model.trunks.transformer import transformer_of

PARTS = ("word·word", "word·position", "position·word", "position·position", "with a bias")
CROSS = ("word·position", "position·word")


@dataclass(frozen=True)
class ScoreParts:
    """Each part of the scores (H,T,T), and the scores as the rule itself forms them."""

    parts: Mapping[str, Tensor]
    scores: Tensor
    concatenated: bool
    """Whether positions stand beside the words; else they are added."""

    @property
    def error(self) -> float:
        """How far the parts' sum is from the scores."""
        return float((sum(self.parts.values()) - self.scores).abs().max())


def score_parts(model: Model, ids: Tensor, *, block_diagonal: bool = False) -> ScoreParts:
    """Of the first layer on one row, ids (T). Of an encoder-decoder, of its encoder.

    `block_diagonal` sets to 0 what the projections mix of word and position: of each head's numbers the first
    are then read from the word's part of the width alone, the others from the position's.
    """
    stack = next(iter(transformer_of(model.trunk).stacks().values()))
    with undisturbed(model):
        return _parts(stack, ids, block_diagonal)


def _parts(stack: Stack, ids: Tensor, block_diagonal: bool) -> ScoreParts:
    residual, layer = _first_layer(stack)
    rule, projections = layer.rule, layer.projections
    if not isinstance(rule, (Dot, Argmax)) or (isinstance(rule, Dot) and rule.softcap):
        raise ConfigError(
            f"The scores of {type(rule).__name__.lower()} attention are no product of query and key, so they "
            "have no such parts; use dot or argmax, without a softcap."
        )
    scale = rule.scale if isinstance(rule, Dot) else 1.0
    parts = embedded_parts(stack.embedding, ids[None])
    norm = residual.norm if isinstance(residual, PreNorm) else nn.Identity()
    parts = held(norm, parts)
    words = parts[0].shape[-1] - stack.positions.narrows if block_diagonal else 0
    q, k = _projected(projections, parts, words)
    products = [[scale * (a @ b.transpose(-1, -2))[0] for b in k] for a in q]
    named = {
        "word·word": products[0][0],
        "word·position": products[0][1],
        "position·word": products[1][0],
        "position·position": products[1][1],
        "with a bias": sum(products[2], products[0][2] + products[1][2]),
    }
    whole = [sum(side[1:], side[0]) for side in (q, k)]
    return ScoreParts(named, rule.scores(whole[0], whole[1])[0], stack.positions.narrows > 0)


def _first_layer(stack: Stack) -> tuple[Residual, SelfAttention]:
    block = stack.blocks[0]
    assert isinstance(block, Block)
    residual = block.residuals[0]
    assert isinstance(residual, Residual) and isinstance(residual.inner, SelfAttention)
    return residual, residual.inner


def embedded_parts(embedding: Embedding, ids: Tensor) -> list[Tensor]:
    """What enters the first layer (1,T,D): a word's part (token types with it), a position's, a constant."""
    positions = embedding.positions
    if not isinstance(positions, (Sinusoidal, Learned, Concat)):
        raise ConfigError(
            f"{type(positions).__name__} positions are not in the embedding, so the scores have no "
            "position's part; use sinusoidal, learned or concat."
        )
    words = embedding.tokens(ids)
    if embedding.types is not None:
        words = words + embedding.types(torch.zeros_like(ids))
    words = words * embedding.scale
    tokens = Tokens.of(ids.shape[1], device=ids.device)
    placed = positions(words, tokens)
    room = positions.narrows
    word = F.pad(words, (0, room)) if room else words
    return held(embedding.norm, [word, placed - word, torch.zeros_like(placed)])


def held(norm: nn.Module, parts: Sequence[Tensor]) -> list[Tensor]:
    """A norm of a sum, part by part, with the statistics of the whole; the last part is the constant one."""
    whole = sum(parts[1:], parts[0])
    if isinstance(norm, nn.Identity):
        return list(parts)
    if isinstance(norm, LayerNorm):
        size = (whole.var(-1, unbiased=False, keepdim=True) + norm.eps).sqrt()
        *made, constant = (norm.weight * part / size for part in parts)
        constant = constant - norm.weight * whole.mean(-1, keepdim=True) / size
        return [*made, constant if norm.bias is None else constant + norm.bias]
    if isinstance(norm, RMSNorm):
        size = (whole.square().mean(-1, keepdim=True) + norm.epsilon).sqrt()
        return [norm.weight * part / size for part in parts]
    raise ConfigError(
        f"{type(norm).__name__} is not a norm whose statistics can be held; use layer, rms or none."
    )


def _projected(
    projections: Projections, parts: Sequence[Tensor], words: int
) -> tuple[list[Tensor], list[Tensor]]:
    """Queries and keys (1,H,T,K) by parts."""
    shared = isinstance(projections, (SharedQK, SharedQKV))
    key = projections.query if shared else projections.get_submodule("key")
    key_norm = projections.query_norm if shared else projections.get_submodule("key_norm")
    queries = held(projections.query_norm, _mapped(projections, projections.query, parts, words))
    keys = held(key_norm, _mapped(projections, key, parts, words))
    return queries, [spread(part, projections.heads) for part in keys]


def _mapped(projections: Projections, linear: nn.Module, parts: Sequence[Tensor], words: int) -> list[Tensor]:
    assert isinstance(linear, nn.Linear)
    weight = linear.weight if not words else _blocks_apart(linear.weight, projections.head_width, words)
    made = [projections.split(F.linear(part, weight)) for part in parts]
    if linear.bias is not None:
        made[-1] = made[-1] + projections.split(linear.bias.expand(1, parts[0].shape[1], -1))
    return made


def _blocks_apart(weight: Tensor, head_width: int, words: int) -> Tensor:
    """The weight (H·K, D) without what joins the word's `words` columns and the position's others."""
    of_word = max(1, min(head_width - 1, round(head_width * words / weight.shape[1])))
    rows = (torch.arange(weight.shape[0], device=weight.device) % head_width) < of_word
    columns = torch.arange(weight.shape[1], device=weight.device) < words
    return weight * (rows[:, None] == columns[None, :])
