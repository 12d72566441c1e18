"""Do these runs mean what they claim? Every check for every arm, the worst of its seeds."""

from __future__ import annotations

from collections import Counter
from typing import Any

from attnlab.runs.findings import MARKS, Finding
from attnlab.runs.result import RunResult
from attnlab.studies.report.study_results import Arm, StudyResults

ORDER = ("not applicable", "pass", "warn", "fail")


def checks(study: StudyResults) -> dict[str, Any] | None:
    checked = [arm for arm in study.arms if any(run.checks for run in arm.runs)]
    names = list(dict.fromkeys(found.check for arm in checked for run in arm.runs for found in run.checks))
    if not names:
        return None
    return {
        "arms": checked,
        "rows": [(name, [_cell(arm, name) for arm in checked]) for name in names],
        "findings": [f for outcome in reversed(ORDER) for f in _findings(checked, outcome)],
        "signs": MARKS,
    }


def _of(run: RunResult, check: str) -> list[str]:
    return [finding.outcome for finding in run.checks if finding.check == check]


def _worst(outcomes: list[str]) -> str:
    """An outcome that nobody knows is worse than any."""
    return max(outcomes, key=lambda o: ORDER.index(o) if o in ORDER else len(ORDER))


def _cell(arm: Arm, check: str) -> dict[str, Any]:
    """The worst of the arm's seeds, and how many came to that; a check may look at a run more than once."""
    of_seeds = Counter(_worst(outcomes) for run in arm.runs if (outcomes := _of(run, check)))
    if not of_seeds:
        return {"outcome": "not run", "sign": "–", "seeds": 0, "of": 0}
    worst = _worst(list(of_seeds))
    return {
        "outcome": worst,
        "sign": MARKS.get(worst, "?"),
        "seeds": of_seeds[worst],
        "of": of_seeds.total(),
    }


def _findings(arms: list[Arm], outcome: str) -> list[dict[str, Any]]:
    """Findings of one outcome; what means the same is told once, with all that was found."""
    told: dict[tuple[str, ...], dict[str, Any]] = {}
    for arm, run, finding in ((a, r, f) for a in arms for r in a.runs for f in r.checks):
        if finding.outcome == outcome:
            key = finding.check, finding.meaning, finding.fix
            row = told.setdefault(key, _row(finding))
            row["arms"].setdefault(arm.name, {})[run.seed] = True
            row["found"][_found(finding)] = True
    return list(told.values())


def _found(finding: Finding) -> str:
    """What was found, and at which step where it went wrong."""
    bad = finding.outcome in ("warn", "fail") and finding.step
    return f"At step {finding.step:,}: {finding.found}" if bad else finding.found


def _row(finding: Finding) -> dict[str, Any]:
    return {
        "check": finding.check,
        "outcome": finding.outcome,
        "sign": MARKS.get(finding.outcome, "?"),
        "meaning": finding.meaning,
        "fix": finding.fix,
        "found": {},
        "arms": {},
    }
