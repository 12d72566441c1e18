"""Where heads look."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from attnlab.checks.check import Case, Check
from attnlab.checks.real import batch_of, held_out, piece, prepared_of
from attnlab.model.attention.argmax import Argmax
from attnlab.model.attention.dot import Dot
from attnlab.model.attention.rule import Rule, masked_softmax
from attnlab.model.blocks import Attention as Layer
from attnlab.model.isolation import copy_of
from attnlab.model.model import hidden_states
from attnlab.model.pairs import Pairs
from attnlab.model.projections import SharedQK, SharedQKV
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.runs.typed import Value

ROWS, LENGTH = 4, 64
CROWD = 4
"""Keys, besides its own, that a query must have for its weights to say anything."""
SHARP_AT_FIRST, SHARP_AT_FIRST_SHARED, SHARP = 0.5, 0.3, 0.05
DEAD = 1e-4


@dataclass(frozen=True)
class ObservedHead:
    """One head on a real batch: its entropy, of what mask and bias alone would give; its part in the sum.

    `least` is the entropy that an untrained one has at least.
    """

    name: str
    entropy: float
    part: float
    least: float


class Attention(Check):
    """Attention: are no heads dead, and no softmax saturated?

    Formula: the entropy of each query's weights over other tokens, divided by that of its mask and
    bias alone, averaged for each head over a real batch. Before training it is about 0.85, since
    scores have variance 1; a head below 0.5 is a warning (below 0.3 where queries are keys, since equal
    tokens then attract each other). After training heads may look at one token:
    it is a warning when more than half are below 0.05. Weights that were learned before the run are not
    warned of. A head is dead when what it adds is below 1e-4 of what the layer's largest head adds, or when
    all its weights are equal to 1e-6.

    When it helps: without 1/√K the scores' variance is K, the softmax looks at one key from the
    start and its gradient vanishes. Not for argmax, which looks at one key by design.

    Cannot see: heads that look at the wrong tokens, or saturate on longer rows than the first 64
    tokens. Linear attention has no softmax: only its dead heads are reported.
    """

    when: ClassVar[tuple[When, ...]] = ("before", "after")
    limit: ClassVar[float] = 0.5
    of_trunk: ClassVar[bool] = True

    def run(self, case: Case) -> Finding:
        heads = heads_of(case)
        if not heads:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "no_soft_heads")
        lowest = min(heads, key=lambda head: head.entropy)
        middle = sorted(head.entropy for head in heads)[len(heads) // 2]
        sharp = [
            head for head in heads if not head.entropy >= (head.least if case.when == "before" else SHARP)
        ]
        enough = 1 if case.when == "before" else len(heads) // 2 + 1
        values: dict[str, Value] = {"heads": len(heads), "median": middle}
        if len(sharp) >= enough and not case.pretrained:  # one trained elsewhere may look at one token
            values |= {"sharp": len(sharp), "name": lowest.name, "dots": by_dot_product(case)}
            return self.finding(case.when, Outcome.WARN, "sharp", lowest.entropy, **values)
        dead = [head for head in heads if not head.part >= DEAD or head.entropy > 1 - 1e-6]
        if dead:
            values = {"dead": len(dead), "heads": len(heads), "name": dead[0].name}
            return self.finding(case.when, Outcome.WARN, "dead", float(len(dead)), **values)
        few = len(sharp) if len(sharp) >= enough else 0
        return self.finding(case.when, Outcome.PASS, "heads", lowest.entropy, sharp=few, **values)


def by_dot_product(case: Case) -> bool:
    """Whether all scores are dot products, which can be divided by √K."""
    return all(isinstance(layer.rule, Dot) for layer in case.model.trunk.attentions().values())


def heads_of(case: Case) -> list[ObservedHead]:
    """Every head with soft weights, on a few rows of real text."""
    split = held_out(case) if case.when == "after" else "train"
    prepared = prepared_of(case, piece(batch_of(case, split, least=LENGTH), ROWS, LENGTH))
    heads: list[ObservedHead] = []
    model = copy_of(case.model).eval()
    for name, layer in model.trunk.attentions().items():
        if not any(isinstance(part, Argmax) for part in layer.rule.modules()):
            layer.rule.register_forward_pre_hook(looked(name, layer, heads))
    with torch.no_grad():
        model(**prepared.inputs, objective=hidden_states)
    return heads


def looked(name: str, layer: Layer, heads: list[ObservedHead]) -> Any:
    def hook(rule: nn.Module, inputs: tuple[Tensor, Tensor, Tensor, Pairs]) -> None:
        assert isinstance(rule, Rule)
        q, k, v, pairs = inputs
        q, k, v = q.double(), k.double(), v.double()
        weights = doubled(rule).weights(q, k, pairs)
        shares = entropies(weights, pairs.within(rule.layout))
        if shares is None:
            return
        values = v.repeat_interleave(q.shape[1] // v.shape[1], 1)
        outwards = layer.output.weight.double().view(-1, q.shape[1], v.shape[-1])  # (D, H, K)
        added = torch.einsum("bhtk,dhk->hbtd", weights @ values, outwards).flatten(1).norm(dim=1)
        parts = added / max(float(added.max()), 1e-30)
        heads.extend(
            ObservedHead(
                f"{name}, head {number}", float(shares[number]), float(parts[number]), least_of(layer)
            )
            for number in range(len(shares))
        )

    return hook


def least_of(layer: Layer) -> float:
    """The least entropy of an untrained head, of the possible."""
    if not layer.rule.takes_bias:  # it forms no scores: there is no softmax to saturate
        return 0.0
    shared = isinstance(
        layer.projections, (SharedQK, SharedQKV)
    )  # equal tokens then score high with each other
    return SHARP_AT_FIRST_SHARED if shared else SHARP_AT_FIRST


def doubled(rule: Rule) -> Rule:
    """The rule in float64, where weights that are nearly 1 leave something to the others."""
    return copy.deepcopy(rule).double() if any(True for _ in rule.parameters()) else rule


def entropies(weights: Tensor, pairs: Pairs) -> Tensor | None:
    """(H): the mean entropy over queries with enough keys, of that which mask and bias alone give."""
    B, _, T, S = weights.shape
    allowed = torch.ones(1, 1, T, S, dtype=torch.bool) if pairs.allowed is None else pairs.allowed
    other = allowed.expand(B, -1, -1, -1)
    if pairs.queries is pairs.keys:  # how a query scores against itself is another matter
        other = other & ~torch.eye(T, dtype=torch.bool, device=other.device)
    flat = torch.zeros_like(weights) if pairs.bias is None else pairs.bias.double().expand_as(weights)
    judged = (other.sum(-1) >= CROWD).expand(weights.shape[:3])
    if not bool(judged.any()):
        return None
    possible = entropy(masked_softmax(flat, other))
    observed = entropy(torch.where(other, weights, 0.0))
    shares = torch.where(judged, observed / possible.clamp(min=math.log(1.5)), 0.0)
    return shares.sum((0, 2)) / judged.sum((0, 2))


def entropy(weights: Tensor) -> Tensor:
    """Nats of weights (…, S) that may not add up to 1."""
    p = weights / weights.sum(-1, keepdim=True).clamp(min=1e-300)
    return -torch.xlogy(p, p).sum(-1)
