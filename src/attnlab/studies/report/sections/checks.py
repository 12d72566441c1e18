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
    Sentence,
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


def checks(study: StudyResults) -> list[Node]:
    """What did not pass, then a line of what did; the rest on request."""
    checked = [arm for arm in study.arms if any(run.checks for run in arm.runs)]
    names = list(dict.fromkeys(found.check for arm in checked for run in arm.runs for found in run.checks))
    if not names:
        return []
    groups = [group for outcome in reversed(ORDER) for group in _alike(checked, outcome)]
    trouble = {group.finding.check for group in groups if group.finding.outcome in TROUBLE}
    worst = {name: min(_rank(arm, name) for arm in checked) for name in names}
    exceptions = sorted((name for name in names if name in trouble), key=worst.__getitem__)
    passed = [name for name in names if name not in trouble]
    bad = [_card(group) for group in groups if group.finding.outcome in TROUBLE]
    quiet = [_card(group) for group in groups if group.finding.check in passed]
    rest: list[Node] = [_table(checked, passed), Cards(quiet, "findings")]
    return [
        *([_table(checked, exceptions)] if exceptions else []),
        *([Cards(bad, "findings")] if bad else []),
        *([Sentence(_passed(passed, len(checked)), "fine")] if passed else []),
        *([Details("What the other checks found", rest, only_pages=True)] if passed else []),
    ]


def _table(arms: list[Arm], names: list[str]) -> Table:
    return Table(
        ["check", *(TableColumn(arm.shown, look="centre") for arm in arms)],
        [(name, *(_cell(arm, name) for arm in arms)) for name in names],
        caption="The worst outcome of an arm's seeds: ✓ passed, ! warning, ✗ failed, – not applicable.",
    )


def _passed(names: list[str], arms: int) -> str:
    others = f"the {arms} arms" if arms > 1 else "the arm"
    return f"{count_of(len(names), 'check')} passed or did not apply to any of {others}: {', '.join(names)}."


def _rank(arm: Arm, check: str) -> int:
    """Failures first, then warnings."""
    outcomes = [outcome for run in arm.runs for outcome in _of(run, check)]
    return -ORDER.index(_worst(outcomes)) if outcomes and _worst(outcomes) in ORDER else 0


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
    """Findings of one kind, over seeds and steps: the first of them, how many, of which arms and seeds."""

    finding: Finding
    seeds: dict[str, set[int]] = field(default_factory=dict)
    steps: set[int] = field(default_factory=set)
    times: int = 0


def _alike(arms: list[Arm], outcome: str) -> Iterator[Alike]:
    groups: dict[tuple[str, ...], Alike] = {}
    for arm, run, finding in ((a, r, f) for a in arms for r in a.runs for f in r.checks):
        if finding.outcome == outcome:
            own = [str(finding.values.get(name, "")) for name in ("meaning", "fix")]  # where it is told
            group = groups.setdefault((finding.check, finding.kind, *own), Alike(arm.over_seeds(finding)))
            group.seeds.setdefault(arm.name, set()).add(run.seed)
            group.times += finding.seed is None  # else it was found once, in another seed's run
            group.steps |= {finding.step} if finding.step else set()
    return iter(groups.values())


def _merged(group: Alike) -> str:
    """How often it was found, over seeds and steps; the first finding stands for the others."""
    if group.times == 1 or group.finding.outcome not in TROUBLE:
        return ""
    first, last = min(group.steps, default=0), max(group.steps, default=0)
    steps = "" if not last else f", step {last:,}" if first == last else f", steps {first:,} to {last:,}"
    if group.finding.check == "honesty" and "difference" in group.finding.values:  # see Arm.over_seeds
        return f"Means of the seeds' trained models, of {group.times} such findings{steps}."
    return f"The first of {group.times} such findings{steps}."


def _card(group: Alike) -> CardItem:
    finding = group.finding
    found = " ".join(filter(None, [sentence(finding.found), _merged(group)]))
    parts = {"Found": found, "Meaning": sentence(finding.meaning), "Fix": sentence(finding.fix)}
    arms = ", ".join(f"{name} ({count_of(len(seeds), 'seed')})" for name, seeds in group.seeds.items())
    sign = Sign(MARKS.get(finding.outcome, "?"), finding.outcome)
    title = (sign, f" {finding.check} ", muted(f"{finding.outcome}: {arms}"))
    return CardItem(title, [Definitions([(n, w) for n, w in parts.items() if w], "")], kind=finding.outcome)
