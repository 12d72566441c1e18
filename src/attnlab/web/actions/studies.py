"""The questions that come with the package."""

from __future__ import annotations

from attnlab.studies.builtin import STUDIES, builtin
from attnlab.web.actions import Answer
from attnlab.web.worker_request import WorkerRequest


def studies(asked: WorkerRequest) -> Answer:
    """Each with its question and its arms."""
    known = [builtin(name) for name in STUDIES]
    return {
        "studies": [
            {"name": study.name, "question": study.question, "arms": list(study.arms)} for study in known
        ]
    }
