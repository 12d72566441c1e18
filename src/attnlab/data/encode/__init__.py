"""From examples to rows of ids: one class a form, one line here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnlab.config.registry import Registry

if TYPE_CHECKING:
    from attnlab.data.encode.encoding import Encoding

ENCODINGS: Registry[Encoding] = Registry(
    "encodings",
    base="attnlab.data.encode.encoding:Encoding",
    default="document",
    variants={
        "document": "attnlab.data.encode.document:Document",
        "single": "attnlab.data.encode.texts:Single",
        "pair": "attnlab.data.encode.texts:Pair",
        "apart": "attnlab.data.encode.texts:Apart",
        "words": "attnlab.data.encode.words:Words",
        "question": "attnlab.data.encode.question:Question",
        "translation": "attnlab.data.encode.texts:Translation",
        "prefix": "attnlab.data.encode.texts:Prefix",
        "image": "attnlab.data.encode.pictures:Image",
        "image_text": "attnlab.data.encode.pictures:ImageText",
        "image_apart": "attnlab.data.encode.pictures:ImageApart",
        "image_prefix": "attnlab.data.encode.pictures:ImagePrefix",
        "image_translation": "attnlab.data.encode.pictures:ImageTranslation",
    },
)
