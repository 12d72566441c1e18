"""What a model is made of and what it costs: parameters, operations and memory, term by term."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from attnlab.documents.nodes import (
    Details,
    Node,
    Sentence,
    StackedBar,
    Table,
    TableColumn,
    TableRow,
    Tone,
    toned,
)
from attnlab.documents.numbers import fixed, scaled
from attnlab.explain.explanation import Explanation
from attnlab.model.counts import Counts
from attnlab.model.terms import letters_in

MOST_PARTS = 8
"""Parts of a bar, as many as there are colours; the smallest are then one."""


@dataclass(frozen=True)
class ModelCounts(Explanation):
    """Counts in closed form, as bars on a page and as tables with their formulas everywhere."""

    costs: Counts

    kind = "counts"

    @property
    def headline(self) -> str:
        largest = max(self.costs.parameters, key=lambda term: term.count)
        forward = amount(self.costs.forward / self.costs.length)
        return (
            f"{scaled(self.costs.closed_form)} parameters, {largest.count / self.costs.closed_form:.0%} of "
            f"them in {largest.name}; {forward} operations a token, forward."
        )

    @property
    def remark(self) -> str:
        costs = self.costs
        if costs.closed_form != costs.total:
            own = fixed(costs.total, 0)
            return f"The model itself has {own} parameters: the closed form is wrong."
        step = f"{costs.batch} × {costs.length} tokens"
        return f"A training step of {step} takes about {size_text(costs.memory['total'])} of memory."

    def parts(self) -> list[Node]:
        return [self._parameters(), self._operations(), self._memory(), self._letters()]

    def page_parts(self) -> list[Node]:
        """Bars first; the formulas on request."""
        parameters = [(term.name, term.count) for term in self.costs.parameters]
        operations = [(term.name, term.count) for term in self.costs.flops]
        memory = [(_named(name), size) for name, size in self.costs.memory.items() if name != "total"]
        return [
            bar_of("Parameters", parameters, lambda size: fixed(size, 0)),
            bar_of(self._operations_title, operations, amount),
            bar_of(self._memory_title, memory, size_text),
            Details("Formulas and numbers", self.parts()),
        ]

    def _parameters(self) -> Table:
        costs = self.costs
        rows = [TableRow((term.name, term.formula, term.count)) for term in costs.parameters]
        equal = costs.closed_form == costs.total
        agrees = "= the model's own count" if equal else "≠ the model's own count!"
        rows.append(TableRow(("closed form", agrees, costs.closed_form), apart=True))
        if not equal:
            rows.append(TableRow((toned(Tone.WRONG, "the model's own"), "", costs.total)))
        return Table(("part", "formula", "parameters"), rows, title="Parameters")

    @property
    def _operations_title(self) -> str:
        return f"Operations for one row of {self.costs.length} tokens (multiply and add counted separately)"

    def _operations(self) -> Table:
        costs = self.costs
        rows = [
            TableRow((term.name, term.formula, amount(term.count), f"{term.count / costs.forward:.1%}"))
            for term in costs.flops
        ]
        forward = costs.forward / costs.length
        rows.append(TableRow(("per token, forward", "", amount(forward), ""), apart=True))
        rows.append(TableRow(("per token, backward", "2 × forward", amount(2 * forward), "")))
        columns = ("part", "grows as", TableColumn("forward", right=True), TableColumn("share", right=True))
        return Table(columns, rows, title=self._operations_title)

    @property
    def _memory_title(self) -> str:
        costs = self.costs
        return f"Memory of a training step, {costs.batch} × {costs.length} tokens, float32, AdamW"

    def _memory(self) -> Table:
        rows = [
            TableRow((_named(name), size_text(size)), apart=name == "total")
            for name, size in self.costs.memory.items()
        ]
        return Table(("part", TableColumn("size", right=True)), rows, title=self._memory_title)

    def _letters(self) -> Sentence:
        letters = letters_in(term.formula for term in [*self.costs.parameters, *self.costs.flops])
        meanings = ", ".join(f"{letter} {meaning}" for letter, meaning in letters.items())
        return Sentence(f"Letters: {meanings}.", "fine")

    def as_json(self) -> dict[str, Any]:
        return self.costs.as_json()


def bar_of(title: str, sizes: Sequence[tuple[str, float]], said: Callable[[float], str]) -> StackedBar:
    """Parts of one name together, the largest first; the smallest as one where they are too many."""
    sums: dict[str, float] = {}
    for name, size in sizes:
        sums[name] = sums.get(name, 0) + size
    ordered = sorted(sums.items(), key=lambda part: -part[1])
    kept, small = ordered[:MOST_PARTS], ordered[MOST_PARTS:]
    if small:
        kept, small = ordered[: MOST_PARTS - 1], ordered[MOST_PARTS - 1 :]
        kept.append((f"{len(small)} smaller parts", sum(size for _, size in small)))
    return StackedBar([(name, size, said(size)) for name, size in kept], title=title)


def _named(part: str) -> str:
    return part + " (estimate)" * (part == "activations")


def amount(number: float) -> str:
    """Operations with the letter of their power of ten."""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.2f} {letter}"
    return f"{number:.0f}"


def size_text(number: float) -> str:
    for size, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number:.0f} B"
