"""DistilBERT's files."""

from __future__ import annotations

from attnlab.interop.families.bert import MASKED, TIED
from attnlab.interop.families.gpt2 import ACTIVATIONS
from attnlab.interop.family import Family, HeadOf
from attnlab.interop.fields import Classes, Fixed, Hidden, Named, Same
from attnlab.model.presets import PRESETS

_BLOCK = "trunk.encoder.blocks.{layer}.residuals."

DISTILBERT = Family(
    model_type="distilbert",
    preset=PRESETS["distilbert"],
    prefix="distilbert",
    fields=(
        Same("vocab_size", "vocabulary", 30_522),
        Same("max_position_embeddings", "length", 512),
        Same("dim", "width", 768),
        Same("n_layers", "layers", 6),
        Same("n_heads", "heads", 12),
        Named("activation", "feedforward", ACTIVATIONS, "gelu"),
        Hidden("hidden_dim", 3072),
        Same("dropout", "dropout", 0.1),
        Same("attention_dropout", "attention_dropout", 0.1),
    ),
    names={
        "embeddings.word_embeddings": "trunk.encoder.embedding.tokens",
        "embeddings.position_embeddings": "trunk.encoder.embedding.positions.table",
        "embeddings.LayerNorm": "trunk.encoder.embedding.norm",
        "transformer.layer.{layer}.attention.q_lin": _BLOCK + "0.inner.projections.query",
        "transformer.layer.{layer}.attention.k_lin": _BLOCK + "0.inner.projections.key",
        "transformer.layer.{layer}.attention.v_lin": _BLOCK + "0.inner.projections.value",
        "transformer.layer.{layer}.attention.out_lin": _BLOCK + "0.inner.output",
        "transformer.layer.{layer}.sa_layer_norm": _BLOCK + "0.norm",
        "transformer.layer.{layer}.ffn.lin1": _BLOCK + "1.inner.part.up",
        "transformer.layer.{layer}.ffn.lin2": _BLOCK + "1.inner.part.down",
        "transformer.layer.{layer}.output_layer_norm": _BLOCK + "1.norm",
    },
    heads=(
        HeadOf(
            "DistilBertForMaskedLM",
            MASKED,
            names={
                "vocab_projector.weight": "head.table.weight",
                "vocab_projector.bias": "head.bias",
                "vocab_transform": "head.transform.0",
                "vocab_layer_norm": "head.transform.2",
            },
            fields=(
                TIED,
                Fixed("activation", "gelu", "the language-model head's dense layer has GELU (erf) here"),
            ),
        ),
        HeadOf(
            "DistilBertForSequenceClassification",
            {"kind": "classification", "pooling": "first", "transform": "relu"},
            names={"pre_classifier": "head.transform.0", "classifier": "head.scores"},
            fields=(Classes(),),
        ),
        HeadOf(
            "DistilBertForTokenClassification",
            {"kind": "token_classification", "classes": 2},
            names={"classifier": "head.scores"},
            fields=(Classes(),),
        ),
        HeadOf("DistilBertForQuestionAnswering", {"kind": "span"}, names={"qa_outputs": "head.scores"}),
        HeadOf("DistilBertModel", {"kind": "features"}, bare=True),
    ),
)
