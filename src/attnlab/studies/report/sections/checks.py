"""Do these runs mean what they claim? Every check for every arm, the worst of its seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from attnlab.studies.report.numbers import exact
from attnlab.studies.report.study import Arm, Study

ORDER = ("not applicable", "pass", "warn", "fail")
SIGNS = {"pass": "✓", "warn": "!", "fail": "✗", "not applicable": "–"}


def checks(study: Study) -> dict[str, Any] | None:
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


def _of(arm: Arm, check: str | None = None) -> list[Mapping[str, Any]]:
    found = [finding for run in arm.runs for finding in run.get("checks") or []]
    return [finding for finding in found if check in (None, finding["check"])]


def _cell(arm: Arm, check: str) -> dict[str, Any]:
    outcomes = Counter(f.get("outcome") for f in _of(arm, check))
    worst = max(outcomes, key=lambda o: ORDER.index(o) if o in ORDER else len(ORDER), default=None)
    return {
        "outcome": worst or "not run",
        "sign": SIGNS.get(str(worst), "?"),
        "seeds": outcomes[worst],
        "of": len(arm.runs),
    }


def _findings(arms: list[Arm], outcome: str) -> list[dict[str, Any]]:
    """Findings of one outcome; what was found alike in several arms is told once."""
    told: dict[tuple[str, str], dict[str, Any]] = {}
    for arm in arms:
        for finding in _of(arm):
            if finding.get("outcome") != outcome:
                continue
            key = (finding["check"], finding.get("found") or "")
            row = told.setdefault(key, {**_row(finding), "arms": {}})
            row["arms"][arm.name] = row["arms"].get(arm.name, 0) + 1
    return list(told.values())


def _row(finding: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "check": finding["check"],
        "outcome": finding.get("outcome"),
        "sign": SIGNS.get(str(finding.get("outcome")), "?"),
        "number": exact(finding.get("number")),
        **{key: finding.get(key) or "" for key in ("found", "meaning", "fix", "when")},
    }
