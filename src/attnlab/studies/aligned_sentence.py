"""The cross-attention of one sentence that a run translates, and its test: the output without each head."""

from __future__ import annotations

import torch

from attnlab.explain.attention_maps import AttentionMaps, HeadReading
from attnlab.model.places import places_of
from attnlab.runs.result import AlignmentMap, HeadAlignment
from attnlab.session.trained import Trained

FIRST_TEXTS, SHORT = 100, 24
"""Texts of dev among which one is looked for to be drawn, and the tokens that it may have."""


def alignment(trained: Trained) -> AlignmentMap | None:
    """Where each head of cross-attention looks as the model translates the first short text of dev, the same
    for every arm; None of a model that does not look at a source, or writes nothing."""
    if not trained.translates or not looks_at_source(trained):
        return None
    source = short_source(trained)
    target = str(trained.translate(source)) if source and fits(trained, source) else ""
    if not target:
        return None
    maps = trained.attention(source, target)
    heads = [head for head in maps.ranked if head.name.crosses]
    layer = maps.layers[heads[0].layer]
    if not all(layer.weights.isfinite().all() for layer in maps.layers):
        return None  # of a model that diverged
    return {
        "sentence": source,
        "source": list(layer.keys),
        "written": list(layer.queries),
        "effect": maps.effect,
        "heads": [head_alignment(maps, head) for head in heads],
    }


def head_alignment(maps: AttentionMaps, head: HeadReading) -> HeadAlignment:
    weights = maps.layers[head.layer].weights[head.name.number]
    rounded: list[list[float]] = torch.round(weights.double(), decimals=4).tolist()
    return {"name": str(head.name), "weights": rounded, "effect": head.effect}


def looks_at_source(trained: Trained) -> bool:
    """Whether there is attention between a target and its source."""
    return any(name.endswith("cross_attention.weights") for name in places_of(trained.model.trunk))


def short_source(trained: Trained) -> str:
    """The first text of dev that a picture has room for; none where there is no such text."""
    if "dev" not in trained.dataset.splits.names:
        return ""
    texts = (example.text for example in trained.dataset.first("dev", FIRST_TEXTS))
    return next((text for text in texts if len(trained.tokenizer.encode(text)) <= SHORT), "")


def fits(trained: Trained, source: str) -> bool:
    ids = trained.tokenizer.form.single(trained.tokenizer.encode(source))
    return len(ids) <= trained.config.longest_text
