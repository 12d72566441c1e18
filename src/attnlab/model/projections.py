"""From a token's vector to its queries, keys and values."""

from __future__ import annotations

from typing import ClassVar, Literal

from torch import Tensor, nn

from attnlab.config.ranges import Count
from attnlab.config.registry import Registry
from attnlab.model.norms import NORMS
from attnlab.model.products import LinearMap
from attnlab.model.terms import Term, linear, terms_of

QueryKeyNorm = Literal["none", "layer", "rms"]


class Projections(nn.Module):
    """x (B,T,D) -> q (B,H,T,K) and k, v (B,H',T,K); queries and sources apart, for cross-attention."""

    examples: ClassVar[tuple[dict[str, object], ...]] = ({},)

    def __init__(
        self,
        width: int,
        heads: int,
        head_width: int,
        bias: bool = True,
        *,
        query_key_norm: QueryKeyNorm = "none",
    ):
        super().__init__()
        self.width, self.heads, self.head_width, self.biased = width, heads, head_width, bias
        self.query = LinearMap(width, heads * head_width, bias=bias)
        self.query_norm = NORMS.build(query_key_norm, width=head_width, bias=bias)

    @property
    def key_heads(self) -> int:
        """Heads of keys and of values."""
        return self.heads

    def split(self, x: Tensor) -> Tensor:
        """(B,T,H·K) -> (B,H,T,K)."""
        return x.unflatten(-1, (-1, self.head_width)).transpose(1, 2)

    def queries(self, x: Tensor) -> Tensor:
        return self.query_norm(self.split(self.query(x)))

    def sources(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.queries(x), *self.sources(x)

    def flops(self, queries: int, sources: int) -> int:
        """Of one forward: `sources` is 0 in self-attention, where both are the same tokens."""
        raise NotImplementedError

    def _map_flops(self, heads: int, tokens: int) -> int:
        return 2 * tokens * self.width * heads * self.head_width

    def _map(self, name: str, heads: int | None = None) -> Term:
        formula = "D·HK" if heads in (None, self.heads) else "D·SK"  # S: the heads that are shared
        return linear(name, self.width, (heads or self.heads) * self.head_width, self.biased, formula)

    def _norms(self, count: int) -> list[Term]:
        return [
            Term("query-key norm", f"{count}·({t.formula})".replace("D", "K"), count * t.count)
            for t in terms_of(self.query_norm)
        ]

    def parameter_terms(self) -> list[Term]:
        return [self._map("query"), *self._norms(1)]


class Apart(Projections):
    """Keys and values by maps of their own, in `shared` heads."""

    def __init__(
        self, width: int, heads: int, head_width: int, bias: bool, shared: int, query_key_norm: QueryKeyNorm
    ):
        super().__init__(width, heads, head_width, bias, query_key_norm=query_key_norm)
        self.shared = shared
        self.key = LinearMap(width, shared * head_width, bias=bias)
        self.value = LinearMap(width, shared * head_width, bias=bias)
        self.key_norm = NORMS.build(query_key_norm, width=head_width, bias=bias)

    @property
    def key_heads(self) -> int:
        return self.shared

    def sources(self, y: Tensor) -> tuple[Tensor, Tensor]:
        return self.key_norm(self.split(self.key(y))), self.split(self.value(y))

    def flops(self, queries: int, sources: int) -> int:
        return self._map_flops(self.heads, queries) + self._map_flops(2 * self.shared, sources or queries)

    def parameter_terms(self) -> list[Term]:
        sources = [self._map(name, self.shared) for name in ("key", "value")]
        return [self._map("query"), *sources, *self._norms(2)]


class Separate(Apart):
    """Separate: queries, keys and values each have their own map.

    Formula: q = W_q x, k = W_k x, v = W_v x.

    Cost: 3·D·H·K parameters.

    When it helps: the default. A token can look for something other than what it offers.

    Paper: Vaswani et al. 2017, "Attention Is All You Need".
    """

    def __init__(
        self,
        width: int,
        heads: int,
        head_width: int,
        bias: bool = True,
        *,
        query_key_norm: QueryKeyNorm = "none",
    ):
        super().__init__(width, heads, head_width, bias, heads, query_key_norm)


class Grouped(Apart):
    """Grouped queries: several query heads share one head of keys and values.

    Formula: head h attends to keys and values h // (H / shared).

    Cost: (H + 2·shared)·D·K parameters; a cache smaller by H / shared. With one shared head this
    is multi-query attention.

    When it helps: decoding, whose speed is bound by the size of the cache.

    Paper: Ainslie et al. 2023, "GQA"; Shazeer 2019, "Fast Transformer Decoding".
    """

    examples: ClassVar[tuple[dict[str, object], ...]] = ({"shared": 2},)

    def __init__(
        self,
        width: int,
        heads: int,
        head_width: int,
        bias: bool = True,
        *,
        shared: Count = 1,
        query_key_norm: QueryKeyNorm = "none",
    ):
        if shared < 1 or heads % shared:
            fitting = ", ".join(str(n) for n in range(1, heads + 1) if heads % n == 0)
            raise ValueError(
                f"{heads} query heads cannot evenly share {shared} heads of keys; use {fitting}."
            )
        super().__init__(width, heads, head_width, bias, shared, query_key_norm)


class SharedQK(Projections):
    """Shared Q = K: one map gives queries and keys, another the values.

    Formula: q = k = W x, v = W_v x.

    Cost: 2·D·H·K parameters. Scores are symmetric.

    When it helps: to see what a map of its own for queries is worth.

    Paper: Kitaev et al. 2020, "Reformer".
    """

    def __init__(
        self,
        width: int,
        heads: int,
        head_width: int,
        bias: bool = True,
        *,
        query_key_norm: QueryKeyNorm = "none",
    ):
        super().__init__(width, heads, head_width, bias, query_key_norm=query_key_norm)
        self.value = LinearMap(width, heads * head_width, bias=bias)

    def sources(self, y: Tensor) -> tuple[Tensor, Tensor]:
        return self.queries(y), self.split(self.value(y))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        both = self.queries(x)
        return both, both, self.split(self.value(x))

    def flops(self, queries: int, sources: int) -> int:
        return self._map_flops(self.heads, queries + sources) + self._map_flops(
            self.heads, sources or queries
        )

    def parameter_terms(self) -> list[Term]:
        return [self._map("query and key"), self._map("value"), *self._norms(1)]


class SharedQKV(Projections):
    """Shared Q = K = V: one map gives all three.

    Formula: q = k = v = W x.

    Cost: D·H·K parameters.

    When it helps: to see how much of attention is the maps, and how much the mixing.

    Paper: He and Hofmann 2023, "Simplifying Transformer Blocks", which removes still more.
    """

    def sources(self, y: Tensor) -> tuple[Tensor, Tensor]:
        both = self.queries(y)
        return both, both

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        all_three = self.queries(x)
        return all_three, all_three, all_three

    def flops(self, queries: int, sources: int) -> int:
        return self._map_flops(self.heads, queries + sources)

    def parameter_terms(self) -> list[Term]:
        return [self._map("query, key and value"), *self._norms(1)]


PROJECTIONS: Registry[Projections] = Registry(
    "projections",
    base="attnlab.model.projections:Projections",
    default="separate",
    variants={
        "separate": "attnlab.model.projections:Separate",
        "grouped": "attnlab.model.projections:Grouped",
        "shared_qk": "attnlab.model.projections:SharedQK",
        "shared_qkv": "attnlab.model.projections:SharedQKV",
    },
)
