"""A query of a person's own, judged: the weights and the output it gives under softmax, argmax and linear
attention, and what becomes of them as it is scaled up."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from attnlab.config.values import ConfigError
from attnlab.config.wording import in_words
from attnlab.documents.nodes import Bar, Grid, Inline, Node, Number, Table, TableColumn
from attnlab.explain.explanation import Explanation
from attnlab.explain.query_answers import MOST_BARS
from attnlab.explain.query_solver import Numbers, argmax_weights, checked, linear_weights, weights_of

FACTORS = (1.0, 10.0, 100.0, 1000.0)
"""How many times the query is scaled up."""
ALIKE = 1e-9
"""Of the largest score: scores that differ by less are equal."""


@dataclass(frozen=True)
class GivenQuery(Explanation):
    """Keys (n,d), a query (d), and if wanted values (n,m) and target weights (n)."""

    keys: Numbers
    names: Sequence[str]
    query: Numbers
    written: str
    """The query as it was given."""
    scale: float
    values: Numbers | None = None
    target: Numbers | None = None

    kind = "query"

    @cached_property
    def scores(self) -> Numbers:
        return self.scale * self.keys @ self.query

    @cached_property
    def weights(self) -> Mapping[str, Numbers]:
        """What each rule gives each key."""
        return {
            "softmax": weights_of(self.keys, self.query, self.scale),
            "argmax": argmax_weights(self.keys, self.query),
            "linear": linear_weights(self.keys, self.query),
        }

    @cached_property
    def scaled(self) -> Mapping[float, Numbers]:
        """Softmax weights of the query times each factor."""
        return {factor: weights_of(self.keys, factor * self.query, self.scale) for factor in FACTORS}

    @property
    def highest(self) -> list[int]:
        """The keys that score highest, which share all weight in the limit of a large scale."""
        top = self.scores.max()
        return np.flatnonzero(self.scores >= top - ALIKE * max(1.0, abs(top))).tolist()

    def error(self, weights: Numbers) -> float | None:
        """The largest difference of a weight from the target's; None where there is no target."""
        return None if self.target is None else float(np.abs(weights - self.target).max())

    @property
    def headline(self) -> str:
        if self.target is not None:
            errors = (f"{self.error(w):.2g} with {rule}" for rule, w in self.weights.items())
            return f"q = {self.written[:40]} misses the target by {', '.join(errors)}."
        most = int(self.weights["softmax"].argmax())
        share = self.weights["softmax"][most]
        return f"q = {self.written[:40]} gives {self.names[most]} {share:.3g} of the weight with softmax."

    @property
    def remark(self) -> str:
        """What scaling up does."""
        highest = in_words(self.highest)
        if len(self.highest) > 1:
            limit = f"Keys {highest} score alike and highest: scaled up, they share all weight equally."
        else:
            limit = f"Key {highest} scores highest: scaled up, it gets all weight in the end."
        wanted = [] if self.target is None else np.flatnonzero(self.target > 0).tolist()
        spread = float(np.ptp(self.scores[wanted])) if wanted else 0.0
        if len(wanted) > 1 and spread > ALIKE:
            limit += (
                f" The wanted keys {in_words(wanted)} score {spread:.3g} apart, and scaling multiplies that "
                "too: `--target` alone finds the query that scores them alike."
            )
        return limit

    def parts(self) -> list[Node]:
        outputs = [] if self.values is None else [self._outputs(self.values)]
        return [self._weights(), *outputs, self._scaled()]

    def _weights(self) -> Node:
        target = {} if self.target is None else {"wanted": self.target}
        rows = {**target, **self.weights}
        title = "Weights of each key"
        if len(self.keys) > MOST_BARS:
            return Grid(list(rows), list(self.names), [row.tolist() for row in rows.values()], title=title)
        cells: list[list[Inline]] = [["q·k", *(Number(x, decimals=3) for x in self.scores.tolist())]]
        for name, row in rows.items():
            bars: list[Inline] = [(Number(w, decimals=3), " ", Bar(w, room=1 / 3)) for w in row.tolist()]
            cells.append([name, *bars])
        return Table(["", *(TableColumn(name, right=False) for name in self.names)], cells, title=title)

    def _outputs(self, values: Numbers) -> Table:
        outputs = {rule: (weights @ values).tolist() for rule, weights in self.weights.items()}
        rows: list[list[Inline]] = [
            [rule, *(Number(x, decimals=3) for x in output)] for rule, output in outputs.items()
        ]
        names = (f"value {number}" for number in range(values.shape[1]))
        return Table(["", *names], rows, title="Outputs: the values by their weights")

    def _scaled(self) -> Table:
        rows: list[list[Inline]] = []
        for factor, weights in self.scaled.items():
            error = self.error(weights)
            cells = [Number(w, decimals=3) for w in weights.tolist()[:MOST_BARS]]
            rows.append([f"× {factor:,.0f}", *cells, *([] if error is None else [Number(error, decimals=3)])])
        names = [*self.names[:MOST_BARS], *([] if self.target is None else ["error"])]
        return Table(["scale", *names], rows, title="Softmax weights of the query scaled up")

    def as_json(self) -> dict[str, Any]:
        return {
            "query": self.query.tolist(),
            "keys": self.keys.tolist(),
            "scale": self.scale,
            "scores": self.scores.tolist(),
            "weights": {rule: weights.tolist() for rule, weights in self.weights.items()},
            "errors": {rule: self.error(weights) for rule, weights in self.weights.items()},
            "outputs": None
            if self.values is None
            else {rule: (weights @ self.values).tolist() for rule, weights in self.weights.items()},
            "scaled": [
                {"factor": factor, "weights": weights.tolist(), "error": self.error(weights)}
                for factor, weights in self.scaled.items()
            ],
            "highest": self.highest,
        }


def given_query(
    keys: Any,
    query: str,
    *,
    names: Sequence[str] = (),
    scale: float = 1.0,
    values: Any = None,
    target: Sequence[float] | None = None,
) -> GivenQuery:
    """A query over keys (n,d), as numbers (−2,1,1) or as a formula of the keys (10*(k0+k1)/2, mean, 0)."""
    vectors = np.asarray(keys, np.float64)
    vectors, wanted = checked(vectors, np.full(len(vectors), 1 / len(vectors)) if target is None else target)
    held = None if values is None else np.asarray(values, np.float64)
    if held is not None and len(held) != len(vectors):
        raise ConfigError(f"There are {len(held)} values and {len(vectors)} keys; give a value for each key.")
    named = list(names) or [f"key {number}" for number in range(len(vectors))]
    vector = vector_of(query, vectors)
    return GivenQuery(vectors, named, vector, query.strip(), scale, held, None if target is None else wanted)


def vector_of(text: str, keys: Numbers) -> Numbers:
    """The vector that is written: its numbers, or a formula of k0, k1, …, mean and numbers."""
    width = keys.shape[1]
    try:
        tree = ast.parse(f"({text})", mode="eval").body
    except (SyntaxError, ValueError):
        raise ConfigError(formula_rule(text, len(keys), width)) from None
    if isinstance(tree, ast.Tuple):
        numbers = [value_of(part, keys, text) for part in tree.elts]
        if len(numbers) != width or any(number.ndim for number in numbers):
            raise ConfigError(formula_rule(text, len(keys), width))
        return np.array([float(number) for number in numbers])
    vector = value_of(tree, keys, text)
    if vector.ndim == 0 and (width == 1 or float(vector) == 0):
        return np.full(width, float(vector))
    if vector.shape != (width,) or not np.isfinite(vector).all():
        raise ConfigError(formula_rule(text, len(keys), width))
    return vector


def value_of(tree: ast.AST, keys: Numbers, text: str) -> Numbers:
    """The value of a formula: sums, differences, multiples and parts of keys and numbers, nothing else."""
    match tree:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return np.asarray(float(number))
        case ast.Name(id="mean"):
            return np.asarray(keys.mean(0))
        case ast.Name(id=name) if name[:1] == "k" and name[1:].isdecimal() and int(name[1:]) < len(keys):
            return np.asarray(keys[int(name[1:])])
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return np.asarray(-value_of(inner, keys, text))
        case ast.BinOp(left=left, op=op, right=right):
            a, b = value_of(left, keys, text), value_of(right, keys, text)
            if isinstance(op, ast.Add | ast.Sub) and a.ndim == b.ndim:
                return np.asarray(a + b if isinstance(op, ast.Add) else a - b)
            if isinstance(op, ast.Mult) and 0 in (a.ndim, b.ndim):
                return np.asarray(a * b)
            if isinstance(op, ast.Div) and b.ndim == 0 and float(b):
                return np.asarray(a / b)
    raise ConfigError(formula_rule(text, len(keys), keys.shape[1]))


def formula_rule(text: str, keys: int, width: int) -> str:
    return (
        f"--query {text} is not a query of {width} numbers; write them ({', '.join(['0.5'] * min(width, 3))}"
        f"{', …' if width > 3 else ''}), or a formula of the keys k0 to k{keys - 1} and their mean, such as "
        "10*(k0+k1)/2."
    )
