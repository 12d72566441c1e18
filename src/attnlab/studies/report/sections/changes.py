"""Set-up: what each arm changes, and what all have in common."""

from __future__ import annotations

from typing import Any

from attnlab.studies.report.numbers import anything
from attnlab.studies.report.study import Study


def changes(study: Study) -> dict[str, Any]:
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
        "card": [*summary[bool(facts.get("question")) :], *filter(None, [study.card.get("Set-up")])],
        "common": [(name, value) for name, value in common if value],
        "rows": [
            (arm, [(key, anything(value)) for key, value in (arm.data.get("changes") or {}).items()])
            for arm in study.arms
        ],
    }
