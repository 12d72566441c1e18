"""Do these runs mean what they claim? Every check for every arm, the worst of its seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from attnlab.studies.report.study_results import Arm, StudyResults

ORDER = ("not applicable", "pass", "warn", "fail")
SIGNS = {"pass": "✓", "warn": "!", "fail": "✗", "not applicable": "–"}


def checks(study: StudyResults) -> dict[str, Any] | None:
    checked = [arm for arm in study.arms if any(run.get("checks") for run in arm.runs)]
    names = list(
        dict.fromkeys(f["check"] for arm in checked for run in arm.runs for f in run.get("checks") or [])
    )
    if not names:
        return None
    return {
        "arms": checked,
        "rows": [(name, [_cell(arm, name) for arm in checked]) for name in names],
        "findings": [f for outcome in reversed(ORDER) for f in _findings(checked, outcome)],
        "signs": SIGNS,
    }


def _of(run: Mapping[str, Any], check: str) -> list[str]:
    return [str(f.get("outcome")) for f in run.get("checks") or [] if f["check"] == check]


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
        "sign": SIGNS.get(worst, "?"),
        "seeds": of_seeds[worst],
        "of": of_seeds.total(),
    }


def _findings(arms: list[Arm], outcome: str) -> list[dict[str, Any]]:
    """Findings of one outcome; what means the same is told once, with all that was found."""
    told: dict[tuple[str, ...], dict[str, Any]] = {}
    for arm, run, finding in ((a, r, f) for a in arms for r in a.runs for f in r.get("checks") or []):
        if finding.get("outcome") == outcome:
            key = tuple(finding.get(part) or "" for part in ("check", "meaning", "fix"))
            row = told.setdefault(key, _row(finding))
            row["arms"].setdefault(arm.name, {})[run.get("seed")] = True
            row["found"][_found(finding)] = True
    return list(told.values())


def _found(finding: Mapping[str, Any]) -> str:
    """What was found, and at which step where it went wrong."""
    found = str(finding.get("found") or "")
    bad = finding.get("outcome") in ("warn", "fail") and finding.get("step")
    return f"At step {finding['step']:,}: {found}" if bad else found


def _row(finding: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "check": finding["check"],
        "outcome": finding.get("outcome"),
        "sign": SIGNS.get(str(finding.get("outcome")), "?"),
        "meaning": finding.get("meaning") or "",
        "fix": finding.get("fix") or "",
        "found": {},
        "arms": {},
    }
