"""Set-up: what each arm changes, and what all have in common."""

from __future__ import annotations

from typing import Any

from attnlab.studies.report.number_text import FORMS, anything, known
from attnlab.studies.report.study_results import Arm, StudyResults

COUNTS = (("steps", "steps", "count"), ("tokens", "tokens", "count"), ("flops", "FLOPs", "scaled"))


def changes(study: StudyResults) -> dict[str, Any]:
    facts = study.facts
    common = [
        ("Baseline", study.baseline),
        ("Seeds", f"{len(study.seeds)} ({anything(study.seeds)})" if study.seeds else ""),
        ("Budget of each run", study.budget),
        (
            "Changed from this description",
            ", ".join(f"{k} = {anything(v)}" for k, v in facts.overrides.items()),
        ),
        ("Matched", f"to the baseline's {facts.match}" if facts.match else ""),
    ]
    summary = list(filter(None, study.card.get("", "").split("\n")))  # its first line asks the question
    return {
        "card": [*filter(None, [study.card.get("Set-up")]), *summary[bool(facts.question) :]],
        "common": [(name, value) for name, value in common if value],
        "rows": [
            (
                arm,
                [(key, anything(value)) for key, value in arm.outcome.changes.items()],
                _spent(arm),
            )
            for arm in study.arms
        ],
    }


def _spent(arm: Arm) -> str:
    """What the arm's runs really took, whatever was planned: means over its seeds."""
    counts = {name: getattr(arm.outcome, name) for name, _, _ in COUNTS}
    told = [f"{FORMS[form](counts[name], 0)} {noun}" for name, noun, form in COUNTS if counts[name]]
    rate = arm.outcome.learning_rate
    return ", ".join([*told, *([f"learning rate {rate:g}"] if known(rate) else [])])
