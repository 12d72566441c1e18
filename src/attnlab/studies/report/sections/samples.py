"""What the arms write, side by side."""

from __future__ import annotations

from typing import Any

from attnlab.documents.numbers import anything
from attnlab.runs.result import RunResult
from attnlab.studies.report.study_results import Arm, StudyResults

WORDS = {
    "n": "samples",
    "tokens": "tokens",
    "distinct_2": "distinct bigrams",
    "repeated_4": "repeated 4-grams",
    "stopped": "ended with the stop token",
    "unknown": "unknown tokens",
}
SHARES = {"distinct_2", "repeated_4", "stopped", "unknown"}


def samples(study: StudyResults) -> dict[str, Any] | None:
    wrote = [arm for arm in study.arms if any(run.samples for run in arm.runs)]
    if not wrote:
        return None
    seeds = [seed for seed in study.seeds if any(_of(arm, seed) for arm in wrote)]
    return {"seeds": [{"seed": seed, "arms": [_card(arm, seed) for arm in wrote]} for seed in seeds]}


def _of(arm: Arm, seed: int) -> RunResult | None:
    return next((run for run in arm.runs if run.seed == seed and run.samples), None)


def _card(arm: Arm, seed: int) -> dict[str, Any]:
    run = _of(arm, seed) or RunResult()
    return {
        "arm": arm,
        "texts": run.samples,
        "quality": [
            (WORDS.get(name, name.replace("_", " ")), f"{value:.0%}" if name in SHARES else anything(value))
            for name, value in run.quality.items()
        ],
    }
