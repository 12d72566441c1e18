"""BERT's files, and the heads that BERT-like models share."""

from __future__ import annotations

from attnlab.interop.families.gpt2 import ACTIVATIONS
from attnlab.interop.family import Family, HeadOf
from attnlab.interop.fields import Classes, Field, Fixed, Hidden, Named, Same, Some
from attnlab.interop.names import Table
from attnlab.model.presets import PRESETS

_BLOCK = "trunk.encoder.blocks.{layer}.residuals."
SIZES: tuple[Field, ...] = (
    Same("vocab_size", "vocabulary", 30_522),
    Same("hidden_size", "width", 768),
    Same("num_hidden_layers", "layers", 12),
    Same("num_attention_heads", "heads", 12),
    Named("hidden_act", "feedforward", ACTIVATIONS, "gelu"),
    Hidden("intermediate_size", 3072),
    Same("layer_norm_eps", "norm.eps", 1e-12),
    Some("type_vocab_size", "token_types", 2),
    Same("hidden_dropout_prob", "dropout", 0.1),
    Same("attention_probs_dropout_prob", "attention_dropout", 0.1),
    Fixed("is_decoder", False, "only encoders of this family have a preset here"),
    Fixed("add_cross_attention", False, "only encoders of this family have a preset here"),
    Fixed("position_embedding_type", "absolute", "relative keys have no preset here"),
)
TRUNK: Table = {
    "embeddings.word_embeddings": "trunk.encoder.embedding.tokens",
    "embeddings.position_embeddings": "trunk.encoder.embedding.positions.table",
    "embeddings.token_type_embeddings": "trunk.encoder.embedding.types",
    "embeddings.LayerNorm": "trunk.encoder.embedding.norm",
    "encoder.layer.{layer}.attention.self.query": _BLOCK + "0.inner.projections.query",
    "encoder.layer.{layer}.attention.self.key": _BLOCK + "0.inner.projections.key",
    "encoder.layer.{layer}.attention.self.value": _BLOCK + "0.inner.projections.value",
    "encoder.layer.{layer}.attention.output.dense": _BLOCK + "0.inner.output",
    "encoder.layer.{layer}.attention.output.LayerNorm": _BLOCK + "0.norm",
    "encoder.layer.{layer}.intermediate.dense": _BLOCK + "1.inner.part.up",
    "encoder.layer.{layer}.output.dense": _BLOCK + "1.inner.part.down",
    "encoder.layer.{layer}.output.LayerNorm": _BLOCK + "1.norm",
}
MASKED = {"kind": "language_model", "bias": True, "transform": "dense"}
TIED = Same("tie_word_embeddings", "output.tied", True)
ERF = Fixed("hidden_act", "gelu", "the language-model head's dense layer has GELU (erf) here")
_PREDICTIONS: Table = {
    "cls.predictions.decoder.weight": "head.table.weight",
    "cls.predictions.decoder.bias": "head.bias",
    "cls.predictions.bias": "head.bias",
    "cls.predictions.transform.dense": "head.transform.0",
    "cls.predictions.transform.LayerNorm": "head.transform.2",
}
_COPIES = ("cls.predictions.bias",)
_POOLER = ("pooler.dense.*",)
_POOLED = {"kind": "classification", "classes": 2, "pooling": "first", "transform": "tanh"}

BERT = Family(
    model_type="bert",
    preset=PRESETS["bert"],
    prefix="bert",
    fields=(*SIZES, Same("max_position_embeddings", "length", 512)),
    names=TRUNK,
    heads=(
        HeadOf(
            "BertForMaskedLM",
            MASKED,
            names=_PREDICTIONS,
            copies=_COPIES,
            fields=(TIED, ERF),
            beside=(*_POOLER, "cls.seq_relationship.*"),
        ),
        HeadOf(
            "BertForPreTraining",
            {"kind": "sentence_pair", "bias": True, "transform": "dense"},
            names=_PREDICTIONS
            | {"bert.pooler.dense": "head.pair.transform.0", "cls.seq_relationship": "head.pair.scores"},
            copies=_COPIES,
            fields=(TIED, ERF),
        ),
        HeadOf(
            "BertForSequenceClassification",
            _POOLED,
            names={"bert.pooler.dense": "head.transform.0", "classifier": "head.scores"},
            fields=(Classes(),),
        ),
        HeadOf(
            "BertForNextSentencePrediction",
            _POOLED,
            names={"bert.pooler.dense": "head.transform.0", "cls.seq_relationship": "head.scores"},
        ),
        HeadOf(
            "BertForTokenClassification",
            {"kind": "token_classification", "classes": 2},
            names={"classifier": "head.scores"},
            fields=(Classes(),),
            beside=_POOLER,
        ),
        HeadOf(
            "BertForQuestionAnswering", {"kind": "span"}, names={"qa_outputs": "head.scores"}, beside=_POOLER
        ),
        HeadOf(
            "BertModel",
            {"kind": "features", "pooling": "first", "transform": "tanh"},
            names={"pooler.dense": "head.transform.0"},
            bare=True,
        ),
    ),
    beside=("embeddings.position_ids",),
    old={".gamma": ".weight", ".beta": ".bias"},
)
