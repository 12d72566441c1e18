"""A block: attention and feed-forward, each inside a residual."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from attnlab.config.registry import Registry
from attnlab.model.attention.rule import Rule
from attnlab.model.cache import LayerMemory
from attnlab.model.draws import Dropout
from attnlab.model.pairs import Pairs
from attnlab.model.positions.position import Rotation
from attnlab.model.projections import Projections

Sources = Callable[[Projections], tuple[Tensor, Tensor]]
"""The encoder's keys and values, by this layer's projections."""
Before = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""A layer's keys and values with those that an adapter puts before them."""


@dataclass(frozen=True)
class Scope:
    """What one layer knows beside its input."""

    pairs: Pairs
    rotation: Rotation | None = None
    memory: LayerMemory | None = None
    cross_pairs: Pairs | None = None
    sources: Sources | None = None
    before: Before | None = None
    beams: int = 1  # rows that read one source


class Attention(nn.Module):
    """Projections, a rule, and the way back to the model's width."""

    def __init__(self, projections: Projections, rule: Rule, output: nn.Linear):
        super().__init__()
        self.projections, self.rule, self.output = projections, rule, output

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, pairs: Pairs, memory: LayerMemory | None = None
    ) -> Tensor:
        """What each head reads (B,H,T,K); after the tokens in memory where there is one."""
        return self.rule(q, k, v, pairs) if memory is None else self.rule.recall(memory, q, k, v, pairs)

    def merge(self, y: Tensor) -> Tensor:
        """(B,H,T,K) -> (B,T,D)."""
        return self.output(y.transpose(1, 2).flatten(2))


class SelfAttention(Attention):
    """Tokens attend to tokens of their own row."""

    def forward(self, x: Tensor, scope: Scope) -> Tensor:
        q, k, v = self.projections(x)
        if scope.rotation is not None:
            q, k = scope.rotation(q), scope.rotation(k)
        if scope.before is not None:
            k, v = scope.before(k, v)
        return self.merge(self.attend(q, k, v, scope.pairs, scope.memory))


class CrossAttention(Attention):
    """Tokens attend to what the encoder made of the source."""

    def forward(self, x: Tensor, scope: Scope) -> Tensor:
        assert scope.sources is not None and scope.cross_pairs is not None
        k, v = scope.sources(self.projections)
        q, beams = self.projections.queries(x), scope.beams
        if beams == 1:
            return self.merge(self.attend(q, k, v, scope.cross_pairs))
        together = (
            q.unflatten(0, (-1, beams)).transpose(1, 2).flatten(2, 3)
        )  # beams of one source share its keys
        y = self.attend(together, k, v, scope.cross_pairs)
        return self.merge(y.unflatten(2, (beams, -1)).transpose(1, 2).flatten(0, 1))


class PositionWise(nn.Module):
    """A part that looks at nothing but its own token, such as a feed-forward."""

    def __init__(self, part: nn.Module):
        super().__init__()
        self.part = part

    def forward(self, x: Tensor, scope: Scope) -> Tensor:
        return self.part(x)


class Residual(nn.Module):
    """x and what a part adds to it. `final` is the norm that a stack then needs at its end."""

    def __init__(self, norm: nn.Module, inner: nn.Module, dropout: float = 0.0):
        super().__init__()
        self.norm, self.inner, self.dropout = norm, inner, Dropout(dropout)

    def forward(self, x: Tensor, scope: Scope) -> Tensor:
        raise NotImplementedError

    @staticmethod
    def final(norm: nn.Module) -> nn.Module:
        return norm


class PreNorm(Residual):
    """Pre-norm: each part sees a normalised input; the residual stream stays as it is.

    Formula: x + f(norm(x)), and one more norm at the end of the stack.

    When it helps: the default. Gradients reach every layer from the start; no long warm-up.

    Paper: Xiong et al. 2020, "On Layer Normalization in the Transformer Architecture".
    """

    def forward(self, x: Tensor, scope: Scope) -> Tensor:
        return x + self.dropout(self.inner(self.norm(x), scope))


class PostNorm(Residual):
    """Post-norm: the sum is normalised after each part.

    Formula: norm(x + f(x)).

    When it helps: BERT and the first transformer have it; deep stacks need a warm-up.

    Paper: Vaswani et al. 2017, "Attention Is All You Need".
    """

    def forward(self, x: Tensor, scope: Scope) -> Tensor:
        return self.norm(x + self.dropout(self.inner(x, scope)))

    @staticmethod
    def final(norm: nn.Module) -> nn.Module:
        return nn.Identity()


class Block(nn.Module):
    """Its residuals, one after another: attention, cross-attention where there is one, feed-forward."""

    def __init__(self, *residuals: Residual):
        super().__init__()
        self.residuals = nn.ModuleList(residuals)

    def forward(self, x: Tensor, scope: Scope) -> Tensor:
        for residual in self.residuals:
            x = residual(x, scope)
        return x


RESIDUALS: Registry[Residual] = Registry(
    "residuals",
    base="attnlab.model.blocks:Residual",
    default="pre",
    variants={"pre": "attnlab.model.blocks:PreNorm", "post": "attnlab.model.blocks:PostNorm"},
)
