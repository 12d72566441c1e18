"""How long the texts are."""

from __future__ import annotations

from typing import Any

from attnlab.documents.numbers import fixed
from attnlab.studies.report import plots
from attnlab.studies.report.study_results import StudyResults


def lengths(study: StudyResults) -> dict[str, Any] | None:
    found = study.part("lengths")
    edges, counts = found.get("edges") or [], found.get("counts") or []
    if not counts or len(edges) != len(counts) + 1:
        return None
    total, most = sum(counts), max(range(len(counts)), key=counts.__getitem__)
    summary = (
        f"{fixed(total, 0)} texts of {edges[0]:.0f} to {edges[-1]:.0f} tokens; "
        f"the commonest have {edges[most]:.0f} to {edges[most + 1]:.0f}."
    )
    figure = plots.bars(edges, counts, plots.axis("tokens in a text"), plots.axis("texts"))
    return {
        "summary": summary,
        "plots": [plots.Plot("lengths", f"Histogram of text lengths: {summary}", {"": [figure]})],
    }
