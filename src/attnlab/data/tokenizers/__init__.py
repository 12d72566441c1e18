"""From text to ids: one file a way of making a tokenizer, one line here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnlab.config.registry import Registry

if TYPE_CHECKING:
    from attnlab.data.tokenizers.recipe import Recipe

TOKENIZERS: Registry[Recipe] = Registry(
    "tokenizers",
    base="attnlab.data.tokenizers.recipe:Recipe",
    default="bpe",
    variants={
        "bpe": "attnlab.data.tokenizers.bpe:Bpe",
        "word": "attnlab.data.tokenizers.word:Word",
    },
)
