"""Checks: does this run mean what it claims? One file a check; each says what it found and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attnlab.config.registry import Registry, locate

if TYPE_CHECKING:
    from attnlab.checks.check import Check

CHECKS: Registry[Check] = Registry(
    "checks",
    base="attnlab.checks.check:Check",
    default="dependency",
    variants={
        "dependency": "attnlab.checks.dependency:Dependency",
        "allowed_pairs": "attnlab.checks.allowed_pairs:AllowedPairs",
        "token_ids": "attnlab.checks.token_ids:TokenIds",
        "invariance": "attnlab.checks.invariance:Invariance",
        "decoding": "attnlab.checks.decoding:Decoding",
        "first_loss": "attnlab.checks.first_loss:FirstLoss",
        "overfit": "attnlab.checks.overfit:Overfit",
        "targets": "attnlab.checks.targets:Targets",
        "answers": "attnlab.checks.answers:Answers",
        "visible_targets": "attnlab.checks.visible_targets:VisibleTargets",
        "fully_masked": "attnlab.checks.fully_masked:FullyMasked",
        "accumulation": "attnlab.checks.accumulation:Accumulation",
        "processes": "attnlab.checks.processes:Processes",
        "truncation": "attnlab.checks.truncation:Truncation",
        "unknown_words": "attnlab.checks.unknown_words:UnknownWords",
        "source_rows": "attnlab.checks.source_rows:SourceRows",
        "giveaway": "attnlab.checks.giveaway:Giveaway",
        "bag_of_words": "attnlab.checks.word_baseline:WordBaseline",
        "contamination": "attnlab.checks.contamination:Contamination",
        "pictures": "attnlab.checks.pictures:Pictures",
        "seen_references": "attnlab.checks.seen_references:SeenReferences",
        "scored_rows": "attnlab.checks.scored_rows:ScoredRows",
        "query_duplicates": "attnlab.checks.query_duplicates:QueryDuplicates",
        "attention": "attnlab.checks.attention:Attention",
        "ranges": "attnlab.checks.ranges:Ranges",
        "replayed_step": "attnlab.checks.replayed_step:ReplayedStep",
        "recomputed_loss": "attnlab.checks.recomputed_loss:RecomputedLoss",
        "recomputed_metrics": "attnlab.checks.recomputed_metrics:RecomputedMetrics",
        "honesty": "attnlab.checks.honesty:Honesty",
        "denominators": "attnlab.checks.denominators:Denominators",
        "samples": "attnlab.checks.samples:Samples",
        "decoded_texts": "attnlab.checks.decoded_texts:DecodedTexts",
        "outputs": "attnlab.checks.outputs:Outputs",
        "text_pairs": "attnlab.checks.text_pairs:TextPairs",
        "learned": "attnlab.checks.learned:Learned",
        "majority": "attnlab.checks.majority:Majority",
        "collapse": "attnlab.checks.collapse:Collapse",
        "threshold": "attnlab.checks.threshold:Threshold",
        "examples": "attnlab.checks.examples:Examples",
        "best_step": "attnlab.checks.best_step:BestStep",
        "modalities": "attnlab.checks.modalities:Modalities",
        "inputs_matter": "attnlab.checks.inputs_matter:InputsMatter",
        "parameters": "attnlab.checks.parameters:Parameters",
        "moved": "attnlab.checks.moved:Moved",
        "throughput": "attnlab.checks.throughput:Throughput",
        "tokenizer": "attnlab.checks.tokenizer:TokenizerIdentity",
        "tensors": "attnlab.checks.tensors:Tensors",
        "reload": "attnlab.checks.reload:Reload",
    },
)


LAZY = {
    "probe": "attnlab.checks.probing:probe",
    "judge": "attnlab.targets.predictions:judge",
    "comparable": "attnlab.checks.comparable_runs:comparable",
}


def __getattr__(name: str) -> Any:
    """`attnlab.checks.probe` and its like, imported when first asked for: listing checks loads no torch."""
    if name in LAZY:
        return locate(LAZY[name])
    raise AttributeError(f"attnlab.checks has no {name!r}")
