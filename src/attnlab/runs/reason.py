"""Why a run or an arm has no numbers, or why they prove nothing: a kind with its values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import attnlab.studies.wording as wording
from attnlab.runs.typed import Value


class ReasonKind(StrEnum):
    """What may be the matter; its words are in `studies/wording.py`."""

    OTHER_TASK = "other_task"  # not comparable
    OTHER_TOKENIZER = "other_tokenizer"
    OTHER_DEV = "other_dev"
    OTHER_PART = "other_part"
    UNKNOWN_WORDS = "unknown_words"
    OTHER_BYTES = "other_bytes"
    OTHER_EXAMPLES = "other_examples"  # not results of equals
    OTHER_ORDER = "other_order"
    OTHER_BATCHES = "other_batches"
    OTHER_INPUTS = "other_inputs"
    OTHER_DRAWS = "other_draws"
    OTHER_WEIGHTS = "other_weights"
    OTHER_LOAD = "other_load"
    OTHER_MACHINE = "other_machine"
    SAME_WEIGHTS = "same_weights"  # seeds that did nothing
    SAME_BATCHES = "same_batches"
    SAME_DRAWS = "same_draws"
    SAME_LOSSES = "same_losses"
    NOT_LEARNED = "not_learned"  # no more than counts of the training text know
    MIXED_RUNS = "mixed_runs"  # runs of one arm, or of it and its baseline, that do not rest on the same
    UNCONFIRMED_MEAN = "unconfirmed_mean"  # a second computation gives another interval
    UNCONFIRMED_DIFFERENCE = "unconfirmed_difference"
    CHECKS = "checks"
    REFUSED = "refused"
    ERROR = "error"
    KILLED = "killed"
    ASKED_TO_STOP = "asked_to_stop"
    EXIT_CODE = "exit_code"
    NODE_LOST = "node_lost"
    STOPPED = "stopped"
    NOT_BEGUN = "not_begun"
    DAMAGED = "damaged"
    NO_TEXTS = "no_texts"
    WITHOUT_RESULT = "without_result"


LEFT_OUT = (ReasonKind.DAMAGED, ReasonKind.NO_TEXTS)
"""Runs that came to their end and are left out of all numbers."""


@dataclass(frozen=True)
class Reason:
    kind: ReasonKind
    values: Mapping[str, Value] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", ReasonKind(self.kind))

    @classmethod
    def error(cls, text: str) -> Reason | None:
        """What an error, or a file from before reasons had kinds, says; none where that is nothing."""
        return cls(ReasonKind.ERROR, {"error": text}) if text else None

    def __str__(self) -> str:
        """It in words that follow "because"."""
        return wording.reason_phrase(self.kind, self.values)

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind.value, "values": dict(self.values)}

    @classmethod
    def of_json(cls, record: Mapping[str, Any]) -> Reason:
        return cls(ReasonKind(record["kind"]), record.get("values") or {})


def reasons_phrase(reasons: Iterable[Reason]) -> str:
    """Several reasons in words; what is the same of the same seeds is said together."""
    return wording.reasons_phrase([(reason.kind, reason.values) for reason in reasons])
