"""Adapters: small trained parts on a frozen model. One class, one adapter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnlab.config.registry import Registry

if TYPE_CHECKING:
    from attnlab.model.adapters.adapter import Adapter

ADAPTERS: Registry[Adapter] = Registry(
    "adapters",
    base="attnlab.model.adapters.adapter:Adapter",
    default="full",
    variants={
        "full": "attnlab.model.adapters.chosen:Full",
        "prompt": "attnlab.model.adapters.prompt:Prompt",
        "prefix": "attnlab.model.adapters.prefix:Prefix",
        "lora": "attnlab.model.adapters.lora:Lora",
        "head": "attnlab.model.adapters.chosen:HeadOnly",
        "top": "attnlab.model.adapters.chosen:Top",
        "bitfit": "attnlab.model.adapters.chosen:BitFit",
    },
)
