"""The same question for other rules: which weights argmax and linear attention can give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from attnlab.explain.query_solver import REACHED, Face, Numbers, checked

STEPS = 20_000


@dataclass(frozen=True)
class RuleQuery:
    """The best query of a rule that is no softmax, its weights, and why they are not the target's."""

    query: Numbers
    weights: Numbers
    divergence: float
    """KL(target ‖ weights), nats; inf where a wanted key gets nothing."""
    reason: str

    @property
    def reached(self) -> bool:
        return not self.reason


def argmax_weights(keys: Numbers, query: Numbers) -> Numbers:
    """All weight on the key with the largest score, the first of equal ones."""
    weights = np.zeros(len(keys))
    weights[int(np.argmax(keys @ query))] = 1.0
    return weights


def argmax_query(keys: Numbers, target: Sequence[float] | Numbers) -> RuleQuery:
    """Argmax attention gives all weight to one key: a target of one key, at a corner of the keys' hull."""
    keys, wanted = checked(keys, target)
    best = int(wanted.argmax())
    choice = np.eye(len(keys))[best]
    face = Face(keys, choice)
    query = face.direction
    weights = argmax_weights(keys, query)
    reason = ""
    if wanted[best] < 1:
        reason = "argmax attention gives all weight to one key, and the target is spread over several"
    elif face.mixable.sum() > 1:
        others = ", ".join(str(j) for j in np.flatnonzero(face.mixable) if j != best)
        reason = f"key {best} lies in the convex hull of keys {others}: one of them always scores as high"
    return RuleQuery(query, weights, float(special.rel_entr(wanted, weights).sum()), reason)


def linear_query(keys: Numbers, target: Sequence[float] | Numbers) -> RuleQuery:
    """Linear attention with φ = elu + 1: weights ∝ φ(q)·φ(k), mixtures of the columns of φ(K).

    The best mixture in KL is found by expectation and maximisation, which never raises the divergence.
    """
    keys, wanted = checked(keys, target)
    features = np.where(keys > 0, keys + 1, np.exp(np.minimum(keys, 0)))
    totals = features.sum(0)
    columns = features / totals
    parts = np.full(columns.shape[1], 1 / columns.shape[1])
    for _ in range(STEPS):
        mixed = columns @ parts
        new = parts * (columns.T @ (wanted / mixed))
        if np.abs(new - parts).max() < 1e-15:
            break
        parts = new
    weights = columns @ parts
    wished = np.maximum(parts / totals, 1e-12)
    wished = wished / wished.max()
    query = np.where(wished > 1, wished - 1, np.log(wished))
    divergence = max(float(special.rel_entr(wanted, weights).sum()), 0.0)
    reason = ""
    if divergence > 100 * REACHED:
        least = columns[int(wanted.argmin())].min()
        reason = (
            "linear attention mixes the columns of φ(keys), all of them positive: no key can lose its weight "
            f"(key {int(wanted.argmin())} keeps at least {least:.3g}) or gain beyond its largest column"
        )
    return RuleQuery(query, weights, divergence, reason)
