"""Attention algebra, told: keys, target weights, the query that reaches them, and what cannot be reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnlab.config.values import ConfigError
from attnlab.config.wording import in_words
from attnlab.documents.nodes import Bar, Definitions, Grid, Grids, Node, Number, Table, TableColumn, TableRow
from attnlab.documents.numbers import short
from attnlab.explain.explanation import Explanation
from attnlab.explain.query_solver import (
    FoundQuery,
    Numbers,
    RuleQuery,
    argmax_query,
    best_query,
    linear_query,
)

EXAMPLE = ((0.47, 0.65, 0.60), (0.64, 0.50, -0.59), (-0.03, -0.48, -0.88), (0.43, -0.83, 0.35))
"""Four nearly orthogonal keys, used where none are given."""
MANY = 8
"""Numbers of a query that are shown."""
MOST_BARS = 4
"""Keys whose weights are drawn as bars: more do not fit side by side in a terminal."""


def targets_of(text: str, count: int) -> dict[str, list[float]]:
    """Target weights by name: `one:2`, `each`, `all`, `subset:0,1`, or numbers such as 0.5,0.5,0,0."""
    named, _, rest = text.strip().partition(":")
    if named == "each" and not rest:
        return {f"select key {key}": one_hot([key], count) for key in range(count)}
    if named == "all" and not rest:
        return {"average all": one_hot(range(count), count)}
    if named in ("one", "subset"):
        chosen = _whole(rest, count, text)
        if named == "one" and len(chosen) != 1:
            raise ConfigError(f"--target {text}: one key is meant; write one:2, or subset:0,1 for several.")
        title = "select key" if named == "one" else "average keys"
        return {f"{title} {', '.join(map(str, chosen))}": one_hot(chosen, count)}
    try:
        return {text: [float(part) for part in text.split(",")]}
    except ValueError:
        raise ConfigError(
            f"--target {text} is not understood; write weights (0.5,0.5,0,0), one:2, each, all or subset:0,1."
        ) from None


def _whole(text: str, count: int, target: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    known = {str(key): key for key in range(count)}
    if not known.keys() >= {*parts}:
        raise ConfigError(f"--target {target}: keys are numbered from 0 to {count - 1}.")
    return [known[part] for part in parts]


def one_hot(chosen: Any, count: int) -> list[float]:
    """Equal weights on the chosen keys."""
    keys = set(chosen)
    return [1 / len(keys) if key in keys else 0.0 for key in range(count)]


@dataclass(frozen=True)
class QueryAnswer:
    """One target: the query of softmax attention, and what argmax and linear attention can do."""

    name: str
    found: FoundQuery
    argmax: RuleQuery
    linear: RuleQuery

    @property
    def sentence(self) -> str:
        return f"{self.name}: {self.outcome}"

    @property
    def outcome(self) -> str:
        """What a query can do for the target."""
        solution = self.found
        if solution.how == "exact":
            return f"reached exactly by a query of length {_length(solution.query)}."
        if solution.how == "limit":
            return (
                f"reached in the limit of a large scale; from scale {solution.scale:.4g} on every weight is "
                f"within {solution.tolerance:g} of the target."
            )
        return f"cannot be reached; the closest has a divergence of {short(solution.divergence)} nats."

    @property
    def reason(self) -> str:
        """Why no query reaches the target, or how narrowly one does."""
        solution = self.found
        if solution.how == "limit":
            below = short(solution.margin)
            return f"The best other key scores {below} below the wanted ones for each unit of scale."
        if solution.how == "exact":
            return ""
        if solution.between:
            wanted, others = np.flatnonzero(solution.target > 0), in_words(solution.between)
            if len(wanted) == 1:
                return (
                    f"Key {wanted[0]} lies in the convex hull of keys {others}: one of them scores at least "
                    "as high, whatever the query."
                )
            return (
                f"The mean of the wanted keys {in_words(wanted)} lies inside a hull with key {others} too: "
                "a query that scores the wanted ones alike and highest scores these as high."
            )
        return (
            "The wanted weights need logarithms that are a linear function of the keys, and these are not: "
            f"the {len(solution.target)} keys are too many or too much alike for so few dimensions."
        )

    @property
    def weights_by_rule(self) -> dict[str, Numbers]:
        """What is wanted, and what each rule gives."""
        found = self.found
        given = {"softmax": found.weights, "argmax": self.argmax.weights, "linear": self.linear.weights}
        return {"wanted": found.target, **given}


@dataclass(frozen=True)
class QueryAnswers(Explanation):
    """Answers for keys (n,d) and each target."""

    keys: Numbers
    names: Sequence[str]
    answers: Sequence[QueryAnswer]
    scale: float

    kind = "query"

    @property
    def headline(self) -> str:
        if len(self.answers) == 1:
            return self.answers[0].sentence
        reached = sum(answer.found.how != "closest" for answer in self.answers)
        return f"{reached} of {len(self.answers)} targets can be reached over {len(self.keys)} keys."

    @property
    def remark(self) -> str:
        return self.answers[0].reason if len(self.answers) == 1 else ""

    def parts(self) -> list[Node]:
        return [self._weights(), self._table(), *([] if len(self.answers) == 1 else [self._sentences()])]

    def _weights(self) -> Node:
        """Wanted, softmax, argmax and linear below each other: bars for each key, shades for many keys."""
        title = "Weights of each key"
        if len(self.keys) <= MOST_BARS:
            columns = [TableColumn(), *(TableColumn(name, right=False) for name in self.names)]
            return Table(columns, self._bars(), title=title)
        grids = [
            Grid(list(rows), self.names, [row.tolist() for row in rows.values()], title=answer.name)
            for answer in self.answers
            for rows in [answer.weights_by_rule]
        ]
        return Grids(grids, title=title)

    def _bars(self) -> list[TableRow]:
        rows = []
        for answer in self.answers:
            group = answer.name if len(self.answers) > 1 else ""
            for rule, weights in answer.weights_by_rule.items():
                bars = [(Number(w, decimals=2), " ", Bar(w, room=1 / 3)) for w in weights.tolist()]
                rows.append(TableRow((rule, *bars), group=group))
                group = ""
        return rows

    def _table(self) -> Table:
        rows = [
            [
                answer.name,
                answer.found.how,
                answer.found.error,
                answer.found.divergence,
                answer.found.margin if np.isfinite(answer.found.margin) else None,
                answer.found.scale,
                _vector(answer.found.query),
            ]
            for answer in self.answers
        ]
        note = (
            f"Scores are {self.scale:.3g}·q·k. Error: largest difference of a weight at this query. KL: "
            "divergence of the target from the nearest weights that any query can give, nats. Margin: how "
            "far the best other key scores below the wanted ones, for each unit of scale. Scale: the least "
            f"for the tolerance {self.answers[0].found.tolerance:g}. {self._others()}"
        )
        return Table(
            ("target", "how", "error", "KL", "margin", "scale", "query"), rows, title="Queries", note=note
        )

    def _others(self) -> str:
        sentences = []
        for rule in ("argmax", "linear"):
            reasons = {getattr(answer, rule).reason for answer in self.answers} - {""}
            sentences += [f"With {rule}: {reason}." for reason in sorted(reasons)[:1]]
        return " ".join(sentences)

    def _sentences(self) -> Definitions:
        told = [(answer.name, f"{answer.outcome} {answer.reason}".rstrip()) for answer in self.answers]
        return Definitions(told, title="Targets")

    def as_json(self) -> dict[str, Any]:
        return {
            "scale": self.scale,
            "keys": self.keys.tolist(),
            "targets": [
                {
                    "name": answer.name,
                    "target": answer.found.target.tolist(),
                    "how": answer.found.how,
                    "reason": answer.reason if answer.found.how == "closest" else "",
                    "query": answer.found.query.tolist(),
                    "weights": answer.found.weights.tolist(),
                    "nearest_weights": answer.found.best.tolist(),
                    "error": answer.found.error,
                    "divergence": answer.found.divergence,
                    "margin": answer.found.margin if np.isfinite(answer.found.margin) else None,
                    "smallest_scale": answer.found.scale,
                    "tolerance": answer.found.tolerance,
                    **{rule: _rule_json(getattr(answer, rule)) for rule in ("argmax", "linear")},
                }
                for answer in self.answers
            ],
        }


def query_answers(
    keys: Any,
    targets: Mapping[str, Sequence[float]],
    *,
    names: Sequence[str] = (),
    scale: float = 1.0,
    tolerance: float = 0.01,
) -> QueryAnswers:
    """The best query for each target over keys (n,d), under softmax, argmax and linear attention."""
    vectors = np.asarray(keys, np.float64)
    answers = [
        QueryAnswer(
            name,
            best_query(vectors, target, scale=scale, tolerance=tolerance),
            argmax_query(vectors, target),
            linear_query(vectors, target),
        )
        for name, target in targets.items()
    ]
    return QueryAnswers(vectors, list(names) or [f"key {n}" for n in range(len(vectors))], answers, scale)


def _rule_json(answer: RuleQuery) -> dict[str, Any]:
    divergence = answer.divergence if np.isfinite(answer.divergence) else None
    weights = answer.weights.tolist()
    return {"reached": answer.reached, "reason": answer.reason, "weights": weights, "divergence": divergence}


def _vector(query: Numbers) -> str:
    shown = ", ".join(f"{x:.4g}".replace("-", "−") for x in query[:MANY])
    return f"({shown}{', …' if len(query) > MANY else ''})"


def _length(query: Numbers) -> str:
    return f"{np.linalg.norm(query):.4g}"
