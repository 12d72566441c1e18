"""Classifiers that ended at the majority share: which runs, and what to try."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attnlab.checks.predictions import COLLAPSES, CURE
from attnlab.runs.findings import Finding
from attnlab.runs.result import RunResult
from attnlab.studies.equality import listed

CHECKS = ("majority", "collapse")
"""The checks that a classifier without knowledge fails."""
TRY = f"{CURE} In a study: --set training.optimizer.learning_rate=…. If no rate helps, train for more epochs."


def learned_nothing(run: RunResult) -> list[Finding]:
    """The failures of a run that say no more than that it ended at the majority share; none where labels
    were mixed up, which is a fault."""
    failed = [one for one in run.checks if one.outcome == "fail" and one.check in CHECKS]
    told = [one for one in failed if one.check == "collapse" or one.meaning in COLLAPSES]
    return told if len(told) == len(failed) else []


def collapsed(runs: Sequence[RunResult]) -> list[dict[str, Any]]:
    """The arms with runs that ended at the majority share, with their seeds and what was found."""
    arms: dict[str, dict[int, list[Finding]]] = {}
    for run in runs:
        if found := learned_nothing(run):
            arms.setdefault(run.arm, {})[run.seed] = found
    trained = {arm: [run for run in runs if run.arm == arm and run.trained] for arm in arms}
    return [
        {
            "arm": arm,
            "seeds": sorted(seeds),
            "of": len(trained[arm]),
            "found": [f"seed {seed}: {found[0].found}" for seed, found in sorted(seeds.items())],
        }
        for arm, seeds in arms.items()
    ]


def sentence(rows: Sequence[Mapping[str, Any]]) -> str:
    """All of them in one sentence; empty where there is none."""
    if not rows:
        return ""
    told = [f"{row['arm']} ({seeds_of(row)})" for row in rows]
    return f"No better than always giving the most frequent label: {listed(told)}."


def seeds_of(row: Mapping[str, Any]) -> str:
    seeds = row["seeds"]
    if len(seeds) == row["of"]:
        return "all seeds" if len(seeds) > 1 else f"seed {seeds[0]}"
    return f"seed{'s' if len(seeds) > 1 else ''} {listed([str(seed) for seed in seeds])} of {row['of']}"
