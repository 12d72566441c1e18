"""The dependency probe: declared mask against measured dependence."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

from torch import nn

from attnlab.checks.measure import LeakOrigin
from attnlab.checks.probing import Probe, probe_subject
from attnlab.checks.subject import ModelCheck, Subject, UnaskableError
from attnlab.model.attention.argmax import Argmax
from attnlab.model.attention.linear import Linear
from attnlab.model.blocks import Attention
from attnlab.model.model import Model
from attnlab.model.trunks.transformer import Transformer
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.runs.typed import Value


class Dependency(ModelCheck):
    """Dependency: does every output depend on what its mask shows, and on nothing else?

    Formula: for every pair (i, j) of positions, output i is compared before and after token j is
    replaced, and ∂output_i/∂input_j is taken, both in a float64 copy of the model, so that a leak
    of 1e-9 is one and rounding is not. Pairs that the mask, the rule's layout, padding and
    documents do not join in any number of layers must not move. Where no token sees a later one,
    every score is also computed from its prefix alone; and no output of a text may move when another
    text of the batch is changed.

    Paths: training and evaluation mode (once, where both give the same scores), padded on either
    side, packed, rows of one token, some inputs of a row as long as the model reads (up to 1024),
    short rows of 320 token ids, and a piece of a real batch as the task makes it; the source of an
    encoder-decoder too.

    When it helps: a mask that leaks makes the loss look better and the text worse. A permitted pair
    that nothing joins is a warning (never for argmax and relu features, whose weights may be 0 by design).
    The module in which a leak begins decides the advice: scores, embedding, or statistics.

    Cannot see: a leak of less than 1e-11, one that needs an id that was not tried, one that in long
    rows begins and ends between the sampled inputs, or, of more than 100 layers, one in a layer that is
    not among the 100 that are asked.
    """

    when: ClassVar[tuple[When, ...]] = ("before", "after")
    limit: ClassVar[float] = 4.0
    of_trunk: ClassVar[bool] = True
    same_for_seeds: ClassVar[bool] = True

    def answer(self, subject: Subject) -> Finding:
        if not subject.answers_by_place:
            return self.finding(subject.when, Outcome.NOT_APPLICABLE, "one_answer")
        try:
            finding = self.judge(subject, probe_subject(subject))
        except UnaskableError:
            raise
        except (IndexError, RuntimeError, ValueError) as error:
            return self.finding(subject.when, Outcome.FAIL, "cannot_run", error=str(error))
        return replace(finding, values={**finding.values, **subject.claim})

    def judge(self, subject: Subject, probe: Probe) -> Finding:
        """What was measured of a subject comes to."""
        when = subject.when
        if probe.mixing is not None:
            cause = cause_of(subject.model, probe.mixing.origin)
            leak = probe.mixing.values
            return self.finding(when, Outcome.FAIL, "mixing", probe.mixing.size, leak=leak, cause=cause)
        if probe.leaks:
            return self.leaking(subject, probe)
        if not probe.sound:
            return self.finding(when, Outcome.FAIL, "length", probe.gap)
        if subject.claim:  # what is claimed may well be more than is used
            return self.finding(when, Outcome.PASS, "probe_sound", 0.0, **probe.values)
        if probe.dead and not has_zero_weights(subject.model):
            return self.dead(when, probe)
        paths = len(probe.measurements)
        return self.finding(when, Outcome.PASS, "sound", 0.0, pairs=probe.pairs, paths=paths)

    def dead(self, when: When, probe: Probe) -> Finding:
        """The mask permits what nothing uses."""
        dead = [measured for measured in probe.measurements if measured.dead]
        pairs = sum(len(measured.dead) for measured in dead)
        query, key = dead[0].dead[0]
        values: dict[str, Value] = {"pairs": pairs, "path": dead[0].path.name, "query": query, "key": key}
        return self.finding(when, Outcome.WARN, "dead", float(pairs), **values)

    def leaking(self, subject: Subject, probe: Probe) -> Finding:
        leak = probe.leaks[0]  # of the simplest path, which a person understands best
        cause: str = cause_of(subject.model, leak.origin)
        if subject.masking == "zero" and cause == "scores":
            cause = "zeroed"
        paths = [leak.path for leak in probe.leaks]
        values: dict[str, Value] = {"leak": leak.values, "paths": paths, "cause": cause}
        values |= {"ahead": probe.ahead, "length": probe.length}
        return self.finding(subject.when, Outcome.FAIL, "leak", leak.size, pairs=probe.leaking, **values)


def has_zero_weights(model: nn.Module) -> bool:
    """Whether a rule may give a permitted pair a weight of exactly 0."""
    relu = (module for module in model.modules() if isinstance(module, Linear))
    argmax = any(isinstance(module, Argmax) for module in model.modules())
    return argmax or any(module.feature == "relu" for module in relu)


Cause = Literal["scores", "embedding", "other", "joined", "between"]
"""Attention; an embedding; a part that is known not to attend; one that joins positions, and may attend or
not; or code between parts, which may attend or not."""


def cause_of(model: nn.Module, origin: LeakOrigin) -> Cause:
    """In what kind of part a leak begins. What was not verified stays open."""
    parts = origin.module.split(" ")[0].split(".")
    outer = [model.get_submodule(".".join(parts[:count])) for count in range(len(parts) + 1)]
    known = isinstance(model, Model) and isinstance(model.trunk, Transformer)  # where it attends
    if isinstance(model, Model):
        entrances = model.trunk.entrances()
    else:
        entrances = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    if any(part is entrance for part in outer for entrance in entrances):
        return "embedding"
    if not known and origin.joins and plain_layer(outer[-1]):
        return "other"
    if any(map(attends, outer)):
        return "scores"
    if known:
        return "other" if origin.module else "scores"
    return "joined" if origin.joins else "between"


def plain_layer(module: nn.Module) -> bool:
    """Whether it is a layer of torch's own that does not attend: a norm, a convolution, a recurrent one."""
    own = type(module).__module__.startswith("torch.nn.modules.")
    return own and not attends(module) and next(module.children(), None) is None


def attends(module: nn.Module) -> bool:
    """Whether it is an attention: one of ours, or by its name one of others."""
    return isinstance(module, Attention) or "attention" in type(module).__name__.lower()
