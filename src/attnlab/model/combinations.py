"""Which parts work together. What cannot is refused when a config loads, for a reason in its mathematics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch

from attnlab.config.values import Choice
from attnlab.model.attention import ATTENTION
from attnlab.model.attention.blockwise import Blockwise
from attnlab.model.attention.rule import Rule
from attnlab.model.draws import Undrawn
from attnlab.model.masks import MASKS, Bidirectional, Mask, incremental
from attnlab.model.positions import POSITIONS
from attnlab.model.positions.position import Position
from attnlab.model.projections import PROJECTIONS


@dataclass(frozen=True)
class Parts:
    """What a stack is made of, as far as combinations go."""

    attention: Rule
    mask: Mask
    positions: Position
    decodes: bool
    cross_attention: Rule | None = None
    dropout: float = 0.0

    @property
    def rules(self) -> list[Rule]:
        return [self.attention] if self.cross_attention is None else [self.attention, self.cross_attention]


@dataclass(frozen=True)
class Refusal:
    """A combination that cannot work, and why."""

    applies: Callable[[Parts], bool]
    reason: str


LAYOUTS = 3
"""Groups by position, groups by ids and a window: more that differ there are not."""


def layouts(rule: Rule) -> int:
    """How many layouts are nested in each other."""
    return 1 + layouts(rule.inner) if isinstance(rule, Blockwise) else 0


REFUSALS = (
    Refusal(
        lambda p: p.positions.gives_bias and not p.attention.takes_bias,
        "an attention that forms no scores (linear) cannot add a bias for each pair: it does not factorise; "
        "use positions in the embedding (sinusoidal, learned, concat) or rotary",
    ),
    Refusal(
        lambda p: not p.attention.takes(p.mask),
        "linear attention keeps one running state, which cannot forget: this mask does not factorise; "
        "use causal, bidirectional or prefix",
    ),
    Refusal(
        lambda p: p.dropout > 0 and not all(rule.takes_dropout for rule in p.rules),
        "this attention has no weights to drop (linear forms none, argmax has a single one); "
        "set attention_dropout to 0",
    ),
    Refusal(
        lambda p: p.decodes and not incremental(p.mask),
        "a decoder writes from left to right, and this mask shows it the future; "
        "use causal, prefix, or causal & the mask you want",
    ),
    Refusal(
        lambda p: layouts(p.attention) > LAYOUTS,
        f"more than {LAYOUTS} of group and window are nested in each other, and each doubles what a padded "
        "row takes; use one of each kind",
    ),
    Refusal(
        lambda p: isinstance(p.cross_attention, Blockwise),
        "group and window go by places on one axis, and cross-attention has two; use their inner rule",
    ),
)
"""Every refusal there is. A head width that is odd under rotary, and text beyond learned positions, are
refused by those parts themselves; fewer key heads under a shared projection cannot be written."""


def refusal(parts: Parts) -> str | None:
    """Why these parts cannot work together, or None where they can."""
    for rule in REFUSALS:
        if rule.applies(parts):
            return rule.reason[0].upper() + rule.reason[1:] + "."
    return None


MASK_CHOICES = (
    Choice("causal"),
    Choice("bidirectional"),
    Choice("prefix"),
    Choice("window", {"size": 3}),
    Choice("causal") & Choice("window", {"size": 3}),
    (Choice("causal") & Choice("window", {"size": 2})) | Choice("source"),
)
"""Masks to try everything with: each kind, and both ways of joining them."""
FAMILIES = ("encoder", "decoder", "encoder_decoder")
MASKINGS = ("-inf", "zero")


@dataclass(frozen=True)
class Combination:
    """One choice of everything that attention depends on."""

    attention: Choice
    mask: Choice
    positions: Choice
    projections: Choice
    family: str
    masking: str


def examples(registry: Any) -> list[Choice]:
    """Every variant of a table, with each of the option sets that its class names."""
    return [
        Choice(name, options)
        for name in registry
        for options in registry[name].examples
        if all(o.name in options for o in registry.options(name).values() if o.required)
    ]


def combinations() -> Iterator[tuple[Combination, str | None]]:
    """Every combination of registered parts, with the reason where it is refused."""
    with torch.device("meta"), Undrawn():
        sizes = {"heads": 4, "head_width": 4, "width": 16, "layers": 1, "length": 16}
        rules = {str(c): ATTENTION.build(c, **sizes) for c in examples(ATTENTION)}
        schemes = {str(c): POSITIONS.build(c, **sizes) for c in examples(POSITIONS)}
    masks = {str(c): MASKS.build(c) for c in MASK_CHOICES}
    for attention, mask, positions in product(examples(ATTENTION), MASK_CHOICES, examples(POSITIONS)):
        built = rules[str(attention)], masks[str(mask)], schemes[str(positions)]
        reasons = {family: _reason(*built, family) for family in FAMILIES}
        for projections, family, masking in product(examples(PROJECTIONS), FAMILIES, MASKINGS):
            yield Combination(attention, mask, positions, projections, family, masking), reasons[family]


def _reason(rule: Rule, mask: Mask, scheme: Position, family: str) -> str | None:
    decoder = refusal(Parts(rule, mask, scheme, decodes=family != "encoder"))
    if decoder is not None or family != "encoder_decoder":
        return decoder
    return refusal(Parts(rule, Bidirectional(), scheme, decodes=False))


def survey() -> dict[str, Any]:
    """How many combinations work, how many are refused, and for which reasons."""
    outcomes = Counter(reason for _, reason in combinations())
    refused = [{"reason": reason, "count": n} for reason, n in outcomes.most_common() if reason is not None]
    parts = {
        "attention": len(examples(ATTENTION)),
        "masks": len(MASK_CHOICES),
        "positions": len(examples(POSITIONS)),
        "projections": len(examples(PROJECTIONS)),
        "families": len(FAMILIES),
        "maskings": len(MASKINGS),
    }
    return {"total": outcomes.total(), "work": outcomes[None], "refused": refused, "parts": parts}
