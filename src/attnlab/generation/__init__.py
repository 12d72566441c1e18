"""Writing text with a model: greedy, sampled or by beams, and filling in what is masked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnlab.config.registry import Registry

if TYPE_CHECKING:
    from attnlab.generation.rules import DecodingRule

DECODING: Registry[DecodingRule] = Registry(
    "decoding",
    base="attnlab.generation.rules:DecodingRule",
    default="greedy",
    variants={
        "greedy": "attnlab.generation.rules:Greedy",
        "sample": "attnlab.generation.rules:Sample",
    },
)
