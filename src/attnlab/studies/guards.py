"""What may stand side by side as equals: the same text, tokens, order and measure, or it is refused."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from attnlab.metrics.measures import measures

SURVIVES = "bits_per_byte"
"""The one loss that a change of tokenizer leaves comparable."""

UNKNOWN = "unknown_share"
"""Where it is above 0 even that does not survive: unknown words have bytes, but no letter is predicted."""

SAME_BYTES = 0.02
"""The first token of each row of a long text is not predicted, and is another stretch of text under another
tokenizer: with rows of 50 tokens or more these are 2 % of the bytes at the most."""

Fingerprints = Mapping[str, Any]


def judged_apart(one: Fingerprints, other: Fingerprints, *, metric: str) -> list[str]:
    """How the two were judged differently."""
    reasons = []
    known = measures().get(metric)
    if known is not None and known.of_task and one.get("task") != other.get("task"):
        reasons.append("their tasks differ, and so what their losses mean")
    same_tokens = one.get("tokenizer") == other.get("tokenizer")
    if not same_tokens and metric != SURVIVES:
        reasons.append(f"their tokenizers differ, so that {metric} counts other units; use {SURVIVES}")
    same_rows = dev(one) == dev(other) and dev(one) is not None
    same_text = one.get("text") == other.get("text") and one.get("text") is not None
    if not (same_rows or (same_text and not same_tokens)):
        reasons.append("they were judged on different dev examples")
    return reasons


def unspelt(one: Mapping[str, float], other: Mapping[str, float]) -> list[str]:
    """Why bits per byte of two tokenizers may not be set side by side, by the two runs' numbers."""
    share = max(one.get(UNKNOWN, 0.0), other.get(UNKNOWN, 0.0))
    reasons = []
    if share:
        unpaid = f"{share:.1%} of the targets are unknown words, whose spelling {SURVIVES} does not pay for"
        reasons.append(unpaid)
    sizes = [scored_bytes(measures) for measures in (one, other)]
    if not math.isclose(*sizes, rel_tol=SAME_BYTES):
        told = " and ".join(f"{size:,.0f}" for size in sizes)
        reasons.append(f"their texts were cut to different lengths ({told} bytes were scored)")
    return reasons


def scored_bytes(measures: Mapping[str, float]) -> float:
    """How many bytes of text stand behind a run's bits per byte, by its own numbers; 0 where it has none."""
    bits = measures.get("loss", 0.0) * measures.get("targets", 0.0) / math.log(2)
    return bits / measures[SURVIVES] if measures.get(SURVIVES) else 0.0


def trained_apart(one: Fingerprints, other: Fingerprints, *, changed: Collection[str] = ()) -> list[str]:
    """How the two were trained on different data, or on the same in another order.

    `changed` are the settings that an arm changes on purpose: data that differ by them are its point.
    """
    if any(key.startswith("data.") for key in changed):
        return []
    reasons = []
    if train(one) != train(other):
        reasons.append("they were trained on different examples")
    elif one.get("order") != other.get("order"):
        reasons.append("they saw their training examples in another order")
    return reasons


def dev(fingerprints: Fingerprints) -> str | None:
    return (fingerprints.get("data") or {}).get("dev")


def train(fingerprints: Fingerprints) -> str | None:
    return (fingerprints.get("data") or {}).get("train")
