"""checks.json: what the checks of a run found, each a kind with its values, from which words are made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, Required, TypedDict

import attnlab.checks.wording as wording
from attnlab.checks.wording import TOLD
from attnlab.checks.wording.template import Sentences
from attnlab.documents.nodes import DocumentPage, Inline, Table, Tone, toned
from attnlab.documents.notebook import SelfShowing
from attnlab.runs.atomic import replace_json
from attnlab.runs.faults import read_object, reading
from attnlab.runs.typed import Value

CHECKS_FILE = "checks.json"
When = Literal["config", "before", "during", "after", "evaluation"]


class Outcome(StrEnum):
    """What a check comes to."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    NOT_APPLICABLE = "not applicable"


BAD = (Outcome.WARN, Outcome.FAIL)
MARKS: Mapping[str, str] = {"pass": "✓", "warn": "!", "fail": "✗", "not applicable": "–"}
TONES: Mapping[str, Tone] = {"pass": Tone.GOOD, "warn": Tone.WARNING, "fail": Tone.WRONG}

COLLAPSES: Mapping[str, str] = {
    "not_better": "The model is not better than always predicting the most frequent label.",
    "indistinguishable": "It cannot be distinguished from always predicting the most frequent label (see the "
    "interval).",
    "not_better_than_mean": "The model is not better than always predicting the mean, on these examples.",
    "most_frequent_tag": "The model is not better than giving every word the most frequent tag.",
    "never_answering": "The model is not better than never answering, on these questions.",
}
"""The kinds of a failed check `majority` that say that nothing was learned, each with the meaning by which a
file from before findings had kinds is known; nothing else is recognised by its words."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What a check found: an outcome, its kind, and the values that its sentences are made of."""

    check: str
    when: When
    outcome: Outcome
    kind: str = TOLD
    values: Mapping[str, Value] = field(default_factory=dict)
    number: float | None = None
    seconds: float = 0.0
    step: int | None = None
    """The step that it was found at; None where a check is not of a run, or was made before this was kept."""
    implementation: str = ""
    """Whose code was asked, where a model can be run by more than one."""
    layers: tuple[int, int] | None = None
    """How many layers were asked, of how many, where a sample stands for the model."""
    so_far: bool = False
    """Whether more training may still mend it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "outcome", Outcome(self.outcome))

    @classmethod
    def told(cls, found: str, meaning: str = "", fix: str = "", **facts: Any) -> Finding:
        """A finding in a person's own words."""
        return cls(kind=TOLD, values={"found": found, "meaning": meaning, "fix": fix}, **facts)

    @property
    def mark(self) -> str:
        return MARKS[self.outcome]

    @property
    def words(self) -> Sentences:
        """What was found, what it means and what to do."""
        return wording.sentences(
            self.check, self.kind, self.values, number=self.number, layers=self.layers, so_far=self.so_far
        )

    @property
    def found(self) -> str:
        return self.words.found

    @property
    def meaning(self) -> str:
        return self.words.meaning

    @property
    def fix(self) -> str:
        return self.words.fix

    @property
    def sentence(self) -> str:
        """It in words, for a person."""
        return wording.finding_sentence(self.check, self.words, failed=self.outcome is Outcome.FAIL)

    def as_json(self) -> dict[str, Any]:
        """As files hold it: its words too, which nothing reads back where there is a kind."""
        words = self.words
        return {
            "check": self.check,
            "when": self.when,
            "outcome": self.outcome.value,
            "found": words.found,
            "number": self.number,
            "meaning": words.meaning,
            "fix": words.fix,
            "seconds": self.seconds,
            "step": self.step,
            "implementation": self.implementation,
            "kind": self.kind,
            "values": dict(self.values),
            "layers": None if self.layers is None else list(self.layers),
            "so_far": self.so_far,
        }

    @classmethod
    def of_json(cls, held: Mapping[str, Any]) -> Finding:
        """A finding as it was written; one from before there were kinds has its own words as its values."""
        own = {one.name for one in fields(cls)}
        facts = {name: value for name, value in held.items() if name in own and value is not None}
        if "kind" not in facts:
            texts = {name: held.get(name) or "" for name in ("found", "meaning", "fix")}
            facts |= {"kind": kind_before(held), "values": texts}
        if "layers" in facts:
            asked, of = facts["layers"]
            facts["layers"] = asked, of
        return cls(**facts)


def kind_before(held: Mapping[str, Any]) -> str:
    """The kind of a finding that was written before there were kinds: that nothing was learned, or none."""
    if held.get("check") != "majority" or held.get("outcome") != Outcome.FAIL:
        return TOLD
    return next((kind for kind, meaning in COLLAPSES.items() if held.get("meaning") == meaning), TOLD)


def collapse_of(findings: Iterable[Finding]) -> Finding | None:
    """The failed check that says that nothing was learned, where there is one."""
    failed = {one.check: one for one in findings if one.outcome == Outcome.FAIL}
    majority = failed.get("majority")
    return majority if majority is not None and majority.kind in COLLAPSES else None


def collapse_sentence(findings: Sequence[Finding]) -> str:
    """That predictions came to what the most frequent label gives, with what to try; nothing where they did
    not. Only a model that says one class for every input has collapsed."""
    collapse = collapse_of(findings)
    if collapse is None:
        return ""
    one_class = any(one.check == "collapse" and one.outcome == Outcome.FAIL for one in findings)
    return wording.collapse_sentence(collapse.kind, collapse.found, collapse.fix, one_class=one_class)


def mark(outcome: str) -> Inline:
    """The sign of an outcome, in its tone."""
    return toned(TONES.get(outcome, Tone.MUTED), MARKS[outcome])


class Findings(SelfShowing, list[Finding]):
    """What several checks found: a list that shows itself as a table."""

    def document(self) -> DocumentPage:
        rows = [(mark(one.outcome), one.check, wording.in_a_row(one.words)) for one in self]
        return DocumentPage("checks", self.verdict, [Table(("", "check", "found"), rows)])

    @property
    def outcomes(self) -> Mapping[Outcome, int]:
        """How many checks came to each outcome."""
        return Counter(one.outcome for one in self)

    @property
    def sound(self) -> bool | None:
        """Whether no check failed; None where none passed either: nothing was checked."""
        counts = self.outcomes
        return False if counts.get(Outcome.FAIL) else (True if counts.get(Outcome.PASS) else None)

    @property
    def verdict(self) -> str:
        """Sound or not, and how many checks say so."""
        return f"{wording.soundness_phrase(self.sound)}: {wording.counts_phrase(self.outcomes)}"


class ChecksRecord(TypedDict, total=False):
    """What checks.json holds."""

    findings: Required[list[Finding]]
    allowed: Required[list[str]]
    sound: bool
    unsound: list[str]


def joined(before: Sequence[Finding], now: Sequence[Finding]) -> list[Finding]:
    """The latest finding of each check and moment, and its first failure, whatever came after it.

    A model that leaked once was selected, stopped or measured by numbers that were not real. What failed
    before the first step is replaced: those checks are made again only where no step was taken.
    """
    made = {(one.when, one.check) for one in now}
    failed = {(one.when, one.check): one for one in reversed(before) if one.outcome is Outcome.FAIL}
    again = {(one.when, one.check, one.step) for one in now if one.outcome is Outcome.FAIL}
    kept = []
    for one in before:
        key = (one.when, one.check)
        first = failed.get(key) is one and (*key, one.step) not in again
        if key not in made or (first and one.when not in ("config", "before")):
            kept.append(one)
    return [*kept, *now]


def failed_checks(findings: Sequence[Finding]) -> list[str]:
    return sorted({one.check for one in findings if one.outcome is Outcome.FAIL})


def failures(findings: Sequence[Finding]) -> list[str]:
    """The failed checks in words, each with the first step that it failed at: "honesty (step 40)"."""
    sentences = []
    for check in failed_checks(findings):
        bad = [one for one in findings if one.check == check and one.outcome is Outcome.FAIL]
        first = min((one.step for one in bad if one.step is not None), default=0)
        sentences.append(f"{check} (step {first:,})" if first else check)
    return sentences


def save_findings(folder: Path, findings: Sequence[Finding], allowed: Collection[str] = ()) -> None:
    """Verdicts as checks.json of a folder."""
    unsound = failed_checks(findings)
    value = {"sound": not unsound, "unsound": unsound, "allowed": list(allowed)}
    replace_json(folder / CHECKS_FILE, value | {"findings": [one.as_json() for one in findings]})


def add_findings(folder: Path, findings: Sequence[Finding]) -> None:
    """Findings of what was measured after the run, beside those made in it; a later one takes its place, but
    not that of a failure in the run."""
    made = {(one.check, one.when) for one in findings}
    earlier, allowed = read_checks(folder)
    in_run = [one.outcome is Outcome.FAIL and one.step is not None for one in earlier]
    kept = [
        one for one, stays in zip(earlier, in_run, strict=True) if stays or (one.check, one.when) not in made
    ]
    save_findings(folder, [*kept, *findings], allowed)


def read_findings(folder: Path) -> list[Finding]:
    """What the checks of a run found; nothing where none was made."""
    return read_checks(folder)[0]


def read_checks(folder: Path) -> tuple[list[Finding], list[str]]:
    """What is in a run's checks.json: its findings, and the checks that were allowed to fail."""
    file = folder / CHECKS_FILE
    try:
        with reading(file):
            record = read_object(file, ChecksRecord)
            return [Finding.of_json(one) for one in record["findings"]], list(record["allowed"])
    except FileNotFoundError:
        return [], []


def unsound_of(folder: Path) -> list[str]:
    """The checks that a run failed."""
    return failed_checks(read_findings(folder))
