"""Heads: what is made of the trunk's output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnlab.config.registry import Registry

if TYPE_CHECKING:
    from attnlab.model.heads.head import Head

HEADS: Registry[Head] = Registry(
    "heads",
    base="attnlab.model.heads.head:Head",
    default="language_model",
    variants={
        "language_model": "attnlab.model.heads.language:LanguageModel",
        "span_boundary": "attnlab.model.heads.boundary:SpanBoundary",
        "sentence_pair": "attnlab.model.heads.labels:SentencePair",
        "classification": "attnlab.model.heads.labels:Classification",
        "token_classification": "attnlab.model.heads.labels:TokenClassification",
        "span": "attnlab.model.heads.span:Span",
        "features": "attnlab.model.heads.features:Features",
        "sentence": "attnlab.model.heads.sentence:Sentence",
        "contrast": "attnlab.model.heads.sentence:Contrast",
    },
)
