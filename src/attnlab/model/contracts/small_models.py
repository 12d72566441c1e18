"""Small models of every kind, the rows that they are tried on, and which combinations to try."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import cache
from itertools import combinations as pairs_of
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.config.files import section_of
from attnlab.config.schema import ModelSettings
from attnlab.config.values import Choice, written
from attnlab.model.assemble import build_model
from attnlab.model.attention import ATTENTION
from attnlab.model.attention.rule import Rule, spread
from attnlab.model.combinations import combinations
from attnlab.model.model import Model
from attnlab.model.positions import POSITIONS
from attnlab.model.projections import PROJECTIONS
from attnlab.model.tokens import Tokens

VOCABULARY = 23
SIZES: Mapping[str, Any] = {
    "vocabulary": VOCABULARY,
    "length": 16,
    "width": 16,
    "heads": 4,
    "layers": 1,
    "embedding_scale": 1.0,
}
B, T, S = 2, 7, 5
LEFT = torch.tensor([[0, 0, 1, 1, 1, 1, 1], [1] * 7]).bool()
SOURCE_REAL = torch.tensor([[1] * 5, [1, 1, 1, 0, 0]]).bool()
SOURCE = torch.tensor([[1, 1, 1, 1, 0, 0, 0], [1, 1, 0, 0, 0, 0, 0]]).bool()
DOCUMENT = torch.tensor([[0, 0, 0, 1, 1, 1, 1], [0, 1, 1, 1, 1, 2, 2]])
SOURCE_DOCUMENT = torch.tensor([[0, 0, 1, 1, 1], [0, 1, 1, 2, 2]])  # the last one is all padding
LAYOUTS: Mapping[str, dict[str, Any]] = {
    "plain": {},
    "left padded": {"real": LEFT},
    "packed": {"document": DOCUMENT},
}
# no token twice in a row: equal keys tie, and an argmax of equal scores is decided by rounding
IDS = torch.stack(
    [torch.randperm(VOCABULARY, generator=torch.Generator().manual_seed(b))[:T] for b in range(B)]
)
SOURCE_IDS = torch.stack(
    [torch.randperm(VOCABULARY, generator=torch.Generator().manual_seed(9 + b))[:S] for b in range(B)]
)
EVERYTHING = slice(None)


@dataclass(frozen=True)
class SmallModel:
    """One model of the grid; `attention` may be one for each layer."""

    attention: Choice | tuple[Choice, ...]
    mask: Choice
    positions: Choice
    projections: Choice
    family: str
    masking: str
    extras: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        parts = [written(getattr(self, f.name)) for f in fields(self)[:6]]
        return " · ".join(parts + [f"{k}={v}" for k, v in self.extras.items()])

    @property
    def needs_source(self) -> bool:
        return "source" in str(self.mask) or "prefix" in str(self.mask)

    def config(self, **changes: Any) -> ModelSettings:
        chosen = {f.name: getattr(self, f.name) for f in fields(self)[:6]}
        cross: Any = "dot" if isinstance(self.attention, tuple) else self.attention
        if isinstance(self.attention, Choice) and self.attention.kind in ("group", "window"):
            cross = self.attention.options.get("inner", "dot")
        given = {**SIZES, **chosen, "cross_attention": cross, **self.extras, **changes}
        settings: ModelSettings = section_of("model", given)
        return settings

    def model(self, seed: int = 0, **changes: Any) -> Model:
        """It in float64, with every parameter moved off its initial value."""
        model = build_model(self.config(**changes), seed=seed).double().eval()
        loosen(model, seed)
        return model

    def tokens(self, length: int = T, rows: slice = EVERYTHING, **marks: Any) -> Tokens:
        if self.needs_source:
            marks["source"] = SOURCE[rows, :length]
        return Tokens.of(length, **marks)

    def inputs(self, rows: slice = EVERYTHING, layout: str = "plain") -> dict[str, Any]:
        """What an encoder-decoder needs beside its ids."""
        if self.family != "encoder_decoder":
            return {}
        marks: dict[str, Any] = {"document": SOURCE_DOCUMENT[rows]} if layout == "packed" else {}
        return {"source": SOURCE_IDS[rows], "source_tokens": Tokens.of(S, real=SOURCE_REAL[rows], **marks)}

    def run(self, model: Model, layout: str) -> Tensor:
        """The hidden states (B,T,D) of the two rows, laid out in one of LAYOUTS."""
        tokens = self.tokens(**LAYOUTS[layout])
        hidden: Tensor = model.trunk(IDS, tokens, **self.inputs(layout=layout))
        return hidden


def loosen(model: nn.Module, seed: int = 0) -> None:
    """Move every parameter off its initial value: zero biases and unit gains would hide mistakes."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn(p.shape, generator=generator, dtype=p.dtype) * 0.3)


@contextmanager
def plainly(model: Model) -> Iterator[Model]:
    """The model with every rule's forward replaced by its plain weights."""
    rules = [rule for m in model.modules() if isinstance(rule := getattr(m, "rule", None), Rule)]

    def plain(rule: Rule) -> Any:
        return lambda q, k, v, pairs: rule.weights(q, k, pairs) @ spread(v, q.shape[1])

    for rule in rules:
        rule.forward = plain(rule)  # type: ignore[method-assign]  # for as long as this lasts
    try:
        yield model
    finally:
        for rule in rules:
            del rule.forward


def working() -> list[SmallModel]:
    """Every combination of registered parts that is not refused."""
    tables = (ATTENTION, POSITIONS, PROJECTIONS)
    return _working(tuple((name, table[name]) for table in tables for name in table))


@cache  # the tables are walked through once, but for a part that somebody adds
def _working(registered: tuple[tuple[str, type], ...]) -> list[SmallModel]:
    return [
        SmallModel(c.attention, c.mask, c.positions, c.projections, c.family, c.masking)
        for c, reason in combinations()
        if reason is None
    ]


def covering(cases: Sequence[SmallModel]) -> list[SmallModel]:
    """As few of these cases as have every two choices that stand together in any of them (greedy)."""
    choices = [[(f.name, str(getattr(case, f.name))) for f in fields(case)[:6]] for case in cases]
    pairs = [set(pairs_of(chosen, 2)) for chosen in choices]
    wanted, kept = set[Any]().union(*pairs), list[SmallModel]()
    while wanted:
        best = max(range(len(cases)), key=lambda n: len(pairs[n] & wanted))
        wanted -= pairs[best]
        kept.append(cases[best])
    return kept
