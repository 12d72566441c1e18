"""Checks of any torch module, by the words of our own: dependency, padding and batch, cache, tokenizer."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tokenizers as library
import torch
from torch import Tensor, nn

from attnlab.checks.check import Check
from attnlab.checks.decoding import Decoding
from attnlab.checks.dependency import Dependency
from attnlab.checks.invariance import LENGTHS, Invariance, distance
from attnlab.checks.probing import LONGEST, SLACK, probe
from attnlab.checks.tokenizer import TokenizerIdentity
from attnlab.config.values import ConfigError
from attnlab.data.tokenizers.tokenizer import Tokenizer
from attnlab.generation.decoder import padded
from attnlab.interop.asking import AskedModule, Claim, TooLargeError, facts_of
from attnlab.interop.belonging import ROLES, strangeness
from attnlab.model.model import Model
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.runs.typed import Value

CACHED = 10
"""Tokens that are given one by one, with a cache."""


@dataclass(frozen=True)
class Point:
    """A moment in someone else's training, or none in particular."""

    when: When = "before"


def check_module(
    module: nn.Module,
    *,
    tokenizer: Any = None,
    vocabulary: int | None = None,
    mask: Claim | None = None,
    forward: Callable[[nn.Module, Tensor], Any] | None = None,
    length: int = 12,
    whole: int = 512,
    of: str = "",
    when: When = "before",
) -> list[Finding]:
    """What a module's answers depend on, whether padding and company change them, whether its cache is right,
    and whether a tokenizer is its own. `of` says whose implementation it is."""
    at = Point(when)
    try:
        asked = AskedModule.of(module, vocabulary=vocabulary, mask=mask, forward=forward)
    except TooLargeError as error:
        findings = [too_large(check, at, error) for check in (Dependency(), Invariance(), Decoding())]
    else:
        work: list[Callable[[], Finding]] = [
            lambda: dependency(asked, at, length=length, whole=whole),
            lambda: invariance(asked, at),
            lambda: decoding(asked, at),
        ]
        findings = [timed_finding(one) for one in work]
    if tokenizer is not None:
        findings.append(timed_finding(lambda: tokenizer_of(module, tokenizer, at)))
    return [replace(one, implementation=of) for one in findings]


def timed_finding(work: Callable[[], Finding]) -> Finding:
    began = time.perf_counter()
    finding = work()
    return replace(finding, seconds=time.perf_counter() - began)


def cannot_be_asked(check: Check, at: Point, error: Exception) -> Finding:
    """A module that cannot be asked is neither sound nor unsound."""
    reason = next(iter(str(error).splitlines()), "") or type(error).__name__
    return check.finding(at, Outcome.NOT_APPLICABLE, "cannot_be_asked", error=reason)


def too_large(check: Check, at: Point, error: TooLargeError) -> Finding:
    return check.finding(at, Outcome.NOT_APPLICABLE, "too_large", **error.values)


def dependency(asked: AskedModule, at: Point, *, length: int = 12, whole: int = 512) -> Finding:
    """Declared mask against measured dependence."""
    check = Dependency()
    try:
        if not asked.each_place():
            return check.finding(at, Outcome.NOT_APPLICABLE, "one_answer")
        probed = probe(
            asked.module, asked.vocabulary, asked.mask, length=length, whole=whole, forward=asked.probed
        )
    except ConfigError as error:
        return cannot_be_asked(check, at, error)
    finding = check.judge(at, probed, asked.module)
    given: dict[str, Value] = {"asked_mask": asked.mask, "asked_source": asked.reads_source}
    return replace(finding, values={**finding.values, **given})


def invariance(asked: AskedModule, at: Point) -> Finding:
    """The same texts alone, padded on either side, and in another order."""
    check = Invariance()
    rows = asked.random_rows(LENGTHS)
    try:
        gaps = arrangements(asked, rows)
    except Exception as error:  # whatever another project's model raises
        return cannot_be_asked(check, at, error)
    if not gaps:
        return check.finding(at, Outcome.NOT_APPLICABLE, "no_padding")
    return check.judge(at, gaps, len(rows), SLACK)


def arrangements(asked: AskedModule, rows: Sequence[Tensor]) -> Mapping[str, float]:
    """How far texts score differently than alone, of the largest, in each arrangement that can be asked."""
    alone = [answers(asked, [row])[0] for row in rows]
    gaps = {}
    if asked.masks_padding or asked.mask == "causal":
        gaps["padded on the right"] = gap(answers(asked, rows), alone)
        gaps["in another order"] = gap(answers(asked, rows[::-1]), alone[::-1])
    if asked.masks_padding and asked.places_padding and asked.forward is None and alone[0].ndim == 2:
        placed = [answers(asked, [row], side="left", places=True)[0] for row in rows]
        gaps["padded on the left"] = gap(answers(asked, rows, side="left", places=True), placed)
    return gaps


def answers(
    asked: AskedModule, rows: Sequence[Tensor], *, side: str = "right", places: bool = False
) -> list[Tensor]:
    """Each row's scores at its real places, or the one answer that it has."""
    ids, real = padded([row.tolist() for row in rows], side=side)
    if real is not None:
        ids = torch.where(real, ids, asked.pad)
    scores = asked.scores(ids, real, places=places)
    if scores.ndim == 2:
        return list(scores)
    kept = torch.ones_like(ids, dtype=torch.bool) if real is None else real
    return [row[where] for row, where in zip(scores, kept, strict=True)]


def gap(own: Sequence[Tensor], alone: Sequence[Tensor]) -> float:
    return max(distance(a, b, float(b.abs().max())) for a, b in zip(own, alone, strict=True))


def decoding(asked: AskedModule, at: Point) -> Finding:
    """Tokens given one by one, with a cache, against all at once."""
    check = Decoding()
    if isinstance(asked.module, Model):
        room = int(min(asked.module.trunk.longest, LONGEST))
        return check.of_model(at, asked.module, asked.vocabulary, room)
    if asked.mask != "causal" or not {"past_key_values", "use_cache"} <= asked.takes:
        return check.finding(at, Outcome.NOT_APPLICABLE, "no_cache")
    ids = torch.stack(asked.random_rows([CACHED], seed=3))
    try:
        whole = asked.scores(ids)[0]
        cached = cached_scores(asked, ids)
    except Exception as error:  # whatever another project's model raises
        return cannot_be_asked(check, at, error)
    return check.judge(at, distance(cached, whole, float(whole.abs().max())), CACHED, SLACK)


@torch.no_grad()
def cached_scores(asked: AskedModule, ids: Tensor) -> Tensor:
    """(T,V): the first two tokens at once, each other one with what the module kept of those before it."""
    output = asked.call(ids[:, :2], use_cache=True)
    parts = [output.logits[0]]
    for place in range(2, ids.shape[1]):
        kept = {"past_key_values": output.past_key_values, "use_cache": True}
        output = asked.call(ids[:, place : place + 1], **kept)
        parts.append(output.logits[0])
    return torch.cat(parts)


def tokenizer_of(module: nn.Module, tokenizer: Any, at: Point) -> Finding:
    """Whether a tokenizer of transformers, or one of ours, belongs to a module."""
    check = TokenizerIdentity()
    own = own_tokenizer(tokenizer)
    config = getattr(module, "config", None)
    embedding = getattr(module, "get_input_embeddings", lambda: None)()
    if own is None or not isinstance(embedding, nn.Embedding):
        return check.finding(at, Outcome.NOT_APPLICABLE, "unknown")
    names = {role: getattr(tokenizer, f"{role}_token", None) for role in ROLES}
    named = {role: str(name) for role, name in names.items() if name}
    rows = embedding.num_embeddings
    reasons = list(strangeness(own, rows, facts_of(config), named))
    if reasons:
        differences = [{"kind": "strange", "error": reason} for reason in reasons]
        return check.finding(at, Outcome.FAIL, "other", differences=differences)
    return check.finding(at, Outcome.PASS, "fits", 0.0, ids=own.size, rows=rows)


def own_tokenizer(tokenizer: Any) -> Tokenizer | None:
    """A tokenizer of ours with the same ids as a fast one of transformers, which stays as it is."""
    if isinstance(tokenizer, Tokenizer):
        return tokenizer
    inner = getattr(tokenizer, "backend_tokenizer", tokenizer)
    return (
        Tokenizer(library.Tokenizer.from_str(inner.to_str()))
        if isinstance(inner, library.Tokenizer)
        else None
    )
