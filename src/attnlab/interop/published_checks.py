"""A folder in transformers' layout, checked as transformers runs it, as attnlab runs it, and one against the
other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from attnlab.checks.probing import SLACK
from attnlab.checks.tensors import Tensors
from attnlab.config.untrusted import read_json
from attnlab.config.values import ConfigError
from attnlab.data.tokenizers.tokenizer import Tokenizer
from attnlab.data.tokenizers.tokenizer_files import load as load_tokenizer
from attnlab.interop.asking import AskedModule, TooLargeError, claimed_mask
from attnlab.interop.foreign import CONFIG, Foreign, load_model
from attnlab.interop.module_checks import Point, check_module, gap, timed_finding
from attnlab.model.model import Model
from attnlab.runs.findings import Finding, Outcome

TEXT = "The quick brown fox jumps over the lazy dog."
OURS = "attnlab"


@dataclass(frozen=True)
class Loaded:
    """A module as transformers loads it, and whose code that is; or the reason why it does not."""

    module: nn.Module | None
    implementation: str
    reason: str = ""
    lost: tuple[str, ...] = ()
    """What its files do not hold: these weights are drawn anew each time."""


def of_published(folder: Path, *, tell: Callable[[str], None] = lambda message: None) -> list[Finding]:
    """What the checks find in the model of a folder, by each implementation that can run it."""
    config, tokenizer = read_json(folder / CONFIG), tokenizer_in(folder)
    tell("Loading the model with transformers")
    theirs = loaded_there(folder, config)
    findings = of_loaded(theirs, tokenizer, tell)
    tell("Loading the model with attnlab")
    try:
        ours = load_model(folder)
    except ConfigError as error:
        return [*findings, not_run(OURS, f"attnlab cannot load this folder: {error}")]
    tell("Checking attnlab's implementation")
    mask = claimed_mask(ours.model if theirs.module is None else theirs.module)
    findings += check_module(ours.model, mask=mask, of=f"{OURS} ({ours.certificate.architecture})")
    if theirs.module is not None:
        findings.append(timed_finding(lambda: same_answers(theirs, ours, tokenizer)))
    return findings


def of_imported(model: Model, architecture: str, origin: str) -> list[Finding]:
    """What the checks find in a model that was imported from `origin`. What text it was trained on is not
    known, and neither is how it is run there."""
    by_us = f"{OURS} ({architecture})"
    only = not_run(by_us, f"only attnlab's code was checked; for transformers': attnlab check {origin}")
    return [*check_module(model, of=by_us), replace(only, check="implementations")]


def of_loaded(theirs: Loaded, tokenizer: Tokenizer | None, tell: Callable[[str], None]) -> list[Finding]:
    if theirs.module is None:
        return [not_run(theirs.implementation, theirs.reason)]
    tell(f"Checking {theirs.implementation}")
    findings = check_module(theirs.module, tokenizer=tokenizer, of=theirs.implementation)
    if theirs.lost:
        lost = Tensors().finding(Point(), Outcome.FAIL, "not_in_files", names=list(theirs.lost))
        findings.append(replace(lost, implementation=theirs.implementation))
    return findings


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


def loaded_there(folder: Path, config: Mapping[str, Any]) -> Loaded:
    """The module by the class that config.json names. Code in the folder is never run."""
    try:
        import transformers
    except ImportError:
        reason = "transformers is not installed: only attnlab's implementation is checked"
        return Loaded(None, "transformers", f'{reason} (pip install "transformers>=5")')
    version = f"transformers {transformers.__version__}"
    if config.get("auto_map"):
        return Loaded(None, version, "config.json asks for code of its own (auto_map), which is not executed")
    names = config.get("architectures")
    name = str(names[0]) if isinstance(names, list) and names else "AutoModel"
    known = getattr(transformers, name, None)
    if known is None:
        return Loaded(None, version, f"{version} has no class {name}, which config.json names")
    try:
        with without_bars(transformers):
            module, info = known.from_pretrained(folder, local_files_only=True, output_loading_info=True)
    except Exception as error:  # whatever another project's library raises at a broken folder
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        return Loaded(None, version, f"transformers cannot load this folder: {reason}")
    attention = getattr(module.config, "_attn_implementation", "unknown")
    lost = tuple(sorted(map(str, info.get("missing_keys", ()))))
    return Loaded(module.eval(), f"{version} ({type(module).__name__}, attention {attention})", lost=lost)


@contextmanager
def without_bars(transformers: Any) -> Iterator[None]:
    """Without the progress bars of transformers, which stand between our lines."""
    logging = transformers.utils.logging
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def same_answers(theirs: Loaded, ours: Foreign, tokenizer: Tokenizer | None) -> Finding:
    """Whether both implementations give the same scores to one text."""
    assert theirs.module is not None
    common: dict[str, Any] = {"check": "implementations", "when": "before", "implementation": "both"}
    try:
        first, second = (AskedModule.of(module) for module in (theirs.module, ours.model))
    except TooLargeError as error:
        too_large: dict[str, Any] = {"kind": "too_large", "values": error.values}
        return Finding(outcome=Outcome.NOT_APPLICABLE, **too_large, **common)
    ids, shown = torch.stack(first.random_rows([12])), "12 random token ids"
    encoded = [] if tokenizer is None else tokenizer.encode(TEXT)
    if 1 < len(encoded) <= ours.config.length:
        ids, shown = torch.tensor([encoded]), f"“{TEXT}”"
    one, other = first.scores(ids), second.scores(ids)
    if one.ndim > other.ndim:  # a trunk of theirs gives its places and, under another name, their summary
        with torch.no_grad():
            one = getattr(first.call(ids), "pooler_output", one)
    size = gap([other], [one]) if one.shape == other.shape else torch.inf
    outcome, kind = (Outcome.FAIL, "differ") if size > SLACK else (Outcome.PASS, "agree")
    return Finding(outcome=outcome, kind=kind, values={"text": shown}, number=float(size), **common)
