"""Do these runs mean what they claim? Every check for every arm, the worst of its seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from attnlab.config.wording import count_of, sentence
from attnlab.documents.nodes import (
    Below,
    CardItem,
    Cards,
    Definitions,
    Details,
    Inline,
    Node,
    Sign,
    Table,
    TableColumn,
    muted,
)
from attnlab.runs.findings import MARKS, Finding
from attnlab.runs.result import RunResult
from attnlab.studies.report.study_results import Arm, StudyResults

ORDER = ("not applicable", "pass", "warn", "fail")
TROUBLE = ("fail", "warn")
TOLD = 2
"""Findings of one meaning that are told; the others are counted."""


def checks(study: StudyResults) -> list[Node]:
    checked = [arm for arm in study.arms if any(run.checks for run in arm.runs)]
    names = list(dict.fromkeys(found.check for arm in checked for run in arm.runs for found in run.checks))
    if not names:
        return []
    table = Table(
        ["check", *(TableColumn(arm.shown, look="centre") for arm in checked)],
        [(name, *(_cell(arm, name) for arm in checked)) for name in names],
        caption="The worst outcome of an arm's seeds: ✓ passed, ! warning, ✗ failed, – not applicable.",
    )
    groups = [group for outcome in reversed(ORDER) for group in _alike(checked, outcome)]
    bad = [_card(group) for group in groups if group.finding.outcome in TROUBLE]
    quiet = [_card(group) for group in groups if group.finding.outcome not in TROUBLE]
    rest = Details("What the other checks found", [Cards(quiet, "findings")], only_pages=True)
    return [table, *([Cards(bad, "findings")] if bad else []), *([rest] if quiet else [])]


def _of(run: RunResult, check: str) -> list[str]:
    return [finding.outcome for finding in run.checks if finding.check == check]


def _worst(outcomes: list[str]) -> str:
    """An outcome that nobody knows is worse than any."""
    return max(outcomes, key=lambda o: ORDER.index(o) if o in ORDER else len(ORDER))


def _cell(arm: Arm, check: str) -> Inline:
    """The worst of the arm's seeds, and how many came to that; a check may look at a run more than once."""
    of_seeds = Counter(_worst(outcomes) for run in arm.runs if (outcomes := _of(run, check)))
    if not of_seeds:
        return Sign("–", "not run")
    worst = _worst(list(of_seeds))
    seeds = Below(f"{of_seeds[worst]} of {of_seeds.total()} seeds") if worst in TROUBLE else ""
    return Sign(MARKS.get(worst, "?"), worst), seeds


@dataclass
class Alike:
    """Findings of one kind: the first of them, those that differ in their values, of which arms and seeds."""

    finding: Finding
    each: dict[str, Finding] = field(default_factory=dict)
    seeds: dict[str, set[int]] = field(default_factory=dict)


def _alike(arms: list[Arm], outcome: str) -> Iterator[Alike]:
    groups: dict[tuple[str, ...], Alike] = {}
    for arm, run, finding in ((a, r, f) for a in arms for r in a.runs for f in r.checks):
        if finding.outcome == outcome:
            values = repr((finding.values, finding.number))
            own = [str(finding.values.get(name, "")) for name in ("meaning", "fix")]  # where it is told
            key = finding.check, finding.kind, *own
            group = groups.setdefault(key, Alike(finding))
            group.seeds.setdefault(arm.name, set()).add(run.seed)
            group.each.setdefault(f"{finding.step if outcome in TROUBLE else 0} {values}", finding)
    return iter(groups.values())


def _found(finding: Finding) -> str:
    """What was found, and at which step where it went wrong."""
    bad = finding.outcome in TROUBLE and finding.step
    return f"At step {finding.step:,}: {finding.found}" if bad else finding.found


def _card(group: Alike) -> CardItem:
    finding, sentences = group.finding, [sentence(_found(one)) for one in group.each.values()]
    if more := len(sentences) - TOLD:
        sentences[TOLD:] = [f"{more} similar finding{'' if more == 1 else 's'}."] if more > 0 else []
    parts = {"Found": " ".join(sentences), "Meaning": sentence(finding.meaning), "Fix": sentence(finding.fix)}
    arms = ", ".join(f"{name} ({count_of(len(seeds), 'seed')})" for name, seeds in group.seeds.items())
    sign = Sign(MARKS.get(finding.outcome, "?"), finding.outcome)
    title = (sign, f" {finding.check} ", muted(f"{finding.outcome}: {arms}"))
    return CardItem(title, [Definitions([(n, w) for n, w in parts.items() if w], "")], kind=finding.outcome)
