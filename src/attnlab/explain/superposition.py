"""Extraction from superposition: a matrix M that takes v_a out of ½(v_a + v_b), for bases A and B."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from attnlab.config.values import ConfigError
from attnlab.documents.nodes import Axis, Figure, Line, Lines, Node, Table
from attnlab.documents.numbers import short
from attnlab.explain.explanation import Explanation
from attnlab.explain.query_solver import Numbers

ROUNDING = 1e-9
"""An error below it is that of the arithmetic."""
ANGLES = (90, 80, 70, 60, 50, 40, 30, 20, 10, 5)


def orthogonal_extraction(a: Numbers) -> Numbers:
    """M = 2AAᵀ for an orthonormal basis A (d,m): right where B is orthogonal to A."""
    return 2 * a @ a.T


def oblique_extraction(a: Numbers, b: Numbers) -> Numbers:
    """M that is right for any independent bases: twice the projection onto A along B."""
    both = np.hstack([a, b])
    return np.asarray(2 * a @ np.linalg.pinv(both)[: a.shape[1]])


def worst_error(matrix: Numbers, a: Numbers, b: Numbers) -> float:
    """The largest ‖M·½(v_a + v_b) − v_a‖ over unit v_a in A and v_b in B with orthonormal bases: at most the
    sum of what M makes of each."""
    own = np.linalg.norm(matrix @ a / 2 - a, 2)
    other = np.linalg.norm(matrix @ b / 2, 2)
    return float(own + other)


def orthonormal(basis: Numbers, name: str) -> Numbers:
    """The same subspace by an orthonormal basis (d,m); dependent columns are refused."""
    if basis.ndim != 2 or not np.isfinite(basis).all():
        raise ConfigError(f"{name} is a table of numbers: a column for each basis vector.")
    q, r = np.linalg.qr(basis)
    if basis.shape[1] > basis.shape[0] or np.abs(np.diag(r)).min() < 1e-9 * np.abs(r).max():
        raise ConfigError(
            f"The columns of {name} depend on each other; give a basis, each column of its own."
        )
    return np.asarray(q)


@dataclass(frozen=True)
class Superposition(Explanation):
    """M for two bases, its error, and how that grows as the subspaces lose orthogonality."""

    a: Numbers
    b: Numbers
    matrix: Numbers
    error: float
    oblique: Numbers
    oblique_error: float
    angle: float
    """The smallest angle between the subspaces, degrees."""
    curve: tuple[tuple[float, float, float], ...]
    """(angle, error of 2AAᵀ, length of the oblique M) as B turns towards A."""

    kind = "superposition"

    @property
    def headline(self) -> str:
        return (
            f"M = 2AAᵀ takes v_a out of ½(v_a + v_b) {_exactly(self.error)}; the projection along B "
            f"{_exactly(self.oblique_error)}."
        )

    @property
    def remark(self) -> str:
        return f"For vectors of length 1; the subspaces are {short(self.angle)}° apart."

    def parts(self) -> list[Node]:
        turned = [row[0] for row in self.curve]
        return [
            Figure.of(
                "As B turns towards A",
                Lines(
                    [
                        Line("error of 2AAᵀ", turned, [_unless_rounding(row[1]) for row in self.curve]),
                        Line("norm of M along B", turned, [row[2] for row in self.curve]),
                    ],
                    Axis("smallest angle between the subspaces, degrees"),
                    Axis("error, or norm", log=True),
                ),
                note="2AAᵀ is wrong by the cosine of the angle, and exact to rounding at 90°, which a "
                "logarithmic axis cannot show; the projection along B is exact at any angle and pays with "
                "noise, as 2 over the sine.",
            ),
            Table(
                ("M", "largest error", "norm"),
                [
                    ["2AAᵀ", _shown(self.error), float(np.linalg.norm(self.matrix, 2))],
                    [
                        "along B",
                        _unless_rounding(self.oblique_error) or 0.0,
                        float(np.linalg.norm(self.oblique, 2)),
                    ],
                ],
                title="Matrices",
                note="Error: the largest ‖M·½(v_a + v_b) − v_a‖ over vectors of length 1 in the two "
                "subspaces, at most. Norm: how much noise in the value may grow.",
            ),
        ]

    def as_json(self) -> dict[str, Any]:
        return {
            "angle": self.angle,
            "orthogonal": {"matrix": self.matrix.tolist(), "error": self.error},
            "along_b": {"matrix": self.oblique.tolist(), "error": self.oblique_error},
            "curve": [{"angle": t, "error": e, "norm_along_b": n} for t, e, n in self.curve],
        }


def _unless_rounding(error: float) -> float | None:
    return error if error > ROUNDING else None


def _shown(error: float) -> float:
    return _unless_rounding(error) or 0.0


def _exactly(error: float) -> str:
    """An error in words; what is only rounding is none."""
    return f"with an error of at most {short(error)}" if error > ROUNDING else "exactly, to rounding"


def superposition(a: Any, b: Any) -> Superposition:
    """M for bases A (d,m) and B (d,n), given as columns."""
    first, second = orthonormal(np.asarray(a, np.float64), "A"), orthonormal(np.asarray(b, np.float64), "B")
    if len(first) != len(second):
        raise ConfigError(
            f"A has vectors of {len(first)} numbers and B of {len(second)}; both are of one space."
        )
    cosines = np.linalg.svd(first.T @ second, compute_uv=False).clip(0, 1)
    if cosines.max() > 1 - 1e-9:
        raise ConfigError("A and B share a direction: what they have in common cannot be told apart.")
    matrix, oblique = orthogonal_extraction(first), oblique_extraction(first, second)
    return Superposition(
        a=first,
        b=second,
        matrix=matrix,
        error=worst_error(matrix, first, second),
        oblique=oblique,
        oblique_error=worst_error(oblique, first, second),
        angle=float(np.degrees(np.arccos(cosines.max()))),
        curve=tuple(_turned(first, second, angle) for angle in ANGLES),
    )


def _turned(a: Numbers, b: Numbers, angle: float) -> tuple[float, float, float]:
    """B with its first vector turned so that it stands at this angle to A's first."""
    across = b - a @ (a.T @ b)
    free = np.linalg.qr(across)[0]
    radians = np.radians(angle)
    turned = free.copy()
    turned[:, 0] = np.cos(radians) * a[:, 0] + np.sin(radians) * free[:, 0]
    matrix = oblique_extraction(a, turned)
    error = worst_error(orthogonal_extraction(a), a, turned)
    return float(angle), error, float(np.linalg.norm(matrix, 2))
