"""Arms whose predictions came to the share of the most frequent label."""

from __future__ import annotations

from typing import Any

from attnlab.checks.predictions import collapse_told
from attnlab.studies.report.study_results import Arm, StudyResults


def collapses(study: StudyResults) -> dict[str, Any] | None:
    """One sentence for each such arm, with what to try."""
    told = [_told(arm) for arm in study.arms]
    sentences = [one for one in told if one]
    return {"sentences": sentences} if sentences else None


def _told(arm: Arm) -> str:
    found = {run.seed: collapse_told(one for one in run.checks if one.when == "after") for run in arm.runs}
    seeds = [seed for seed, told in found.items() if told]
    if not seeds:
        return ""
    which = "all seeds" if len(seeds) == len(arm.runs) else f"{len(seeds)} of {len(arm.runs)} seeds"
    return f"{arm.name} ({which}). {found[seeds[0]]}"
