"""checks.json: what the checks of a run found, each a kind with its values, from which words are made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, Required, TypedDict

import attnlab.checks.wording as wording
from attnlab.checks.wording import TOLD
from attnlab.checks.wording.template import Sentences
from attnlab.documents.nodes import (
    Below,
    DocumentPage,
    Inline,
    Node,
    Sentence,
    Table,
    TableColumn,
    Tone,
    listed,
    strong,
    toned,
)
from attnlab.documents.notebook import SelfShowing
from attnlab.runs.atomic import replace_json
from attnlab.runs.faults import read_object, reading
from attnlab.runs.typed import Value

CHECKS_FILE = "checks.json"
When = Literal["config", "before", "during", "after", "evaluation"]
Naming = Callable[[str], Inline]
"""What is shown for the name of a check: the name, or what leads to its card."""


class Outcome(StrEnum):
    """What a check comes to."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    NOT_APPLICABLE = "not applicable"


BAD = (Outcome.WARN, Outcome.FAIL)
SEVERITY = (Outcome.FAIL, Outcome.WARN, Outcome.PASS, Outcome.NOT_APPLICABLE)
"""The worst first."""
FEW = 5
"""Checks that are all shown with what they found: naming them would hide more than it saves."""
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

NOT_LEARNED = ("not_better", "indistinguishable")
"""The kinds of the check `learned` that say so of a language model."""


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
    seed: int | None = None
    """The seed of the run that was asked, where it is another run of the same arm of a study."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "outcome", Outcome(self.outcome))

    @classmethod
    def of_text(cls, found: str, meaning: str = "", fix: str = "", **facts: Any) -> Finding:
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
            "seed": self.seed,
        }

    @classmethod
    def of_json(cls, record: Mapping[str, Any]) -> Finding:
        """A finding as it was written; one from before there were kinds has its own words as its values."""
        own = {field.name for field in fields(cls)}
        facts = {name: value for name, value in record.items() if name in own and value is not None}
        if "kind" not in facts:
            texts = {name: record.get(name) or "" for name in ("found", "meaning", "fix")}
            facts |= {"kind": kind_before(record), "values": texts}
        if "layers" in facts:
            asked, of = facts["layers"]
            facts["layers"] = asked, of
        return cls(**facts)


def kind_before(record: Mapping[str, Any]) -> str:
    """The kind of a finding that was written before there were kinds: that nothing was learned, or none."""
    if record.get("check") != "majority" or record.get("outcome") != Outcome.FAIL:
        return TOLD
    return next((kind for kind, meaning in COLLAPSES.items() if record.get("meaning") == meaning), TOLD)


def collapse_of(findings: Iterable[Finding]) -> Finding | None:
    """The failed check that says that nothing was learned, where there is one."""
    failed = {finding.check: finding for finding in findings if finding.outcome == Outcome.FAIL}
    majority = failed.get("majority")
    return majority if majority is not None and majority.kind in COLLAPSES else None


def unlearned_of(findings: Iterable[Finding]) -> Finding | None:
    """The check that says that a language model knows no more than counts do, where there is one."""
    learned = (one for one in findings if one.check == "learned" and one.outcome in BAD)
    return next((one for one in learned if one.kind in NOT_LEARNED), None)


def collapse_sentence(findings: Sequence[Finding]) -> str:
    """That predictions came to what the most frequent label gives, with what to try; nothing where they did
    not. Only a model that says one class for every input has collapsed."""
    collapse = collapse_of(findings)
    if collapse is None:
        return ""
    one_class = any(finding.check == "collapse" and finding.outcome == Outcome.FAIL for finding in findings)
    return wording.collapse_sentence(collapse.kind, collapse.found, collapse.fix, one_class=one_class)


def not_compared_sentence(findings: Iterable[Finding]) -> str:
    """Which rows of earlier training could not be compared with those of dev, and why; nothing where all
    could."""
    own = [finding for finding in findings if finding.check == "scored_rows" and finding.when == "after"]
    return wording.not_compared_sentence(own[-1].values) if own else ""


def shortfall_sentence(findings: Sequence[Finding]) -> str:
    """That a language model knows no more than counts of words do, or a classifier less than a bag of words,
    with what to try; nothing where it knows more."""
    unlearned = unlearned_of(findings)
    if unlearned is not None:
        return wording.not_learned_sentence(unlearned.values, unlearned.found, unlearned.fix)
    words = [one for one in findings if one.check == "bag_of_words" and one.kind == "better"]
    return wording.words_better_sentence(words[-1].found, words[-1].fix) if words else ""


def mark(outcome: str) -> Inline:
    """The sign of an outcome, in its tone."""
    return toned(TONES.get(outcome, Tone.MUTED), MARKS[outcome])


@dataclass(frozen=True)
class MergedFinding:
    """One check over all the moments that it was made at: the worst it came to, as it was first found."""

    worst: Finding
    moments: tuple[tuple[str, int | None], ...]
    """Where it came to that: when, and at which step."""
    seconds: float

    @classmethod
    def of(cls, findings: Sequence[Finding]) -> MergedFinding:
        worst = min(findings, key=lambda one: SEVERITY.index(one.outcome))
        alike = [one for one in findings if one.outcome is worst.outcome]
        moments = tuple(dict.fromkeys((one.when, one.step) for one in alike))
        return cls(worst, moments, sum(one.seconds for one in findings))


def merged(findings: Iterable[Finding]) -> list[MergedFinding]:
    """One for each check of each implementation, the worst outcomes first."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for one in findings:
        groups.setdefault((one.implementation, one.check), []).append(one)
    return sorted(map(MergedFinding.of, groups.values()), key=lambda one: SEVERITY.index(one.worst.outcome))


class Findings(SelfShowing, list[Finding]):
    """What several checks found: a list that shows what is wrong, and in a line what is not."""

    def document(self) -> DocumentPage:
        return DocumentPage("checks", self.verdict, self.nodes())

    def nodes(self, *, whole: bool = False, named: Naming = str) -> list[Node]:
        """What failed and what warns, each with its fix; then what passed, by name, or `whole` as well.
        `named` makes of a check's name what is shown for it."""
        checks = merged(self)
        bad = [one for one in checks if one.worst.outcome in BAD]
        rest = [one for one in checks if one.worst.outcome not in BAD]
        nodes: list[Node] = [_merged_table(bad, "", named)] if bad else []
        if whole or len(checks) <= FEW:
            return [*nodes, *([_merged_table(rest, "The others" if bad else "", named)] if rest else [])]
        passed: dict[str, list[str]] = {}
        for one in (one.worst for one in rest if one.worst.outcome is Outcome.PASS):
            passed.setdefault(one.implementation, []).append(one.check)
        for run_by, names in passed.items():
            who = f", run by {run_by}" if run_by else ""
            passing = (mark("pass"), f" {len(names)} pass{who}: ", listed(map(named, names)), ".")
            nodes.append(Sentence(passing))
        return nodes

    @property
    def outcomes(self) -> Mapping[Outcome, int]:
        """How many checks came to each outcome, each by the worst that it came to."""
        return Counter(one.worst.outcome for one in merged(self))

    @property
    def sound(self) -> bool | None:
        """Whether no check failed; None where none passed either: nothing was checked."""
        counts = self.outcomes
        return False if counts.get(Outcome.FAIL) else (True if counts.get(Outcome.PASS) else None)

    @property
    def verdict(self) -> str:
        """Sound or not, and how many checks say so."""
        return f"{wording.soundness_phrase(self.sound)}: {wording.counts_phrase(self.outcomes)}"


def _merged_table(checks: Sequence[MergedFinding], title: str, named: Naming) -> Table:
    """A row a check: what it found, what that means and what to do, and when."""
    rows: list[tuple[Inline, ...]] = []
    for one in checks:
        words, run_by = one.worst.words, one.worst.implementation
        fix = (" ", strong(words.fix)) if words.fix else ()
        when = wording.moments_phrase(one.moments, one.worst.seed)
        told = f"{words.found}." if words.meaning or fix else words.found
        found = (told, f" {words.meaning}" if words.meaning else "", *fix, Below(when))
        name = named(one.worst.check), (Below(f"run by {run_by}") if run_by else "")
        rows.append((mark(one.worst.outcome), name, found))
    return Table(("", TableColumn("check", whole=True), "found"), rows, title=title)


class ChecksRecord(TypedDict, total=False):
    """What checks.json holds."""

    findings: Required[list[Finding]]
    allowed: Required[list[str]]
    sound: bool
    unsound: list[str]


def merge_findings(before: Sequence[Finding], now: Sequence[Finding]) -> list[Finding]:
    """The latest finding of each check and moment, and its first failure, whatever came after it.

    A model that leaked once was selected, stopped or measured by numbers that were not real. What failed
    before the first step is replaced: those checks are made again only where no step was taken.
    """
    made = {(finding.when, finding.check) for finding in now}
    failed = {
        (finding.when, finding.check): finding
        for finding in reversed(before)
        if finding.outcome is Outcome.FAIL
    }
    again = {
        (finding.when, finding.check, finding.step) for finding in now if finding.outcome is Outcome.FAIL
    }
    kept = []
    for finding in before:
        key = (finding.when, finding.check)
        first = failed.get(key) is finding and (*key, finding.step) not in again
        if key not in made or (first and finding.when not in ("config", "before")):
            kept.append(finding)
    return [*kept, *now]


def failed_checks(findings: Sequence[Finding]) -> list[str]:
    return sorted({finding.check for finding in findings if finding.outcome is Outcome.FAIL})


def failures(findings: Sequence[Finding]) -> list[str]:
    """The failed checks in words, each with the first step that it failed at: "honesty (step 40)"."""
    sentences = []
    for check in failed_checks(findings):
        bad = [finding for finding in findings if finding.check == check and finding.outcome is Outcome.FAIL]
        first = min((finding.step for finding in bad if finding.step is not None), default=0)
        sentences.append(f"{check} (step {first:,})" if first else check)
    return sentences


def save_findings(folder: Path, findings: Sequence[Finding], allowed: Collection[str] = ()) -> None:
    """Verdicts as checks.json of a folder."""
    unsound = failed_checks(findings)
    value = {"sound": not unsound, "unsound": unsound, "allowed": list(allowed)}
    replace_json(folder / CHECKS_FILE, value | {"findings": [finding.as_json() for finding in findings]})


def add_findings(folder: Path, findings: Sequence[Finding]) -> None:
    """Findings of what was measured after the run, beside those made in it; a later one takes its place, but
    not that of a failure in the run."""
    made = {(finding.check, finding.when) for finding in findings}
    earlier, allowed = read_checks(folder)
    kept = [
        finding
        for finding in earlier
        if (finding.check, finding.when) not in made
        or (finding.outcome is Outcome.FAIL and finding.step is not None)
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
            return [Finding.of_json(finding) for finding in record["findings"]], list(record["allowed"])
    except FileNotFoundError:
        return [], []


def unsound_of(folder: Path) -> list[str]:
    """The checks that a run failed."""
    return failed_checks(read_findings(folder))
