"""Arms whose predictions came to the share of the most frequent label."""

from __future__ import annotations

from typing import Any

from attnlab.runs.findings import Finding, collapse_sentence
from attnlab.runs.result import RunResult
from attnlab.studies.collapsed import seeds_named
from attnlab.studies.report.study_results import Arm, StudyResults


def collapses(study: StudyResults) -> dict[str, Any] | None:
    """One sentence for each such arm, with what to try."""
    told = [_told(arm) for arm in study.arms]
    sentences = [one for one in told if one]
    return {"sentences": sentences} if sentences else None


def _told(arm: Arm) -> str:
    found = {run.seed: collapse_sentence(_at_the_end(run)) for run in arm.runs}
    seeds = [seed for seed, told in found.items() if told]
    if not seeds:
        return ""
    return f"{arm.name} ({seeds_named(seeds, len(arm.runs))}). {found[seeds[0]]}"


def _at_the_end(run: RunResult) -> list[Finding]:
    return [one for one in run.checks if one.when == "after"]
