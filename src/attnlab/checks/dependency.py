"""The dependency probe: declared mask against measured dependence."""

from __future__ import annotations

from typing import ClassVar

from attnlab.checks.check import Case, Check, Finding, When
from attnlab.checks.measure import Leak, Measured
from attnlab.checks.paths import paths_of
from attnlab.checks.prefixes import prefix_gap
from attnlab.checks.probing import measured, worst
from attnlab.checks.real import copy_of, real
from attnlab.model.attention.argmax import Argmax
from attnlab.model.model import Model

LENGTH = 12  # every pair of so many tokens, on every path
WHOLE = 256  # some inputs of a row as long as the model reads, or this
EQUAL = 1e-9
"""Of the largest score, in float64: how far the cached and the parallel way may differ."""


class Dependency(Check):
    """Dependency: does every output depend on what its mask shows, and on nothing else?

    Formula: for every pair (i, j) of positions, output i is compared before and after token j is
    replaced, and ∂output_i/∂input_j is taken, both in a float64 copy of the model, so that a leak
    of 1e-9 is one and rounding is not. Pairs that the mask, the rule's layout, padding and
    documents do not join in any number of layers must not move. For decoders, every score is also
    computed from its prefix alone, with the cache.

    Paths: training and evaluation mode, padded on either side, packed, and a piece of a real batch
    as the objective makes it; the source of an encoder-decoder too.

    When it helps: a mask that leaks makes the loss look better and the text worse. A permitted pair
    that nothing joins is told as a warning (never for argmax, which looks at one key by design).
    """

    when: ClassVar[tuple[When, ...]] = ("before", "after")
    limit: ClassVar[float] = 4.0

    def run(self, case: Case) -> Finding:
        model = exact(case.model)
        vocabulary = case.dataset.tokenizer.size
        length, whole = (min(most, case.config.model.length) for most in (LENGTH, WHOLE))
        paths = paths_of(model, real(case), vocabulary, length=length, whole=whole)
        found = [measured(model, path, vocabulary) for path in paths]
        leaks = [leak for leak in (worst(model, one, vocabulary) for one in found) if leak is not None]
        if leaks:
            return self.leaking(case, leaks, found)
        gap = prefix_gap(model, vocabulary, length)
        if gap is not None and gap > EQUAL:
            return self.failed(
                case,
                f"a score differs by {gap:.1g} of the largest when only its prefix is there",
                gap,
                meaning="The parallel scores, on which the loss is computed, are not those of writing.",
                fix="Look for what depends on the length of the row, or for a cache that forgets.",
            )
        dead = [] if argmax(model) else [one for one in found if one.dead]
        if dead:
            pairs = sum(len(one.dead) for one in dead)
            (i, j), where = dead[0].dead[0], dead[0].path.name
            return self.warned(
                case,
                f"{pairs} permitted pairs are dead; in {where}, output {i} does not depend on input {j}",
                float(pairs),
                meaning="The mask permits what the model does not use: a part of it is cut off.",
                fix="Look for weights that underflow (a missing 1/√d), or a mask applied twice.",
            )
        pairs = sum(one.pairs for one in found)
        return self.passed(case, f"{pairs:,} pairs of positions on {len(found)} paths, none leaks", 0.0)

    def leaking(self, case: Case, leaks: list[Leak], found: list[Measured]) -> Finding:
        leak = max(leaks, key=lambda one: one.size)
        names = ", ".join(one.path for one in leaks)
        pairs = sum(one.leaking for one in found)
        place = f", first in {leak.place}" if leak.place else ""
        fix = "Apply the mask to the scores before the softmax, as −inf, on every path."
        if case.config.model.masking == "zero":
            fix = (
                'Set model.masking = "-inf": zeroing weights after the softmax leaves the future in its sum.'
            )
        return self.failed(
            case,
            f"output {leak.query} moves by {leak.size:.2g} of the largest score when input {leak.key} "
            f"changes, which it may not see{place}; {pairs} pairs leak ({names})",
            leak.size,
            meaning="The loss is computed with what it is to predict, or with another text, in sight: it "
            "says nothing true of the text that the model writes.",
            fix=fix,
        )


def exact(model: Model) -> Model:
    """A copy in float64, where only real dependence shows."""
    return copy_of(model).double()


def argmax(model: Model) -> bool:
    return any(isinstance(module, Argmax) for module in model.modules())
