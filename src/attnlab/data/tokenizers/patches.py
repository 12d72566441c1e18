"""The ids of pictures alone: there is no text to tokenise."""

from __future__ import annotations

from collections.abc import Iterable

import tokenizers as library

from attnlab.data.tokenizers.tokenizer import Tokenizer
from attnlab.data.tokenizers.tokenizer_recipe import TokenizerRecipe

CLASS, PATCH = "[CLS]", "[UNK]"


class Patches(TokenizerRecipe):
    """For pictures alone: a class token, and one id for all patches, as ViT has them. It reads no text.

    A model with it can be written in the layout of transformers' ViT (attnlab convert).
    """

    trains = False
    vocabulary = 2

    def make(self, texts: Iterable[str]) -> Tokenizer:
        return patches()


def patches() -> Tokenizer:
    """A class token, and then patches."""
    made = library.Tokenizer(library.models.WordLevel({CLASS: 0, PATCH: 1}, unk_token=PATCH))
    made.add_special_tokens([CLASS, PATCH])
    made.post_processor = library.processors.TemplateProcessing(
        single=f"{CLASS} $A", pair=f"{CLASS} $A $B", special_tokens=[(CLASS, 0)]
    )
    return Tokenizer(made)
