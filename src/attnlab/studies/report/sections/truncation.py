"""How much of the text was cut off."""

from __future__ import annotations

from typing import Any

from attnlab.data.encode.encoding import MUCH
from attnlab.runs.result import CutText
from attnlab.studies.report.study_results import StudyResults


def truncation(study: StudyResults) -> dict[str, Any] | None:
    """One row for each split; arms that lost the same stand in it together."""
    rows: dict[tuple[str, tuple[tuple[str, object], ...]], dict[str, Any]] = {}
    for arm, run in study.runs():
        for split, cut in run.truncation.items():
            row = rows.setdefault((split, tuple(sorted(cut.items()))), _row(split, cut))
            row["arms"][arm.name] = arm
    if not rows:
        return None
    found = sorted(rows.values(), key=lambda row: str(row["split"]), reverse=True)
    for row in found:
        row["arms"] = [] if len(row["arms"]) == len(study.arms) else list(row["arms"].values())
    return {"rows": found, "much": f"{MUCH:.0%}"}


def _row(split: str, cut: CutText) -> dict[str, Any]:
    return {
        "split": split,
        "arms": {},
        "texts": f"{cut['texts_cut']:,} of {cut['texts']:,} ({cut['texts_cut_share']:.1%})",
        "tokens": f"{cut['tokens_cut']:,} of {cut['tokens']:,} ({cut['tokens_cut_share']:.1%})",
        "longest": f"{cut['longest']:,}",
        "much": cut["tokens_cut_share"] > MUCH,
    }
