"""Checks of any torch module: dependency, padding and batch, cache, and whether a tokenizer is its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import tokenizers as library
from torch import nn

from attnlab.checks.check import Check, raised
from attnlab.checks.decoding import Decoding
from attnlab.checks.dependency import Dependency
from attnlab.checks.invariance import Invariance
from attnlab.checks.module_subject import Claim, Forward, TooLargeError, subject_of
from attnlab.checks.subject import LENGTH, LONGEST, ModelCheck
from attnlab.checks.token_ids import TokenIds
from attnlab.checks.tokenizer import TokenizerIdentity
from attnlab.data.tokenizers.tokenizer import Tokenizer
from attnlab.interop.belonging import ROLES, strangeness
from attnlab.runs.findings import Finding, Outcome, When

OF_MODULES: tuple[type[ModelCheck], ...] = (Dependency, Invariance, Decoding, TokenIds)
"""The checks that any module can be asked."""


def check_module(
    module: nn.Module,
    *,
    tokenizer: Any = None,
    vocabulary: int | None = None,
    mask: Claim | None = None,
    forward: Forward | None = None,
    length: int = LENGTH,
    whole: int = LONGEST,
    of: str = "",
    when: When = "before",
) -> list[Finding]:
    """What a module's answers depend on, whether padding and company change them, whether its cache is right,
    and whether a tokenizer is its own. `of` says whose implementation it is."""
    try:
        subject = subject_of(
            module,
            vocabulary=vocabulary,
            mask=mask,
            forward=forward,
            length=length,
            whole=whole,
            when=when,
        )
    except TooLargeError as error:
        findings = [check().unasked(when, error) for check in OF_MODULES]
    else:
        findings = [guarded_finding(check(), when, partial(check().ask, subject)) for check in OF_MODULES]
        findings = [after_leak(finding, findings[0]) for finding in findings]
    if tokenizer is not None:
        work = partial(tokenizer_of, module, tokenizer, when)
        findings.append(guarded_finding(TokenizerIdentity(), when, work))
    return [replace(finding, implementation=of) for finding in findings]


def after_leak(finding: Finding, dependency: Finding) -> Finding:
    """What padding on the right changes where outputs depend on later tokens: not a fault of its own."""
    padded = finding.check == "invariance" and finding.values.get("arrangement") == "padded on the right"
    leaks = dependency.kind == "leak" and dependency.values.get("ahead", 0)
    return replace(finding, kind="leaked") if padded and leaks and finding.kind == "differ" else finding


def guarded_finding(check: Check, when: When, work: Callable[[], Finding]) -> Finding:
    """What a check finds; where it raises an error, that is what it found."""

    def made() -> Finding:
        try:
            return work()
        except Exception as error:  # of anybody's model, data or tokenizer: the others are still asked
            return check.finding(when, Outcome.WARN, "raised", None, **raised(error))

    return timed_finding(made)


def timed_finding(work: Callable[[], Finding]) -> Finding:
    began = time.perf_counter()
    finding = work()
    return replace(finding, seconds=time.perf_counter() - began)


def tokenizer_of(module: nn.Module, tokenizer: Any, when: When = "before") -> Finding:
    """Whether a tokenizer of transformers, or one of ours, belongs to a module."""
    check = TokenizerIdentity()
    own = own_tokenizer(tokenizer)
    config = getattr(module, "config", None)
    embedding = getattr(module, "get_input_embeddings", lambda: None)()
    if own is None or not isinstance(embedding, nn.Embedding):
        return check.finding(when, Outcome.NOT_APPLICABLE, "unknown")
    names = {role: getattr(tokenizer, f"{role}_token", None) for role in ROLES}
    named = {role: str(name) for role, name in names.items() if name}
    rows = embedding.num_embeddings
    reasons = list(strangeness(own, rows, facts_of(config), named))
    if reasons:
        differences = [{"kind": "strange", "error": reason} for reason in reasons]
        return check.finding(when, Outcome.FAIL, "other", differences=differences)
    return check.finding(when, Outcome.PASS, "fits", 0.0, ids=own.size, rows=rows)


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


def facts_of(config: object) -> Mapping[str, Any]:
    """A config of transformers as what its config.json holds."""
    to_dict = getattr(config, "to_dict", None)
    return dict(to_dict()) if callable(to_dict) else {}
