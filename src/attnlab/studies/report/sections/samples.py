"""What the arms write, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnlab.studies.report.number_text import anything
from attnlab.studies.report.study_results import Arm, StudyResults

WORDS = {
    "n": "samples",
    "tokens": "tokens",
    "distinct_2": "different pairs",
    "repeated_4": "repeated runs of four",
    "stopped": "ended by themselves",
    "unknown": "unknown tokens",
}


def samples(study: StudyResults) -> dict[str, Any] | None:
    wrote = [arm for arm in study.arms if any(run.get("samples") for run in arm.runs)]
    if not wrote:
        return None
    seeds = [seed for seed in study.seeds if any(_of(arm, seed) for arm in wrote)]
    return {"seeds": [{"seed": seed, "arms": [_card(arm, seed) for arm in wrote]} for seed in seeds]}


def _of(arm: Arm, seed: int) -> Mapping[str, Any]:
    return next((run for run in arm.runs if run.get("seed") == seed and run.get("samples")), {})


def _card(arm: Arm, seed: int) -> dict[str, Any]:
    run = _of(arm, seed)
    quality = (run.get("quality") or {}).items()
    return {
        "arm": arm,
        "texts": run.get("samples") or [],
        "quality": [(WORDS.get(name, name.replace("_", " ")), anything(value)) for name, value in quality],
    }
