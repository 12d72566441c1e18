"""Attention maps as an interactive page: heads side by side, one large, lines from word to word.

Weights are stored as one byte each, the root of the weight in 255 steps: a weight near 0 is off by less than
0.00001, one near 1 by less than 0.004.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from attnlab.config.visible_text import visible
from attnlab.documents.nodes import Frame
from attnlab.explain.head_kinds import KINDS, NAMED_AT, TIMES

if TYPE_CHECKING:
    from attnlab.explain.attention_maps import AttentionMaps


def frame(maps: AttentionMaps) -> Frame:
    """All weights of all heads, and the script that draws them."""
    return Frame(
        _template("attention.html"),
        _template("attention.js"),
        {"maps": _page_data(maps), "weights": quantised(maps)},
        _notes(maps),
    )


def quantised(maps: AttentionMaps) -> bytes:
    """A byte a weight, layer by layer, head by head, row by row."""
    return b"".join(
        (layer.weights.clamp(0, 1).sqrt() * 255).round().byte().numpy().tobytes() for layer in maps.layers
    )


def _page_data(maps: AttentionMaps) -> str:
    chosen = maps.chosen
    ranks = {id(head): rank + 1 for rank, head in enumerate(maps.ranked)}
    content = {
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
    }
    return json.dumps(content, ensure_ascii=False)


def _notes(maps: AttentionMaps) -> str:
    kinds = "; ".join(f"{kind}: {keys}" for kind, keys in KINDS.items())
    return (
        f"Without it: {maps.effect}. The head is removed by setting what it reads to 0. Entropy in nats and "
        f"distance in tokens are means over queries. A head is of a kind when at least {NAMED_AT:.0%} of its "
        f"weight, and {TIMES:g} times what equal weights would give, is on: {kinds}."
    )


@cache
def _template(name: str) -> str:
    return (files("attnlab.explain") / "templates" / name).read_text(encoding="utf-8")
