"""Small models of every kind, the data they are tried on, and which combinations to try."""

from __future__ import annotations

import random
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import cache
from itertools import combinations as pairs_of
from typing import Any

import torch
from torch import Tensor

from attnlab.config.files import section_of
from attnlab.config.values import Choice, ConfigError, choice_of, written
from attnlab.model.assemble import build_model
from attnlab.model.attention import ATTENTION
from attnlab.model.attention.rule import Rule, spread
from attnlab.model.combinations import FAMILIES, MASK_CHOICES, MASKINGS, combinations, examples
from attnlab.model.positions import POSITIONS
from attnlab.model.projections import PROJECTIONS
from attnlab.model.tokens import Tokens

SIZES = {"vocabulary": 23, "length": 16, "width": 16, "heads": 4, "layers": 1, "embedding_scale": 1.0}
B, T, S = 2, 7, 5
LEFT = torch.tensor([[0, 0, 1, 1, 1, 1, 1], [1] * 7]).bool()
SOURCE_REAL = torch.tensor([[1] * 5, [1, 1, 1, 0, 0]]).bool()
SOURCE = torch.tensor([[1, 1, 1, 1, 0, 0, 0], [1, 1, 0, 0, 0, 0, 0]]).bool()
DOCUMENT = torch.tensor([[0, 0, 0, 1, 1, 1, 1], [0, 1, 1, 1, 1, 2, 2]])
SOURCE_DOCUMENT = torch.tensor([[0, 0, 1, 1, 1], [0, 1, 1, 2, 2]])  # the last one is all padding
LAYOUTS = {"plain": {}, "left padded": {"real": LEFT}, "packed": {"document": DOCUMENT}}
# no token twice in a row: equal keys tie, and an argmax of equal scores is decided by rounding
IDS = torch.stack([torch.randperm(23, generator=torch.Generator().manual_seed(b))[:T] for b in range(B)])
SOURCE_IDS = torch.stack(
    [torch.randperm(23, generator=torch.Generator().manual_seed(9 + b))[:S] for b in range(B)]
)


@dataclass(frozen=True)
class Case:
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

    def config(self, **changes):
        chosen = {f.name: getattr(self, f.name) for f in fields(self)[:6]}
        cross = "dot" if isinstance(self.attention, tuple) else self.attention
        cross = self.attention.options.get("inner", "dot") if self.layered else cross
        return section_of("model", SIZES | chosen | {"cross_attention": cross} | self.extras | changes)

    @property
    def layered(self) -> bool:
        return isinstance(self.attention, Choice) and self.attention.kind in ("group", "window")

    def model(self, seed=0, **changes):
        model = build_model(self.config(**changes), seed=seed).double().eval()
        loosen(model, seed)
        return model

    def tokens(self, length=T, rows=slice(None), **marks) -> Tokens:
        if self.needs_source:
            marks["source"] = SOURCE[rows, :length]
        return Tokens.of(length, **marks)

    def inputs(self, rows=slice(None), layout="plain") -> dict[str, Any]:
        """What an encoder-decoder needs beside its ids."""
        if self.family != "encoder_decoder":
            return {}
        marks = {"document": SOURCE_DOCUMENT[rows]} if layout == "packed" else {}
        return {"source": SOURCE_IDS[rows], "source_tokens": Tokens.of(S, real=SOURCE_REAL[rows], **marks)}

    def run(self, model, layout: str) -> Tensor:
        return model.trunk(IDS, self.tokens(**LAYOUTS[layout]), **self.inputs(layout=layout))


def loosen(model, seed=0) -> None:
    """Move every parameter off its initial value: zero biases and unit gains would hide mistakes."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn(p.shape, generator=generator, dtype=p.dtype) * 0.3)


@contextmanager
def plainly(model):
    """The model with every rule's forward replaced by its plain weights."""
    outer = [m.rule for m in model.modules() if isinstance(getattr(m, "rule", None), Rule)]
    for rule in outer:
        rule.forward = lambda q, k, v, pairs, rule=rule: rule.weights(q, k, pairs) @ spread(v, q.shape[1])
    try:
        yield model
    finally:
        for rule in outer:
            del rule.forward


def _mixed(attention: str, *parts: str) -> Case:
    layers = tuple(choice_of(name, "") for name in attention.split(" / "))
    mask, positions, family, masking = parts
    chosen = (choice_of(mask, ""), choice_of(positions, ""), Choice("separate"))
    return Case(layers, *chosen, family, masking, {"layers": len(layers)})


MIXED = [
    _mixed("group(groups=3) / group(groups=3) / dot", "causal", "sinusoidal", "decoder", "-inf"),
    _mixed("window(size=2) / linear / additive", "causal", "rotary", "decoder", "-inf"),
    _mixed("dot / linear", "prefix", "learned", "decoder", "-inf"),
    _mixed("additive / dot(softcap=2.0)", "causal & window(size=3)", "relative", "decoder", "zero"),
    _mixed("linear / argmax", "bidirectional", "concat(part=4)", "encoder", "-inf"),
    _mixed("dot / group(groups=2, inner=additive)", "causal", "bucketed", "encoder_decoder", "-inf"),
]
"""Models whose layers have different attention."""


def working() -> list[Case]:
    """Every combination that is not refused."""
    return _working(tuple(ATTENTION))


@cache  # the tables are walked through once, but for a rule that a test adds
def _working(attention: tuple[str, ...]) -> list[Case]:
    return [
        Case(c.attention, c.mask, c.positions, c.projections, c.family, c.masking)
        for c, reason in combinations()
        if reason is None
    ]


def covering(cases: list[Case]) -> list[Case]:
    """As few of these cases as have every two choices that stand together in any of them (greedy)."""
    choices = [[(f.name, str(getattr(case, f.name))) for f in fields(case)[:6]] for case in cases]
    pairs = [set(pairs_of(held, 2)) for held in choices]
    wanted, chosen = set().union(*pairs), list[Case]()
    while wanted:
        best = max(range(len(cases)), key=lambda n: len(pairs[n] & wanted))
        wanted -= pairs[best]
        chosen.append(cases[best])
    return chosen


CORE = {
    "attention": examples(ATTENTION),
    "mask": list(MASK_CHOICES),
    "positions": examples(POSITIONS),
    "projections": examples(PROJECTIONS),
    "family": list(FAMILIES),
    "masking": list(MASKINGS),
}
EXTRAS = {
    "residual": ["pre", "post"],
    "norm": ["layer", "rms"],
    "feedforward": ["gelu", "gelu(approximate=tanh)", "relu", "swiglu", "geglu"],
    "bias": [True, False],
    "head_width": ["even", 6],
    "token_types": [0, 2],
    "embedding_norm": [False, True],
    "embedding_scale": [1.0, "root"],
    "layers": [1, 2],
}


def refused(case: Case) -> bool:
    try:
        build_model(case.config(), device="meta")
    except ConfigError:
        return True
    return False


@cache
def pairwise(seed=0) -> list[Case]:
    """Cases in which every pair of values that can stand together does (greedy, seeded)."""
    factors = CORE | EXTRAS
    names, rng = list(factors), random.Random(seed)
    valid = _validity()
    wanted = {pair for a, b in pairs_of(names, 2) for pair in _pairs_between(a, factors[a], b, factors[b])}
    cases, misses = [], 0
    while wanted and misses < 60:
        best, gain, left = None, 0, sorted(wanted)
        for _ in range(40):
            target = rng.choice(left) if misses < 30 else None
            row = {n: rng.randrange(len(factors[n])) for n in names}
            if target is not None:
                (a, i), (b, j) = target
                row[a], row[b] = i, j
            if not valid(row, factors):
                continue
            covers = {((a, row[a]), (b, row[b])) for a, b in pairs_of(names, 2)} & wanted
            if len(covers) > gain:
                best, gain, taken = row, len(covers), covers
        if best is None:
            misses += 1
            continue
        wanted -= taken
        cases.append(_case(best, factors))
    return cases


def _pairs_between(a, first, b, second):
    return {((a, i), (b, j)) for i in range(len(first)) for j in range(len(second))}


def _validity():
    allowed = {(str(c.attention), str(c.mask), str(c.positions), c.family) for c in working()}

    def valid(row, factors) -> bool:
        key = tuple(str(factors[n][row[n]]) for n in ("attention", "mask", "positions", "family"))
        return key in allowed

    return valid


def _case(row, factors) -> Case:
    values = {name: factors[name][i] for name, i in row.items()}
    return Case(**{n: values[n] for n in CORE}, extras={n: v for n, v in values.items() if n not in CORE})
