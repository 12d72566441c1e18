"""From examples to rows of ids: one file a form, one line here."""

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
        "single": "attnlab.data.encode.single:Single",
        "pair": "attnlab.data.encode.pair:Pair",
        "apart": "attnlab.data.encode.apart:Apart",
        "words": "attnlab.data.encode.words:Words",
        "question": "attnlab.data.encode.question:Question",
        "translation": "attnlab.data.encode.translation:Translation",
        "prefix": "attnlab.data.encode.prefix:Prefix",
    },
)
