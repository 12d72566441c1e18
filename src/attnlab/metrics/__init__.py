"""Metrics: a number with its name, its better side, its definition, and what each example adds to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnlab.config.registry import Registry

if TYPE_CHECKING:
    from attnlab.metrics.metric import Metric

METRICS: Registry[Metric] = Registry(
    "metrics",
    base="attnlab.metrics.metric:Metric",
    default="loss",
    variants={
        "loss": "attnlab.metrics.words:Loss",
        "perplexity": "attnlab.metrics.words:Perplexity",
        "bits_per_byte": "attnlab.metrics.words:BitsPerByte",
        "accuracy": "attnlab.metrics.classes:Accuracy",
        "macro_f1": "attnlab.metrics.classes:MacroF1",
        "matthews": "attnlab.metrics.classes:Matthews",
        "calibration_error": "attnlab.metrics.classes:CalibrationError",
        "exact_sets": "attnlab.metrics.classes:ExactSets",
        "micro_f1": "attnlab.metrics.classes:MicroF1",
        "mean_squared_error": "attnlab.metrics.numbers:MeanSquaredError",
        "mean_absolute_error": "attnlab.metrics.numbers:MeanAbsoluteError",
        "explained_variance": "attnlab.metrics.numbers:ExplainedVariance",
        "pearson": "attnlab.metrics.numbers:Pearson",
        "spearman": "attnlab.metrics.numbers:Spearman",
        "entity_f1": "attnlab.metrics.tags:EntityF1",
        "entity_precision": "attnlab.metrics.tags:EntityPrecision",
        "entity_recall": "attnlab.metrics.tags:EntityRecall",
        "tag_accuracy": "attnlab.metrics.tags:TagAccuracy",
        "invalid_tags": "attnlab.metrics.tags:InvalidTags",
        "span_f1": "attnlab.metrics.answers:SpanF1",
        "exact_match": "attnlab.metrics.answers:ExactMatch",
        "span_f1_answerable": "attnlab.metrics.answers:SpanF1Answerable",
        "exact_match_answerable": "attnlab.metrics.answers:ExactMatchAnswerable",
        "exact_match_unanswerable": "attnlab.metrics.answers:ExactMatchUnanswerable",
        "reciprocal_rank": "attnlab.metrics.retrieval:ReciprocalRank",
        "recall_at_1": "attnlab.metrics.retrieval:RecallAt1",
        "recall_at_10": "attnlab.metrics.retrieval:RecallAt10",
        "bleu": "attnlab.metrics.written:Bleu",
        "chrf": "attnlab.metrics.written:Chrf",
        "rouge1": "attnlab.metrics.written:Rouge1",
        "rouge2": "attnlab.metrics.written:Rouge2",
        "rougeL": "attnlab.metrics.written:RougeL",
        "exact_text": "attnlab.metrics.written:ExactText",
        "copied1": "attnlab.metrics.copied:Copied1",
        "copied2": "attnlab.metrics.copied:Copied2",
        "copied3": "attnlab.metrics.copied:Copied3",
        "copied4": "attnlab.metrics.copied:Copied4",
    },
)
