"""Attention rules: how queries, keys and values become an output. One file, one rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnlab.config.registry import Registry

if TYPE_CHECKING:
    from attnlab.model.attention.rule import Rule

ATTENTION: Registry[Rule] = Registry(
    "attention",
    base="attnlab.model.attention.rule:Rule",
    default="dot",
    variants={
        "dot": "attnlab.model.attention.dot:Dot",
        "additive": "attnlab.model.attention.additive:Additive",
        "argmax": "attnlab.model.attention.argmax:Argmax",
        "linear": "attnlab.model.attention.linear:Linear",
        "group": "attnlab.model.attention.group:Group",
        "window": "attnlab.model.attention.window:Window",
    },
)
