"""Assertions for people's own tests: each fails with the finding's words.

from attnlab.testing import assert_causal
def test_my_model():
    assert_causal(build_my_model(), vocabulary=1000)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor, nn

    from attnlab.checks.module_subject import Claim
    from attnlab.interop.loop_checks import LoopChecks
    from attnlab.runs.findings import Finding

Forward = Callable[["nn.Module", "Tensor"], Any]
"""Takes the model and ids (rows, tokens), gives its scores or what holds them."""


def assert_causal(
    model: nn.Module,
    vocabulary: int | None = None,
    *,
    forward: Forward | None = None,
    length: int = 12,
    whole: int | None = None,
) -> None:
    """No output depends on a later token, at every pair of `length` tokens and some of `whole`: unless given,
    as many as the model says that it reads, up to 1,024."""
    from attnlab.checks.dependency import Dependency
    from attnlab.checks.module_subject import own_length, subject_of

    whole = own_length(model) if whole is None else whole
    subject = subject_of(
        model, vocabulary=vocabulary, mask="causal", forward=forward, length=length, whole=whole
    )
    _hold(Dependency().ask(subject))


def assert_padding_invariant(
    model: nn.Module,
    vocabulary: int | None = None,
    *,
    mask: Claim | None = None,
    forward: Forward | None = None,
) -> None:
    """A text's scores are the same alone, padded, and beside other texts."""
    from attnlab.checks.invariance import Invariance
    from attnlab.checks.module_subject import subject_of

    _hold(Invariance().ask(subject_of(model, vocabulary=vocabulary, mask=mask, forward=forward)))


def assert_cache_equal(model: nn.Module, vocabulary: int | None = None) -> None:
    """Tokens that are given one by one, with the model's cache, score as all at once."""
    from attnlab.checks.decoding import Decoding
    from attnlab.checks.module_subject import subject_of

    _hold(Decoding().ask(subject_of(model, vocabulary=vocabulary, mask="causal")))


def assert_tokenizer_belongs(model: nn.Module, tokenizer: Any) -> None:
    """A tokenizer's size and special tokens are those that the model's config and table have."""
    from attnlab.interop.module_checks import tokenizer_of

    _hold(tokenizer_of(model, tokenizer))


def assert_not_contaminated(data: Mapping[str, Iterable[Any]], tokenizer: Any = None) -> None:
    """No text of `dev` or `test` is in `train`: texts, or rows with `text` or `input_ids`."""
    from attnlab.interop.given_texts import contamination

    _hold(contamination(data, tokenizer), warnings=True)


def assert_processes_agree(loop: Callable[[LoopChecks], None], *, processes: int = 2) -> None:
    """A training loop in several processes on this machine trains one model, each process on its own rows.

    `loop` is a function of a module, called in every process with checks that it tells of its training:

    def loop(checks):
        model = DistributedDataParallel(build(seed=0))
        checks.before(model)
        for batch in own_batches():          # a few steps are enough
            loss_of(model, batch).backward()
            checks.stepping()                # gradients are there, the optimizer has not moved yet
            ...
        checks.finish(steps)
    """
    from attnlab.interop.started_loops import findings_in_processes

    findings = [one for one in findings_in_processes(loop, processes) if one.check == "processes"]
    if not findings:
        raise AssertionError(
            "The loop told nothing: call checks.before, checks.stepping and checks.finish in it."
        )
    for finding in findings:
        _hold(finding, warnings=True)


def assert_contract(part: type, *, untaught: Collection[str] = (), **options: object) -> None:
    """A part of your own (a class that extends Rule, Position, Projections or FeedForward, or a norm) keeps
    what every part of its kind promises, in small models of every kind that it can stand in:

    its fast form is its plain form; with a cache it is what it is without one; nothing depends on tokens that
    the mask hides; padding and other rows change nothing; a gradient reaches each parameter, apart from those
    whose names end as one of `untaught`; `initialise` fills them from its generator; `parameter_terms` counts
    them; saved parameters bring the model back. `options` replace the class's own `examples`.
    """
    __tracebackhide__ = True
    from attnlab.model.contracts.own_parts import keep_contract

    keep_contract(part, untaught=untaught, **options)


def _hold(finding: Finding, *, warnings: bool = False) -> None:
    """Raise where a check failed, or could not be made: what was not checked does not hold."""
    __tracebackhide__ = True
    if finding.outcome == "fail" or (warnings and finding.outcome == "warn"):
        raise AssertionError(finding.sentence)
    if finding.outcome == "not applicable":
        raise AssertionError(f"The check {finding.check} could not be made: {finding.found}.")
