"""Attention maps as an interactive page: heads side by side, one large, lines from word to word.

Weights are stored as one byte each, the root of the weight in 254 steps: a weight near 0 is off by less than
0.00001, one near 1 by less than 0.004. The last byte stands for a pair that is not allowed.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import torch

from attnlab.config.visible_text import visible
from attnlab.documents.nodes import Frame
from attnlab.documents.palette import ramp
from attnlab.explain.head_kinds import KINDS, NAMED_AT, TIMES

if TYPE_CHECKING:
    from attnlab.explain.attention_maps import AttentionMaps

STEPS, FORBIDDEN = 254, 255
FULLS = (1, 0.5, 0.2, 0.1, 0.05)
"""Weights that the fullest shade can stand for."""
MOST_QUERIES = 0.9


def frame(maps: AttentionMaps) -> Frame:
    """All weights of all heads, and the script that draws them."""
    return Frame(
        _template("attention.html"),
        _template("attention.js"),
        {"maps": json.dumps(page_data(maps), ensure_ascii=False), "weights": quantised(maps)},
        notes(maps),
        _height(maps),
    )


def _height(maps: AttentionMaps) -> int:
    """Of the page at the width of a notebook: the large map, a row of small ones a layer, the table."""
    tokens = max(len(layer.queries) for layer in maps.layers)
    large = max(84 + tokens * max(4, min(34, 460 // tokens)), min(640, tokens * 18))
    table = min(416, 40 * (len(maps.heads) + 1))
    return 400 + large + 140 + 70 * len(maps.layers) + table + 320


def quantised(maps: AttentionMaps) -> bytes:
    """A byte a weight, layer by layer, head by head, row by row."""
    return b"".join(
        (layer.weights.clamp(0, 1).sqrt() * STEPS)
        .round()
        .byte()
        .masked_fill(~torch.tensor(layer.allowed_pairs), FORBIDDEN)
        .numpy()
        .tobytes()
        for layer in maps.layers
    )


def full_shade(maps: AttentionMaps) -> float:
    """The weight that the fullest shade stands for at first: the smallest of a few that holds the largest
    weight of most queries, so that heads that look at many tokens are not blank."""
    largest = torch.cat([layer.weights.amax(-1).flatten() for layer in maps.layers]).sort().values
    most = float(largest[int(MOST_QUERIES * (len(largest) - 1))])
    return min((full for full in FULLS if full >= most), default=FULLS[0])


def page_data(maps: AttentionMaps) -> dict[str, Any]:
    """What the page knows beside the weights."""
    chosen = maps.chosen
    ranks = {id(head): rank + 1 for rank, head in enumerate(maps.ranked)}
    return {
        "layers": [
            {
                "name": layer.name,
                "heads": layer.weights.shape[0],
                "queries": list(map(visible, layer.queries)),
                "keys": list(map(visible, layer.keys)),
            }
            for layer in maps.layers
        ],
        "heads": [
            {
                "layer": head.layer,
                "head": head.name.number,
                "kind": head.kind,
                "entropy": head.entropy,
                "distance": head.distance,
                "effect": head.effect,
                "rank": ranks[id(head)],
            }
            for head in maps.heads
        ],
        "chosen": [chosen.layer, chosen.name.number],
        "ramp": [[stop, name.removeprefix("var(").removesuffix(")")] for stop, name in ramp()],
        "fulls": FULLS,
        "full": full_shade(maps),
        "most": max(float(layer.weights.max()) for layer in maps.layers),
    }


def notes(maps: AttentionMaps) -> str:
    kinds = "; ".join(f"{kind}: {keys}" for kind, keys in KINDS.items())
    return (
        f"Without it: {maps.effect}. The head is removed by setting what it reads to 0. Entropy in nats and "
        f"distance in tokens are means over queries. A head is of a kind when at least {NAMED_AT:.0%} of its "
        f"weight, and {TIMES:g} times what equal weights would give, is on: {kinds}."
    )


@cache
def _template(name: str) -> str:
    return (files("attnlab.explain") / "templates" / name).read_text(encoding="utf-8")
