"""Which small models the contracts are tried on, beyond every combination: mixed layers, and a covering of
every two settings."""

from __future__ import annotations

import random
from functools import cache
from itertools import combinations as pairs_of

from attnlab.config.values import Choice, ConfigError, choice_of
from attnlab.model.assemble import build_model
from attnlab.model.attention import ATTENTION
from attnlab.model.combinations import FAMILIES, MASK_CHOICES, MASKINGS, examples
from attnlab.model.contracts.small_models import SmallModel, working
from attnlab.model.positions import POSITIONS
from attnlab.model.projections import PROJECTIONS


def _mixed(attention: str, *parts: str) -> SmallModel:
    layers = tuple(choice_of(name, "") for name in attention.split(" / "))
    mask, positions, family, masking = parts
    chosen = (choice_of(mask, ""), choice_of(positions, ""), Choice("separate"))
    return SmallModel(layers, *chosen, family, masking, {"layers": len(layers)})


MIXED = [
    _mixed("group(groups=3) / group(groups=3) / dot", "causal", "sinusoidal", "decoder", "-inf"),
    _mixed("window(size=2) / linear / additive", "causal", "rotary", "decoder", "-inf"),
    _mixed("dot / linear", "prefix", "learned", "decoder", "-inf"),
    _mixed("additive / dot(softcap=2.0)", "causal & window(size=3)", "relative", "decoder", "zero"),
    _mixed("linear / argmax", "bidirectional", "concat(part=4)", "encoder", "-inf"),
    _mixed("dot / group(groups=2, inner=additive)", "causal", "bucketed", "encoder_decoder", "-inf"),
]
"""Models whose layers have different attention."""


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


def refused(case: SmallModel) -> bool:
    try:
        build_model(case.config(), device="meta")
    except ConfigError:
        return True
    return False


@cache
def pairwise(seed=0) -> list[SmallModel]:
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


def _case(row, factors) -> SmallModel:
    values = {name: factors[name][i] for name, i in row.items()}
    extras = {n: v for n, v in values.items() if n not in CORE}
    return SmallModel(**{n: values[n] for n in CORE}, extras=extras)
