"""Scores as `evaluate` gives them: a dictionary by name that shows itself as a table."""

from __future__ import annotations

from typing import Any

from attnlab.runs.tabular import ShortTable, Tabular, number


class Scores(Tabular, dict[str, Any]):
    """What was scored, and its measures: {"name": …, "measures": {"accuracy": {"value": …}}, …}."""

    def table(self) -> ShortTable:
        rows = [
            (name, number(one["value"]), " to ".join(map(number, one.get("interval", ()))), one["definition"])
            for name, one in self["measures"].items()
        ]
        return ShortTable(str(self["name"]), ("measure", "value", "95 % interval", "definition"), rows)
