"""In which layers image and text attend to each other."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from attnlab.config.ranges import Count, Whole
from attnlab.config.registry import Registry
from attnlab.config.values import ConfigError
from attnlab.model.attention.blockwise import Blockwise
from attnlab.model.attention.group import Group
from attnlab.model.attention.modalities import attend_parts, modality_parts
from attnlab.model.attention.rule import Rule
from attnlab.model.draws import fill_normal
from attnlab.model.masks import Bidirectional, Mask
from attnlab.model.pairs import Pairs
from attnlab.model.terms import Term
from attnlab.model.tokens import BOTTLENECK, Tokens
from attnlab.model.virtual import Virtual


class Fusion:
    """A schedule of layers: how each layer's attention is kept within modalities, or joins them.

    `depth` is the number of layers, `patches` of patches in a row.
    """

    tokens = 0
    """Learned tokens that stand before every row."""

    def __init__(self, depth: int, patches: int = 0):
        self.depth, self.patches = depth, patches

    def rule(self, layer: int, rule: Rule) -> Rule:
        """What a layer's attention becomes."""
        return rule

    def own(self, rule: Rule) -> Rule:
        """The rule within each modality."""
        return Group(rule, 1, self.patches, by="modality")


class Early(Fusion):
    """Early: in all layers, image and text attend to each other as if they were one text.

    Formula: softmax over all keys, in every layer.

    Cost: O((n + m)²) a layer for n patches and m words.

    When it helps: the default; with enough data it learns by itself where to look.
    """


class Never(Fusion):
    """Never: image and text never attend to each other.

    Formula: softmax over the keys of the query's own modality, in every layer.

    Cost: O(n² + m²) a layer.

    When it helps: as the control. The class token is of the text: what is read from it
    (`classification(pooling=first)`) knows nothing of the image. With pooling = mean both are added up at
    the end, which is enough for an order of both ("is one more than the other?") but not for a comparison.
    """

    def rule(self, layer: int, rule: Rule) -> Rule:
        return self.own(rule)


class Late(Fusion):
    """Late: the first layers attend within each modality, the others across.

    Formula: softmax over the keys of the query's own modality in the first `layers` layers, over all after.

    Cost: O(n² + m²) in the first layers, O((n + m)²) in the others.

    When it helps: inputs of different kinds that are first to be understood each by itself; less time than
    early.

    Paper: Nagrani et al. 2021, "Attention Bottlenecks for Multimodal Fusion" (mid fusion).
    """

    def __init__(self, depth: int, patches: int = 0, *, layers: Count = 2):
        super().__init__(depth, patches)
        _refuse_depth("late", layers, depth)
        self.layers = layers

    def rule(self, layer: int, rule: Rule) -> Rule:
        return self.own(rule) if layer < self.layers else rule


class Bottleneck(Fusion):
    """Bottleneck: image and text exchange what they know through a few learned tokens alone.

    Formula: a token attends to its own modality and to the `tokens` of the bottleneck, and those attend to
    all; in the first `layers` layers within each modality. From image to text takes two layers. (The paper
    updates the bottleneck once by each modality and averages; here it attends to both at once.)

    Cost: O(n² + m² + tokens·(n + m)) a layer, and tokens·D parameters.

    When it helps: between late and early: each modality must say in a few vectors what matters.

    Paper: Nagrani et al. 2021, "Attention Bottlenecks for Multimodal Fusion".
    """

    def __init__(self, depth: int, patches: int = 0, *, tokens: Count = 4, layers: Whole = 0):
        super().__init__(depth, patches)
        _refuse_depth("bottleneck", layers, depth - 1)
        self.tokens, self.layers = tokens, layers

    def rule(self, layer: int, rule: Rule) -> Rule:
        return self.own(rule) if layer < self.layers else Bridged(rule, self.patches, self.tokens)


def _refuse_depth(name: str, layers: int, depth: int) -> None:
    if layers >= depth:
        more = "one layer" if name == "late" else "two layers"
        raise ConfigError(
            f"fusion {name}(layers={layers}) leaves fewer than {more} of this model in which image and text "
            f"could meet; use fewer layers of their own, raise model.layers, or use fusion never."
        )


@dataclass(frozen=True)
class Bridges(Mask):
    """Tokens of one modality, and those of a bottleneck with all; tokens of which none is known are text."""

    def __call__(self, queries: Tokens, keys: Tokens) -> Tensor:
        if queries.group is None or keys.group is None:
            return Bidirectional()(queries, keys)
        i, j = queries.group[:, :, None], keys.group[:, None, :]
        return (i == j) | (i == BOTTLENECK) | (j == BOTTLENECK)


class Bridged(Blockwise):
    """An inner rule within each modality and through the tokens of a bottleneck."""

    def __init__(self, inner: Rule, patches: int, tokens: int):
        super().__init__(inner, Bridges())
        self.patches, self.tokens = patches, tokens

    def forward(self, q: Tensor, k: Tensor, v: Tensor, pairs: Pairs) -> Tensor:
        parts = modality_parts(pairs, bridged=True)
        return self.dense(q, k, v, pairs) if parts is None else attend_parts(self.inner, q, k, v, parts)

    def _sizes(self, queries: int) -> list[tuple[int, int]]:
        """Queries and keys of each part, for rows with the tokens of the bottleneck before them."""
        rest = queries - self.tokens - self.patches
        modalities = [self.patches, rest] if self.patches and rest > 0 else [queries - self.tokens]
        return [(self.tokens, queries), *((own, own + self.tokens) for own in modalities)]

    def growth(self, pairs: str, tokens: str) -> str:
        return self.inner.growth("(n² + m²)", tokens)

    def flops(self, queries: int, keys: int, heads: int, head_width: int) -> int:
        return sum(self.inner.flops(own, seen, heads, head_width) for own, seen in self._sizes(queries))

    def saved_elements(self, queries: int, keys: int, heads: int, head_width: int) -> int:
        sizes = self._sizes(queries)
        return sum(self.inner.saved_elements(own, seen, heads, head_width) for own, seen in sizes)


class BottleneckTokens(Virtual):
    """The learned tokens of a bottleneck, before every row."""

    joins = True

    def __init__(self, count: int, width: int, std: float):
        super().__init__(count)
        self.std = std
        self.vectors = nn.Parameter(torch.empty(count, width))

    def initialise(self, generator: torch.Generator | None) -> None:
        fill_normal(self.vectors, self.std, generator)

    def placed(self, text: Tokens) -> tuple[Tokens, Tokens]:
        if text.document is not None:
            raise ValueError(
                "The tokens of a bottleneck stand before one text, and packed documents are several in a "
                "row; batch them as rows of their own (padded or bucketed)."
            )
        index = torch.arange(self.count, device=text.index.device)[None]
        group = None if text.group is None else torch.full_like(index, BOTTLENECK)
        before = Tokens(index, index, group=group, span=range(self.count), bound=self.count)
        row = before.join(text)
        if text.group is not None and text.group.shape[0] == 1 and row.group is not None:
            row = replace(row, group=row.group[:1])  # alike in all rows, as it was
        return row, row

    def embedded(self, x: Tensor, types: Tensor | None) -> tuple[Tensor, Tensor | None]:
        x = torch.cat([self.vectors.expand(len(x), -1, -1).to(x.dtype), x], 1)
        if types is not None:
            types = torch.cat([types.new_zeros(len(types), self.count), types], 1)
        return x, types

    def parameter_terms(self) -> list[Term]:
        return [Term("bottleneck", "n·D", self.vectors.numel())]


FUSIONS: Registry[Fusion] = Registry(
    "fusions",
    base="attnlab.model.fusion:Fusion",
    default="early",
    variants={
        "early": "attnlab.model.fusion:Early",
        "late": "attnlab.model.fusion:Late",
        "never": "attnlab.model.fusion:Never",
        "bottleneck": "attnlab.model.fusion:Bottleneck",
    },
)
