"""The query that gives keys the wanted weights: exactly, in the limit of a large scale, or as near as can be.

Softmax attention with keys k_j gives weights ∝ exp(s·q·k_j), an exponential family. For a target p the
divergence KL(p ‖ weights) is convex in q, and its infimum is known: with μ = Σ p_j k_j, let F be the keys on
the smallest face of the keys' convex hull that holds μ. On F there is one finite optimum, whose mean is μ
too; keys off F lose all their weight along a direction u that scores every key of F alike and all others
lower. So q(β) = q₀ + β·u comes as near as wanted. Keys of F that the target gives nothing lie among those it
wants, and no query tells them apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from attnlab.config.values import ConfigError

Numbers = NDArray[np.float64]
REACHED = 1e-9
"""Nats of divergence below which weights are taken for the target's."""
SAME = 1e-9
"""The part of the keys' spread below which directions are rounding."""

How = Literal["exact", "limit", "closest"]


@dataclass(frozen=True)
class FoundQuery:
    """What the best query gives for a target (n): the infimum, and a query near it.

    `how` is exact (this very query), limit (with a large enough scale) or closest (no query).
    """

    how: How
    target: Numbers
    query: Numbers
    """At the smallest scale that brings every weight within `tolerance` of `best`."""
    weights: Numbers
    """Of that query."""
    best: Numbers
    """The weights of the infimum."""
    divergence: float
    """KL(target ‖ best), nats: what no query can avoid."""
    direction: Numbers
    """The unit vector along which the other keys lose their weight; zeros where there are none to lose it."""
    margin: float
    """How far below the wanted keys the best other key scores along `direction`; inf where there is none."""
    scale: float
    """How much of `direction` the query has."""
    tolerance: float
    between: tuple[int, ...] = ()
    """Keys that the target gives nothing and that lie among those it wants."""

    @property
    def error(self) -> float:
        """The largest difference of a weight from the target's."""
        return float(np.abs(self.weights - self.target).max())


def weights_of(keys: Numbers, query: Numbers, scale: float = 1.0) -> Numbers:
    """Softmax weights of a query (d), or of queries (m,d), whatever their size: nothing overflows."""
    return np.asarray(special.softmax(scale * np.asarray(query) @ keys.T, axis=-1))


def best_query(
    keys: Numbers, target: Sequence[float] | Numbers, *, scale: float = 1.0, tolerance: float = 0.01
) -> FoundQuery:
    """The query (d) whose softmax weights over keys (n,d) come nearest to the target (n) in KL."""
    keys, wanted = checked(keys, target)
    if not 0 < tolerance < 1:
        raise ConfigError(f"tolerance is {tolerance}; it is a difference of weights, between 0 and 1.")
    face = Face(keys, wanted)
    best = np.zeros(len(keys))
    best[face.mixable], inner = _tilted(keys[face.mixable], wanted[face.mixable])
    base = inner / scale
    divergence = float(special.rel_entr(wanted, best).sum())
    size = _smallest_scale(keys, base, face, best, scale, tolerance)
    query = base + size * face.direction
    reached = divergence < REACHED
    how: How = "closest" if not reached else "exact" if face.mixable.all() else "limit"
    return FoundQuery(
        how=how,
        target=wanted,
        query=query,
        weights=weights_of(keys, query, scale),
        best=best,
        divergence=max(divergence, 0.0),
        direction=face.direction,
        margin=face.margin * scale,
        scale=size,
        tolerance=tolerance,
        between=tuple(np.flatnonzero(face.mixable & (wanted == 0)).tolist()),
    )


def checked(
    keys: Numbers | Sequence[Sequence[float]], target: Sequence[float] | Numbers
) -> tuple[Numbers, Numbers]:
    keys, wanted = np.asarray(keys, np.float64), np.asarray(target, np.float64)
    if keys.ndim != 2 or not keys.size or not np.isfinite(keys).all():
        raise ConfigError("Keys are a table of finite numbers: a row for each key, as many numbers in each.")
    if wanted.shape != (len(keys),):
        raise ConfigError(
            f"The target has {wanted.size} weights, and there are {len(keys)} keys; give a weight for each."
        )
    if not np.isfinite(wanted).all() or wanted.min() < 0 or abs(wanted.sum() - 1) > 1e-6:
        raise ConfigError(
            f"Target weights are at least 0 and add up to 1; these add up to {wanted.sum():.6g}, the least "
            f"is {wanted.min():.6g}."
        )
    return keys, wanted / wanted.sum()


class Face:
    """The keys on the smallest face of their convex hull that holds the target's mean."""

    def __init__(self, keys: Numbers, target: Numbers):
        self.keys, self.target = keys, target

    @cached_property
    def mixable(self) -> NDArray[np.bool_]:
        """(n): whether a key can have a part in some mixture with the target's mean.

        One linear program: mixtures may be multiplied by any number, so that a key with any part at all can
        have a whole one, and as many as can have it do.
        """
        spread = np.abs(self.keys - self.keys.mean(0)).max() or 1.0
        points = (self.keys - self.target @ self.keys) / spread
        n = len(points)
        nothing, unit = np.zeros((points.shape[1], n)), np.eye(n)
        solution = optimize.linprog(
            c=np.concatenate([np.zeros(n), -np.ones(n)]),
            A_eq=np.hstack([points.T, nothing]),
            b_eq=np.zeros(points.shape[1]),
            A_ub=np.hstack([-unit, unit]),
            b_ub=np.zeros(n),
            bounds=[(0, 1e7)] * n + [(0, 1)] * n,
            method="highs",
        )
        assert solution.success, solution.message
        return np.asarray((solution.x[n:] > 0.5) | (self.target > 0))

    @cached_property
    def _away(self) -> Numbers:
        """The direction with the largest margin, not yet of length 1: the shortest vector from the others'
        hull to the face, across the face's own directions."""
        own, others = self.keys[self.mixable], self.keys[~self.mixable]
        if not len(others):
            return np.zeros(self.keys.shape[1])
        along = _directions(own - own[0])
        apart = own[0] - others
        apart = apart - apart @ along.T @ along
        # the shortest point of a hull is where least squares of [points; 1] → [0; 1] over parts ≥ 0 has it
        wish = np.append(np.zeros(apart.shape[1]), 1.0)
        parts, _ = optimize.nnls(np.vstack([apart.T, np.ones(len(apart))]), wish)
        return np.asarray(parts @ apart / parts.sum())

    @property
    def margin(self) -> float:
        return float(np.linalg.norm(self._away)) if not self.mixable.all() else np.inf

    @property
    def direction(self) -> Numbers:
        return self._away if self.mixable.all() else self._away / self.margin


def _directions(points: Numbers) -> Numbers:
    """(r,d): an orthonormal basis of what points (n,d) span."""
    _, sizes, basis = np.linalg.svd(points, full_matrices=False)
    return np.asarray(basis[sizes > SAME * max(1.0, sizes.max(initial=0))])


def _tilted(keys: Numbers, target: Numbers) -> tuple[Numbers, Numbers]:
    """The weights of the family with the target's mean, and the query that gives them: Newton's method."""
    basis = _directions(keys - keys.mean(0))
    points = (keys - keys.mean(0)) @ basis.T
    direction = np.zeros(points.shape[1])

    def loss(z: Numbers) -> float:
        return float(special.logsumexp(points @ z) - target @ points @ z)

    for _ in range(200):
        weights = special.softmax(points @ direction)
        slope = (weights - target) @ points
        bend = (points.T * weights) @ points - np.outer(weights @ points, weights @ points)
        step = np.linalg.lstsq(bend, slope, rcond=1e-13)[0]
        if slope @ step < 1e-24:
            break
        size = 1.0
        while loss(direction - size * step) > loss(direction) - 1e-4 * size * (slope @ step) and size > 1e-12:
            size /= 2
        direction = direction - size * step
    return np.asarray(special.softmax(points @ direction)), np.asarray(direction @ basis)


def _smallest_scale(
    keys: Numbers, base: Numbers, face: Face, best: Numbers, scale: float, tolerance: float
) -> float:
    """The least of `direction` that brings every weight within the tolerance: the other keys' weight falls
    as it grows."""
    if face.mixable.all():
        return 0.0

    def off(size: float) -> float:
        weights = weights_of(keys, base + size * face.direction, scale)
        return float(np.abs(weights - best).max()) - tolerance

    if off(0.0) <= 0:
        return 0.0
    high = 1.0
    while off(high) > 0:
        high *= 2
    return float(optimize.brentq(off, 0.0, high, xtol=1e-9))


# ---------------------------------------------------------------- argmax and linear attention
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


def positive_features(vectors: Numbers) -> Numbers:
    """φ = elu + 1 of each number."""
    return np.where(vectors > 0, vectors + 1, np.exp(np.minimum(vectors, 0)))


def linear_weights(keys: Numbers, query: Numbers) -> Numbers:
    """Of linear attention: φ(q)·φ(k) as a share of all keys'."""
    products = positive_features(keys) @ positive_features(query)
    return np.asarray(products / products.sum())


def linear_query(keys: Numbers, target: Sequence[float] | Numbers) -> RuleQuery:
    """Linear attention with φ = elu + 1: weights ∝ φ(q)·φ(k), mixtures of the columns of φ(K).

    The best mixture in KL is found by expectation and maximisation, which never raises the divergence.
    """
    keys, wanted = checked(keys, target)
    features = positive_features(keys)
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
