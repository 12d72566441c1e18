"""Scores as `evaluate` gives them: a dictionary by name that shows itself as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnlab.documents.nodes import DocumentPage, Number, Table, TableColumn
from attnlab.documents.notebook import SelfShowing


class Scores(SelfShowing, dict[str, Any]):
    """What was scored, and its measures: {"name": …, "measures": {"accuracy": {"value": …}}, …}."""

    def document(self) -> DocumentPage:
        return DocumentPage("scores", str(self["name"]), [measures_table(self)])


def measures_table(scored: Mapping[str, Any]) -> Table:
    """A row a measure, with its interval over texts where there are several."""
    rows = [
        (
            name,
            Number.within(one["value"], one.get("interval")),
            one["definition"],
        )
        for name, one in scored["measures"].items()
    ]
    several = any("interval" in one for one in scored["measures"].values())
    value = TableColumn("value, 95% interval" if several else "value", alike=False, whole=True)
    return Table((TableColumn("measure", whole=True), value, "definition"), rows)
