"""checks.json: what the checks of a run found, each a number with its meaning and what to do about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, Required, TypedDict

from attnlab.documents.nodes import DocumentPage, Inline, Table, Tone, toned
from attnlab.documents.notebook import SelfShowing
from attnlab.runs.atomic import replace_json
from attnlab.runs.damage import read_object, reading

CHECKS_FILE = "checks.json"
When = Literal["config", "before", "during", "after", "evaluation"]
Outcome = Literal["pass", "warn", "fail", "not applicable"]
MARKS: Mapping[str, str] = {"pass": "✓", "warn": "!", "fail": "✗", "not applicable": "–"}
TONES: Mapping[str, Tone] = {"pass": Tone.GOOD, "warn": Tone.WARNING, "fail": Tone.WRONG}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What a check found: a number, what it means, and what to do about it."""

    check: str
    when: When
    outcome: Outcome
    found: str
    number: float | None = None
    meaning: str = ""
    fix: str = ""
    seconds: float = 0.0
    step: int | None = None
    """The step that it was found at; None where a check is not of a run, or was made before this was kept."""
    implementation: str = ""
    """Whose code was asked, where a model can be run by more than one."""

    @property
    def mark(self) -> str:
        return MARKS[self.outcome]

    @property
    def sentence(self) -> str:
        """It in words, for a person."""
        verb = "failed" if self.outcome == "fail" else "warns"
        return f"The check {self.check} {verb}: {self.found}. {self.meaning} {self.fix}".strip()


def mark(outcome: str) -> Inline:
    """The sign of an outcome, in its tone."""
    return toned(TONES.get(outcome, Tone.MUTED), MARKS[outcome])


class Findings(SelfShowing, list[Finding]):
    """What several checks found: a list that shows itself as a table."""

    def document(self) -> DocumentPage:
        rows = [
            (mark(one.outcome), one.check, f"{one.found}. {one.meaning} {one.fix}".strip(". "))
            for one in self
        ]
        return DocumentPage("checks", self.verdict, [Table(("", "check", "found"), rows)])

    @property
    def verdict(self) -> str:
        """Sound or not, and how many checks say so."""
        counts = Counter(one.outcome for one in self)
        said = ", ".join(f"{count} {outcome}" for outcome, count in counts.items()) or "no check was made"
        sound = "Sound, as far as was checked" if counts["pass"] else "Nothing was checked"
        return f"{'Not sound' if counts['fail'] else sound}: {said}"


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
    failed = {(one.when, one.check): one for one in reversed(before) if one.outcome == "fail"}
    again = {(one.when, one.check, one.step) for one in now if one.outcome == "fail"}
    kept = []
    for one in before:
        key = (one.when, one.check)
        first = failed.get(key) is one and (*key, one.step) not in again
        if key not in made or (first and one.when not in ("config", "before")):
            kept.append(one)
    return [*kept, *now]


def failed_checks(findings: Sequence[Finding]) -> list[str]:
    return sorted({one.check for one in findings if one.outcome == "fail"})


def failures(findings: Sequence[Finding]) -> list[str]:
    """The failed checks in words, each with the first step that it failed at: "honesty (step 40)"."""
    said = []
    for check in failed_checks(findings):
        bad = [one for one in findings if one.check == check and one.outcome == "fail"]
        first = min((one.step for one in bad if one.step is not None), default=0)
        said.append(f"{check} (step {first:,})" if first else check)
    return said


def save_findings(folder: Path, findings: Sequence[Finding], allowed: Collection[str] = ()) -> None:
    """Verdicts as checks.json of a folder."""
    unsound = failed_checks(findings)
    value = {"sound": not unsound, "unsound": unsound, "allowed": list(allowed)}
    replace_json(folder / CHECKS_FILE, value | {"findings": [asdict(one) for one in findings]})


def add_findings(folder: Path, findings: Sequence[Finding]) -> None:
    """Findings of what was measured after the run, beside those made in it; a later one takes its place."""
    made = {(one.check, one.when) for one in findings}
    held, allowed = read_checks(folder)
    kept = [one for one in held if (one.check, one.when) not in made]
    save_findings(folder, [*kept, *findings], allowed)


def read_findings(folder: Path) -> list[Finding]:
    """What the checks of a run found; nothing where none was made."""
    return read_checks(folder)[0]


def read_checks(folder: Path) -> tuple[list[Finding], list[str]]:
    """What is in a run's checks.json: its findings, and the checks that were allowed to fail."""
    file = folder / CHECKS_FILE
    try:
        with reading(file):
            held = read_object(file, ChecksRecord)
            return [Finding(**one) for one in held["findings"]], list(held["allowed"])
    except FileNotFoundError:
        return [], []


def unsound_of(folder: Path) -> list[str]:
    """The checks that a run failed."""
    return failed_checks(read_findings(folder))
