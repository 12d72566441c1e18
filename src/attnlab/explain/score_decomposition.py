"""What the first layer's scores are made of: words, positions, and the two crossed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnlab.config.values import ConfigError
from attnlab.documents.nodes import Grid, Grids, Node, Table
from attnlab.documents.numbers import short
from attnlab.explain.explanation import Explanation
from attnlab.model.attention.dot import Dot
from attnlab.model.model import Model
from attnlab.model.pairs import Pairs
from attnlab.model.positions.absolute import sinusoids
from attnlab.model.score_parts import CROSS, PARTS, ScoreParts, score_parts
from attnlab.model.tokens import Tokens

MOST_WORDS = 32
"""Of a text whose grids are drawn."""


def rms(values: Tensor) -> float:
    return float(values.double().square().mean().sqrt())


@dataclass(frozen=True)
class ScoreDecomposition(Explanation):
    """Parts of the scores of every head of the first layer on one row of words."""

    words: Sequence[str]
    found: ScoreParts
    apart: ScoreParts | None
    """The same with block-diagonal projections, where positions are concatenated."""
    head: int
    identity_error: float
    """Of scores with concatenated positions against a relative bias q_pos·k_pos, the same numbers."""

    kind = "scores"

    @property
    def headline(self) -> str:
        sizes = {name: short(rms(part)) for name, part in self.found.parts.items()}
        cross = short(max(rms(self.found.parts[name]) for name in CROSS))
        return (
            f"Word·word has size {sizes['word·word']}, position·position {sizes['position·position']}, the "
            f"larger cross term {cross} (root mean square)."
        )

    @property
    def remark(self) -> str:
        sentence = f"The parts add up to the scores to {short(self.found.error)}."
        if self.apart is None:
            return sentence
        none = short(max(rms(self.apart.parts[name]) for name in CROSS))
        return f"{sentence} With block-diagonal projections the cross terms are {none}."

    def parts(self) -> list[Node]:
        return [*([self._grids()] if len(self.words) <= MOST_WORDS else []), self._sizes()]

    def _grids(self) -> Grids:
        parts = {name: self.found.parts[name][self.head].tolist() for name in PARTS[:4]}
        return Grids(
            [Grid(self.words, self.words, values, title=name) for name, values in parts.items()],
            title=f"The parts of head {self.head}, on one scale",
            note="Rows are queries, columns are keys.",
        )

    def _sizes(self) -> Table:
        columns = ["part", "all heads", f"head {self.head}"]
        rows: list[list[Any]] = []
        for name in PARTS:
            part = self.found.parts[name]
            rows.append([name, rms(part), rms(part[self.head])])
        rows.append(["sum: the scores", rms(self.found.scores), rms(self.found.scores[self.head])])
        if self.apart is not None:
            columns.append("all heads, block-diagonal")
            for row, name in zip(rows, [*PARTS, ""], strict=True):
                row.append(rms(self.apart.parts[name] if name else self.apart.scores))
        return Table(
            columns,
            rows,
            title="Sizes of the parts",
            note="Root mean square over all pairs of tokens, before mask and softmax. The norms' statistics "
            "are held, so that each part is exact; shifts and biases make the part with a bias. A score with "
            "concatenated positions is a score of words plus a bias q_pos·k_pos: the two computations differ "
            f"by {short(self.identity_error)}.",
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "words": list(self.words),
            "error": self.found.error,
            "identity_error": self.identity_error,
            "sizes": {name: rms(part) for name, part in self.found.parts.items()},
            "block_diagonal": None
            if self.apart is None
            else {name: rms(part) for name, part in self.apart.parts.items()},
            "parts": {name: part.tolist() for name, part in self.found.parts.items()},
            "scores": self.found.scores.tolist(),
        }


def score_decomposition(
    model: Model, ids: Tensor, words: Sequence[str], *, head: int = 0
) -> ScoreDecomposition:
    """The first layer's scores on ids (T) by their parts; with concatenated positions also block-diagonal."""
    parts = score_parts(model, ids)
    if not 0 <= head < len(parts.scores):
        raise ConfigError(f"There is no head {head}: heads are 0 to {len(parts.scores) - 1}.")
    apart = score_parts(model, ids, block_diagonal=True) if parts.concatenated else None
    return ScoreDecomposition(words, parts, apart, head, bias_against_concatenation(len(ids)))


def bias_against_concatenation(length: int = 12, width: int = 16, *, seed: int = 0) -> float:
    """The largest difference between attention weights with positions concatenated to queries and keys, and
    with a bias π_ij = q_pos·k_pos on the scores of words alone; in float64, with the scale held.

    With sinusoids as positions π depends on i − j alone: the bias is a relative one.
    """
    generator = torch.Generator().manual_seed(seed)
    q, k = (torch.randn(1, 2, length, width, generator=generator, dtype=torch.float64) for _ in range(2))
    where = sinusoids(torch.arange(length), width).double().expand(1, 2, length, width)
    rule = Dot(2 * width)
    tokens = Tokens.of(length)
    joined = rule.weights(torch.cat([q, where], -1), torch.cat([k, where], -1), Pairs(tokens, tokens))
    bias = rule.scale * where @ where.transpose(-1, -2)
    biased = rule.weights(q, k, Pairs(tokens, tokens).with_bias(lambda queries, keys: bias))
    return float((joined - biased).abs().max())
