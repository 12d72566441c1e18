"""Probe sentences, a loss for each arm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnlab.studies.report.number_text import column, exact, spread
from attnlab.studies.report.study_results import Arm, StudyResults


def probes(study: StudyResults) -> dict[str, Any] | None:
    scored = [arm for arm in study.arms if any(run.probes for run in arm.runs)]
    texts = list(dict.fromkeys(p["text"] for arm in scored for r in arm.runs for p in r.probes))
    if not texts:
        return None
    return {"arms": scored, "rows": [_row(scored, text) for text in texts]}


def _row(arms: list[Arm], text: str) -> dict[str, Any]:
    found = [_of(arm, text) for arm in arms]
    first = next(probe for probes in found for probe in probes)
    return {
        "text": text,
        "tokens": exact(first.get("tokens"), "count"),
        "unknown": exact(first.get("unknown"), "count"),
        "losses": column([spread([probe.get("loss") for probe in probes]) for probes in found]),
    }


def _of(arm: Arm, text: str) -> list[Mapping[str, Any]]:
    return [probe for run in arm.runs for probe in run.probes if probe["text"] == text]
