"""Adapters: small trained parts on a frozen model. One file, one adapter."""

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
        "full": "attnlab.model.adapters.full:Full",
        "prompt": "attnlab.model.adapters.prompt:Prompt",
        "prefix": "attnlab.model.adapters.prefix:Prefix",
        "lora": "attnlab.model.adapters.lora:Lora",
        "head": "attnlab.model.adapters.head:HeadOnly",
        "top": "attnlab.model.adapters.top:Top",
        "bitfit": "attnlab.model.adapters.bitfit:BitFit",
    },
)
