"""Classifiers that ended at the majority share: which runs of a study."""

from __future__ import annotations

from collections.abc import Sequence

from attnlab.config.wording import in_words
from attnlab.runs.findings import COLLAPSES, Outcome
from attnlab.runs.result import RunResult

CHECKS = ("majority", "collapse")
"""The checks that a classifier without knowledge fails."""


def learned_nothing(run: RunResult) -> bool:
    """Whether a run failed these checks by no more than ending at the majority share; where labels were mixed
    up it did not, which is a fault."""
    failed = [one for one in run.checks if one.outcome is Outcome.FAIL and one.check in CHECKS]
    return bool(failed) and all(one.check == "collapse" or one.kind in COLLAPSES for one in failed)


def at_majority(runs: Sequence[RunResult]) -> str:
    """The arms and seeds that ended there, in one sentence; empty where there is none."""
    arms = dict.fromkeys(run.arm for run in runs if learned_nothing(run))
    told = []
    for arm in arms:
        own = [run for run in runs if run.arm == arm and run.trained]
        told.append(f"{arm} ({seeds_named([run.seed for run in own if learned_nothing(run)], len(own))})")
    return f"No better than always giving the most frequent label: {in_words(told)}." if told else ""


def seeds_named(seeds: Sequence[int], trained: int) -> str:
    """Which seeds of so many: "all seeds", "seeds 1 and 2 of 5"."""
    if len(seeds) == trained and trained > 1:
        return "all seeds"
    named = in_words([str(seed) for seed in sorted(seeds)])
    return f"seed{'s' if len(seeds) > 1 else ''} {named}" + (f" of {trained}" if trained > 1 else "")
