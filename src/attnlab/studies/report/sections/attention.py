"""Where the arms look: one sentence, a map an arm, by layer and head."""

from __future__ import annotations

import math
from typing import Any

from attnlab.documents.nodes import Control, Figure, Heat, Name, Node, Sentence
from attnlab.studies.report.study_results import StudyResults

MOST_TOKENS = 64
MOST_WEIGHTS = 500_000
"""Of all maps together: about a megabyte in the page."""


def attention(study: StudyResults) -> list[Node]:
    found = study.outcome.attention
    maps = {arm: found["arms"][arm.name] for arm in study.arms if arm.name in (found.get("arms") or {})}
    maps = {arm: layers for arm, layers in maps.items() if layers}
    tokens = [str(token) for token in found.get("tokens") or []]
    if not maps or not tokens:
        return []
    layers = max(map(len, maps.values()))
    heads = max(len(layer) for of_arm in maps.values() for layer in of_arm)
    shown = min(len(tokens), MOST_TOKENS, math.isqrt(MOST_WEIGHTS // (len(maps) * layers * heads)))
    allowed = {arm: (found.get("allowed") or {}).get(arm.name) for arm in maps}
    views = {
        f"{i},{j}": _view([_map(maps[arm], i, j, shown, allowed[arm]) for arm in maps], tokens[:shown])
        for i in range(layers)
        for j in range(heads)
    }
    cut = f" The first {shown} of {len(tokens)} tokens are shown." if shown < len(tokens) else ""
    figure = Figure(
        views,
        note="A row is a query, a column a key; darker is more weight (on dark pages, brighter), on one "
        f"scale for all arms; a pair that the mask forbids has a stroke. First seed of each arm.{cut}",
        anchor="attention",
        alt=f"Attention weights of queries on keys, a map an arm: {', '.join(arm.label for arm in maps)}",
        controls=[
            Control("Layer", [str(i) for i in range(layers)]),
            Control("Head", [str(i) for i in range(heads)]),
        ],
        panels=[Name(arm.label, arm.ink, arm.sound) for arm in maps],
        square=True,
    )
    return [Sentence(found.get("sentence") or "", "quoted"), figure]


Weights = list[list[float | None]]
"""Of queries on keys; one that is forbidden, or no number of a model that diverged, is None."""


def _map(
    layers: list[Any], layer: int, head: int, size: int, allowed: list[list[int]] | None = None
) -> Weights:
    """The first `size` queries and keys of one head, to three digits; nothing if the arm has no such head.
    A pair that the mask forbids has no number, unless it has a weight all the same."""
    if layer >= len(layers) or head >= len(layers[layer]):
        return []
    rows = layers[layer][head][:size]

    def shown(query: int, key: int, weight: float | None) -> float | None:
        forbidden = allowed is not None and not weight and not allowed[query][key]
        return None if weight is None or forbidden else round(weight, 3)

    return [[shown(i, j, weight) for j, weight in enumerate(row[:size])] for i, row in enumerate(rows)]


def _view(maps: list[Weights], tokens: list[str]) -> list[Heat]:
    """One scale for all arms, so that equal colours are equal weights."""
    known = [weight for rows in maps for row in rows for weight in row if weight is not None]
    return [Heat(tokens, rows, max(known, default=1.0)) for rows in maps]
