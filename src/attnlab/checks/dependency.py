"""The dependency probe: declared mask against measured dependence."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from attnlab.checks.batch_leaks import company_leak, ids_leak
from attnlab.checks.check import Case, Check, Moment
from attnlab.checks.measure import Leak, Measured
from attnlab.checks.paths import paths_of, place_by_place
from attnlab.checks.probing import Probe, cut_gap, measure_model, worst
from attnlab.checks.real import real
from attnlab.model.attention.argmax import Argmax
from attnlab.model.blocks import Attention
from attnlab.model.isolation import sample_of
from attnlab.model.model import Model
from attnlab.model.tokens import Tokens
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.runs.typed import Value

LENGTH = 12  # every pair of so many tokens, on every path
WHOLE = 1024  # some inputs of a row as long as the model reads, or this
EQUAL = 1e-9
"""Of the largest score, in float64: how far two ways to the same score may differ."""


class Dependency(Check):
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
    that nothing joins is a warning (never for argmax, which looks at one key by design).
    The module in which a leak begins decides the advice: scores, embedding, or statistics.

    Cannot see: a leak of less than 1e-11, one that needs an id that was not tried, one that in long
    rows begins and ends between the sampled inputs, or, of more than 100 layers, one in a layer that is
    not among the 100 that are asked.
    """

    when: ClassVar[tuple[When, ...]] = ("before", "after")
    limit: ClassVar[float] = 4.0
    samples_layers: ClassVar[bool] = True

    def run(self, case: Case) -> Finding:
        try:
            return self.asked(case, sample_of(case.model).double(), case.dataset.tokenizer.size)
        except (IndexError, RuntimeError, ValueError) as error:
            return self.finding(case, Outcome.FAIL, "cannot_run", error=str(error))

    def asked(self, case: Case, model: Model, vocabulary: int) -> Finding:
        length, whole = (min(most, case.config.longest_text) for most in (LENGTH, WHOLE))
        others = company_leak(model, vocabulary, length)
        if others is not None:
            return self.finding(case, Outcome.FAIL, "mixing", others.size, leak=others.values)
        paths = paths_of(model, real(case), vocabulary, length=length, whole=whole)
        measurements = [measure_model(model, path, vocabulary) for path in paths]
        leaks = [leak for leak in (worst(model, one, vocabulary) for one in measurements) if leak is not None]
        pairs = sum(one.leaking for one in measurements)
        if not leaks:
            leak = ids_leak(model, vocabulary)
            leaks, pairs = ([], 0) if leak is None else ([leak], 1)
        if leaks:
            return self.leaking(case, model, leaks, pairs, masking=case.config.model.masking)
        gap = prefix_gap(model, vocabulary, length)
        if gap > EQUAL:
            return self.finding(case, Outcome.FAIL, "length", gap)
        return self.dead(case, measurements) if not argmax(model) else self.sound(case, measurements)

    def judge(self, at: Moment, found: Probe, model: nn.Module) -> Finding:
        """What a probe of any module comes to."""
        if found.leaks:
            return self.leaking(at, model, list(found.leaks), len(found.leaks))
        if not found.sound:
            return self.finding(at, Outcome.FAIL, "length", found.gap)
        return self.finding(at, Outcome.PASS, "probe_sound", 0.0, **found.values)

    def sound(self, case: Case, found: list[Measured]) -> Finding:
        pairs = sum(one.pairs for one in found)
        return self.finding(case, Outcome.PASS, "sound", 0.0, pairs=pairs, paths=len(found))

    def dead(self, case: Case, found: list[Measured]) -> Finding:
        """Sound, unless the mask permits what nothing uses."""
        dead = [one for one in found if one.dead]
        if not dead:
            return self.sound(case, found)
        pairs = sum(len(one.dead) for one in dead)
        query, key = dead[0].dead[0]
        values: dict[str, Value] = {"pairs": pairs, "path": dead[0].path.name, "query": query, "key": key}
        return self.finding(case, Outcome.WARN, "dead", float(pairs), **values)

    def leaking(
        self, at: Moment, model: nn.Module, leaks: list[Leak], pairs: int, masking: str = "-inf"
    ) -> Finding:
        leak = leaks[0]  # of the simplest path, which a person understands best
        cause: str = cause_of(model, leak.place)
        if masking == "zero" and cause == "scores":
            cause = "zeroed"
        paths = [one.path for one in leaks]
        values: dict[str, Value] = {"leak": leak.values, "pairs": pairs, "paths": paths, "cause": cause}
        return self.finding(at, Outcome.FAIL, "leak", leak.size, **values)


def prefix_gap(model: Model, vocabulary: int, length: int) -> float:
    """How far scores move when what follows is cut off, of the largest; 0 where they may see all of it."""
    trunk = model.trunk
    if trunk.sees == "all":
        return 0.0
    ids = torch.randint(vocabulary, (1, length), generator=torch.Generator().manual_seed(1))
    inputs: dict[str, Any] = {"source": ids.flip(1)} if trunk.reads_source else {}
    read = length // 2 if trunk.asks_for_source else 0  # a source is read at once: it is not cut
    ask = place_by_place(model)

    def call(_: nn.Module, ids: Tensor) -> Tensor:
        marked = (torch.arange(ids.shape[1]) < read)[None] if trunk.asks_for_source else None
        return ask(ids, Tokens.of(ids.shape[1], source=marked), **inputs)

    return cut_gap(model, ids, call, shortest=max(read, 1))


def argmax(model: Model) -> bool:
    return any(isinstance(module, Argmax) for module in model.modules())


Cause = Literal["scores", "embedding", "other"]


def cause_of(model: nn.Module, place: str) -> Cause:
    """In what kind of part a leak begins, by the name of the module that `origin` gave."""
    parts = place.split(" ")[0].split(".")
    outer = [model.get_submodule(".".join(parts[:count])) for count in range(1, len(parts) + 1)]
    if isinstance(model, Model):
        entrances = model.trunk.entrances()
    else:
        entrances = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    if any(one is entrance for one in outer for entrance in entrances):
        return "embedding"
    return "scores" if not place or any(map(attends, outer)) else "other"


def attends(module: nn.Module) -> bool:
    """Whether it is an attention: one of ours, or by its name one of others."""
    return isinstance(module, Attention) or "attention" in type(module).__name__.lower()
