"""The dependency probe: declared mask against measured dependence."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from attnlab.checks.batch_leaks import company_leak, ids_leak
from attnlab.checks.causes import ACROSS_TEXTS, FIXES, cause_of
from attnlab.checks.check import Case, Check, Moment
from attnlab.checks.measure import Leak, Measured
from attnlab.checks.paths import paths_of, place_by_place
from attnlab.checks.probing import Probe, cut_gap, measured, worst
from attnlab.checks.real import real
from attnlab.model.apart import sample_of
from attnlab.model.attention.argmax import Argmax
from attnlab.model.model import Model
from attnlab.model.tokens import Tokens
from attnlab.runs.findings import Finding, When

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
            return self.failed(
                case,
                f"the model cannot be run: {error}",
                meaning="Rows that occur in training or generation make it fail: padded, packed, of one "
                "token, or long.",
                fix="Fix the error above; rows of every length up to model.length must be accepted.",
            )

    def asked(self, case: Case, model: Model, vocabulary: int) -> Finding:
        length, whole = (min(most, case.config.longest_text) for most in (LENGTH, WHOLE))
        others = company_leak(model, vocabulary, length)
        if others is not None:
            return self.mixing(case, others)
        paths = paths_of(model, real(case), vocabulary, length=length, whole=whole)
        found = [measured(model, path, vocabulary) for path in paths]
        leaks = [leak for leak in (worst(model, one, vocabulary) for one in found) if leak is not None]
        pairs = sum(one.leaking for one in found)
        if not leaks:
            leak = ids_leak(model, vocabulary)
            leaks, pairs = ([], 0) if leak is None else ([leak], 1)
        if leaks:
            return self.leaking(case, model, leaks, pairs, masking=case.config.model.masking)
        gap = prefix_gap(model, vocabulary, length)
        if gap > EQUAL:
            return self.of_length(case, gap)
        return self.dead(case, found) if not argmax(model) else self.sound(case, found)

    def judge(self, at: Moment, found: Probe, model: nn.Module) -> Finding:
        """What a probe of any module comes to."""
        if found.leaks:
            return self.leaking(at, model, list(found.leaks), len(found.leaks))
        if not found.sound:
            return self.of_length(at, found.gap)
        return self.passed(at, found.found.removeprefix("Sound: ").removesuffix("."), 0.0)

    def of_length(self, at: Moment, gap: float) -> Finding:
        return self.failed(
            at,
            f"a score changes by {gap:.1g} of the largest when later tokens are removed",
            gap,
            meaning="The parallel scores, from which the loss is computed, are not those used in generation.",
            fix="Look for what depends on the length of the row: positions counted from its end, or a "
            "mean over all of it. The mask is not at fault.",
        )

    def sound(self, case: Case, found: list[Measured]) -> Finding:
        pairs = sum(one.pairs for one in found)
        return self.passed(case, f"{pairs:,} pairs of positions on {len(found)} paths, none leaks", 0.0)

    def dead(self, case: Case, found: list[Measured]) -> Finding:
        """Sound, unless the mask permits what nothing uses."""
        dead = [one for one in found if one.dead]
        if not dead:
            return self.sound(case, found)
        pairs = sum(len(one.dead) for one in dead)
        (i, j), where = dead[0].dead[0], dead[0].path.name
        return self.warned(
            case,
            f"{pairs} permitted pairs are dead; in {where}, output {i} does not depend on input {j}",
            float(pairs),
            meaning="The mask permits these pairs, but the model does not use them.",
            fix="Look for weights that underflow (a missing 1/√d), or a mask applied twice.",
        )

    def leaking(
        self, at: Moment, model: nn.Module, leaks: list[Leak], pairs: int, masking: str = "-inf"
    ) -> Finding:
        leak = leaks[0]  # of the simplest path, which a person understands best
        names = ", ".join(one.path for one in leaks)
        cause = cause_of(model, leak.place)
        fix = FIXES[cause]
        if masking == "zero" and cause == "scores":
            fix = (
                'Set model.masking = "-inf": zeroing weights after the softmax leaves the future in its sum.'
            )
        return self.failed(
            at,
            f"{leak}; {pairs} pairs leak ({names})",
            leak.size,
            meaning="The loss is computed with its target, or another text, visible: it says nothing about "
            "the text that the model generates.",
            fix=fix,
        )

    def mixing(self, case: Case, leak: Leak) -> Finding:
        return self.failed(
            case,
            f"in {leak.path}, output {leak.query} depends on another text of the batch (relative change "
            f"{leak.size:.2g}{leak.beginning})",
            leak.size,
            meaning="Texts of a batch see each other, and later tokens of their own: the loss depends on "
            "the batch, and says nothing about a single text.",
            fix=ACROSS_TEXTS,
        )


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
