"""A folder in transformers' layout, checked as transformers runs it, as attnlab runs it, and one against the
other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from attnlab.checks.invariance import distance
from attnlab.checks.module_subject import (
    SLACK,
    ModuleSubject,
    TooLargeError,
    claimed_mask,
    refuse_too_large,
)
from attnlab.checks.subject import OwnSubject
from attnlab.checks.tensors import Tensors
from attnlab.checks.tokenizer import TokenizerIdentity
from attnlab.config.untrusted import read_json
from attnlab.config.values import ConfigError
from attnlab.data.tokenizers.tokenizer import Tokenizer
from attnlab.data.tokenizers.tokenizer_files import load as load_tokenizer
from attnlab.interop.exchange import reasons_against
from attnlab.interop.foreign import CONFIG, ContradictionError, Foreign, load_model
from attnlab.interop.module_checks import check_module, timed_finding
from attnlab.interop.read_back import NotLoadedError, implementation_of, load_by_transformers
from attnlab.model.model import Model
from attnlab.runs.findings import Finding, Outcome

TEXT = "The quick brown fox jumps over the lazy dog."
OURS = "attnlab"


def of_published(folder: Path, *, tell: Callable[[str], None] = lambda message: None) -> list[Finding]:
    """What the checks find in the model of a folder, by each implementation that can run it."""
    config, tokenizer = read_json(folder / CONFIG), tokenizer_in(folder)
    tell("Loading the model with transformers")
    theirs, findings = None, list[Finding]()
    try:
        theirs, info = load_by_transformers(folder, config)
    except NotLoadedError as error:
        findings.append(not_run(error.implementation, str(error)))
    else:
        tell(f"Checking {implementation_of(theirs)}")
        findings += check_module(theirs, tokenizer=tokenizer, of=implementation_of(theirs))
        findings += lost_tensors(theirs, info)
    tell("Loading the model with attnlab")
    try:
        ours = load_model(folder)
    except ContradictionError as error:
        return [*findings, contradiction(error)]
    except ConfigError as error:
        return [*findings, not_run(OURS, f"attnlab cannot load this folder: {error}")]
    tell("Checking attnlab's implementation")
    mask = claimed_mask(ours.model if theirs is None else theirs)
    findings += check_module(ours.model, mask=mask, of=f"{OURS} ({ours.certificate.architecture})")
    findings += other_tokenizer(tokenizer, ours, folder)
    if theirs is not None:
        findings.append(timed_finding(lambda: same_answers(theirs, ours, tokenizer)))
    return findings


def other_tokenizer(tokenizer: Tokenizer | None, ours: Foreign, folder: Path) -> list[Finding]:
    """Why the folder's tokenizer is not the one that its weights were saved with; nothing where it can be."""
    reasons = [] if tokenizer is None else reasons_against(tokenizer, ours, folder)
    if not reasons:
        return []
    differences = [{"kind": "strange", "error": reason} for reason in reasons]
    finding = TokenizerIdentity().finding("before", Outcome.FAIL, "other", differences=differences)
    return [replace(finding, implementation=f"{OURS} ({ours.certificate.architecture})")]


def of_imported(model: Model, architecture: str, origin: str) -> list[Finding]:
    """What the checks find in a model that was imported from `origin`. What text it was trained on is not
    known, and neither is how it is run there."""
    by_us = f"{OURS} ({architecture})"
    only = not_run(by_us, f"only attnlab's code was checked; for transformers': attnlab check {origin}")
    return [*check_module(model, of=by_us), replace(only, check="implementations")]


def not_run(implementation: str, reason: str) -> Finding:
    return Finding(
        check="dependency",
        when="before",
        outcome=Outcome.NOT_APPLICABLE,
        kind="not_run",
        values={"reason": reason},
        implementation=implementation,
    )


def tokenizer_in(folder: Path) -> Tokenizer | None:
    try:
        return load_tokenizer(folder)
    except ConfigError:
        return None


def lost_tensors(module: nn.Module, info: Mapping[str, Any]) -> list[Finding]:
    """Weights that its files do not hold: they are drawn anew each time."""
    lost = sorted(map(str, info.get("missing_keys", ())))
    finding = Tensors().finding("before", Outcome.FAIL, "not_in_files", names=lost)
    return [replace(finding, implementation=implementation_of(module))] if lost else []


def contradiction(error: ContradictionError) -> Finding:
    return Finding(
        check="export",
        when="before",
        outcome=Outcome.FAIL,
        kind=error.kind,
        values=error.values,
        implementation=OURS,
    )


def same_answers(theirs: nn.Module, ours: Foreign, tokenizer: Tokenizer | None) -> Finding:
    """Whether both implementations give the same scores to one text."""
    common: dict[str, Any] = {"check": "implementations", "when": "before", "implementation": "both"}
    try:
        refuse_too_large(theirs)
    except TooLargeError as error:
        too_large: dict[str, Any] = {"kind": error.kind, "values": error.values}
        return Finding(outcome=Outcome.NOT_APPLICABLE, **too_large, **common)
    first, second = ModuleSubject(theirs), OwnSubject(ours.model)
    ids, shown = torch.stack(first.random_rows([12])), "12 random token ids"
    encoded = [] if tokenizer is None else tokenizer.encode(TEXT)
    if 1 < len(encoded) <= ours.config.length:
        ids, shown = torch.tensor([encoded]), f"“{TEXT}”"
    their_scores, our_scores = first.answers(ids), second.answers(ids, source=first.source_rows(1))
    if their_scores.ndim > our_scores.ndim:  # a trunk of theirs also names a summary of its places
        with torch.no_grad():
            their_scores = getattr(first.call(ids), "pooler_output", their_scores)
    same = their_scores.shape == our_scores.shape
    size = distance(our_scores, their_scores, float(their_scores.abs().max())) if same else torch.inf
    outcome, kind = (Outcome.FAIL, "differ") if size > SLACK else (Outcome.PASS, "agree")
    return Finding(outcome=outcome, kind=kind, values={"text": shown}, number=float(size), **common)
