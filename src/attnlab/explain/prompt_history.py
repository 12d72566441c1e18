"""What a model makes of one prompt as it learns: its continuation and next token after 1, 10, 100 steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from attnlab.config.visible_text import visible
from attnlab.documents.nodes import Axis, Figure, Inline, Line, Lines, Node, Number, Table, TableColumn
from attnlab.explain.explanation import Explanation

LINES = 5
"""Next tokens whose probability is drawn."""


@dataclass(frozen=True)
class PromptMoment:
    """A prompt at one step: the greedy continuation, the mean probability of its tokens (geometric), and the
    likeliest next tokens."""

    step: int
    continuation: str
    each: float
    next: Sequence[tuple[str, float]]


@dataclass(frozen=True)
class PromptHistory(Explanation):
    """One prompt over the steps of a run."""

    prompt: str
    moments: Sequence[PromptMoment]

    kind = "watched prompt"

    @property
    def headline(self) -> str:
        first, last = self.moments[0], self.moments[-1]
        (word, chance), (before, earlier) = last.next[0], first.next[0]
        return (
            f'After "{self.prompt[:30]}" the likeliest token is "{visible(word)}" ({chance:.2g}) at step '
            f'{last.step:,}; at step {first.step:,} it was "{visible(before)}" ({earlier:.2g}).'
        )

    def parts(self) -> list[Node]:
        figure = [self._figure()] if len(self.moments) > 2 else []
        return [self._table(), *figure]

    def _table(self) -> Table:
        rows: list[list[Inline]] = [
            [
                moment.step,
                visible(moment.continuation),
                Number(moment.each, decimals=4),
                visible(moment.next[0][0]),
                Number(moment.next[0][1], decimals=4),
            ]
            for moment in self.moments
        ]
        columns = ("step", TableColumn("continuation"), "p of a token", "next token", "p")
        note = "The likeliest token each time, with the geometric mean of their probabilities."
        return Table(columns, rows, title=f"What follows {self.prompt!r}", note=note)

    def _figure(self) -> Figure:
        """The probability of the tokens that are likeliest at the end, and of the first one of the start."""
        words = [word for word, _ in self.moments[-1].next[:LINES]]
        words += [word for word, _ in self.moments[0].next[:1] if word not in words]
        taken = [moment for moment in self.moments if moment.step > 0]
        steps = [float(moment.step) for moment in taken]
        lines = [
            Line(visible(word), steps, [dict(moment.next).get(word) for moment in taken]) for word in words
        ]
        chart = Lines(lines, Axis("step", log=True), Axis("probability of the next token", from_zero=True))
        return Figure.of("Next token by step", chart)

    def as_json(self) -> dict[str, Any]:
        return {"prompt": self.prompt, "moments": [asdict(moment) for moment in self.moments]}
