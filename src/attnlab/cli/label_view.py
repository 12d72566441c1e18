"""What is predicted of new texts, as it is shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attnlab.documents.nodes import Bar, Marked, MarkedSpan, Node, Number, Table, Tone, toned
from attnlab.evaluation.result_nodes import label_text

if TYPE_CHECKING:
    from attnlab.tasks.task import Prediction, TextSpan


def prediction_node(text: str, prediction: Prediction) -> Node:
    """One text with what is predicted of it: its parts marked, or its classes."""
    return (
        prediction_table(text, prediction)
        if prediction.spans is None
        else marked_text(text, prediction.spans)
    )


def marked_text(text: str, spans: Sequence[TextSpan]) -> Marked:
    """A text with its labelled parts."""
    shown, at = list[MarkedSpan](), 0
    for span in spans:
        shown += [MarkedSpan(text[at : span.start]), MarkedSpan(span.text, span.label)]
        at = span.end
    return Marked([*shown, MarkedSpan(text[at:])])


def prediction_table(text: str, prediction: Prediction, top: int = 5) -> Table:
    """One text with its prediction, and the classes that are most probable."""
    if not prediction.scores:
        columns = {name: value for name, value in prediction.columns.items() if value is not None}
        cells = [value if isinstance(value, int) else label_text(value) for value in columns.values()]
        return Table(list(columns), [cells], title=text)
    chosen = (prediction.answer,) if isinstance(prediction.answer, str) else prediction.answer
    ranked = sorted(prediction.scores.items(), key=lambda item: -item[1])[:top]
    rows = [
        (
            toned(Tone.CHOSEN, name) if name in chosen else name,  # type: ignore[operator]
            Number(share, decimals=3),
            Bar(share),
        )
        for name, share in ranked
    ]
    return Table(("class", "probability", ""), rows, title=text)
