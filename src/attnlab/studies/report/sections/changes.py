"""Set-up: what each arm changes, and what all have in common."""

from __future__ import annotations

from typing import Any

from attnlab.documents.numbers import FORMS, anything, known
from attnlab.studies.report.study_results import Arm, StudyResults

COUNTS = (("steps", "steps", "count"), ("tokens", "tokens", "count"), ("flops", "FLOPs", "scaled"))


def changes(study: StudyResults) -> dict[str, Any]:
    facts = study.facts
    overrides = facts.get("overrides") or {}
    common = [
        ("Baseline", study.baseline),
        ("Seeds", f"{len(study.seeds)} ({anything(study.seeds)})" if study.seeds else ""),
        ("Budget of each run", study.budget),
        ("Changed from this description", ", ".join(f"{k} = {anything(v)}" for k, v in overrides.items())),
        ("Matched", f"to the baseline's {facts['match']}" if facts.get("match") else ""),
    ]
    summary = list(filter(None, study.card.get("", "").split("\n")))  # its first line asks the question
    return {
        "card": [*filter(None, [study.card.get("Set-up")]), *summary[bool(facts.get("question")) :]],
        "common": [(name, value) for name, value in common if value],
        "rows": [
            (
                arm,
                [(key, anything(value)) for key, value in (arm.data.get("changes") or {}).items()],
                _spent(arm),
            )
            for arm in study.arms
        ],
    }


def _spent(arm: Arm) -> str:
    """What the arm's runs really took, whatever was planned: means over its seeds."""
    told = [
        f"{FORMS[form](arm.data[name], 0)} {noun}"
        for name, noun, form in COUNTS
        if known(arm.data.get(name)) and arm.data[name]
    ]
    rate = arm.data.get("learning_rate")
    return ", ".join([*told, *([f"learning rate {rate:g}"] if known(rate) else [])])
