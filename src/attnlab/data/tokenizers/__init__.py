"""From text to ids: one class a way of making a tokenizer, one line here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnlab.config.registry import Registry
from attnlab.config.values import Choice, choice_of, unknown_name

if TYPE_CHECKING:
    from attnlab.data.tokenizers.tokenizer_recipe import TokenizerRecipe  # noqa: F401 - used in the base class below, quoted


class Tokenizers(Registry["TokenizerRecipe"]):
    """A table that also takes the path of a tokenizer's file or folder."""

    def read(self, value: Any, where: str) -> Choice:
        if not isinstance(value, str) or "(" in value:
            return choice_of(value, where)
        name = value.strip()
        if name in self:
            return Choice(name)
        if name.isidentifier() and not Path(value).exists():
            raise unknown_name(where, value, self, "neither a file nor a kind")
        return Choice("file", {"path": value})


TOKENIZERS = Tokenizers(
    "tokenizers",
    base="attnlab.data.tokenizers.tokenizer_recipe:TokenizerRecipe",
    default="bpe",
    variants={
        "bpe": "attnlab.data.tokenizers.trained:Bpe",
        "wordpiece": "attnlab.data.tokenizers.trained:WordPiece",
        "unigram": "attnlab.data.tokenizers.trained:Unigram",
        "word": "attnlab.data.tokenizers.trained:Word",
        "character": "attnlab.data.tokenizers.trained:Character",
        "patches": "attnlab.data.tokenizers.patches:Patches",
        "file": "attnlab.data.tokenizers.tokenizer_files:File",
    },
)
