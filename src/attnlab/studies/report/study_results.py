"""Results as the report's sections read them: arms in order, with their runs, colours and soundness."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from attnlab.config.wording import first_few
from attnlab.documents.nodes import Name, VerdictPill
from attnlab.documents.numbers import anything
from attnlab.documents.palette import Ink, arm_inks
from attnlab.evaluation.comparison import Comparison, Verdict
from attnlab.metrics.metric import Estimate
from attnlab.runs.findings import Finding
from attnlab.runs.result import RunResult, RunState
from attnlab.studies.outcome import ArmOutcome, ArmState, StudyOutcome
from attnlab.studies.wording import verdict_phrase

STATUS = {"missing": "not run"}
"""Words of states that are not their own."""

CARD = ("Set-up", "Hypothesis", "How to read it", "Time")


@dataclass(frozen=True, eq=False)
class Arm:
    outcome: ArmOutcome
    runs: list[RunResult]
    ink: Ink
    baseline: bool

    @property
    def name(self) -> str:
        return self.outcome.name

    @property
    def status(self) -> ArmState:
        return self.outcome.state

    @property
    def sound(self) -> bool:
        """False where a check failed: no number of this arm means what it seems to."""
        return self.outcome.sound

    @property
    def label(self) -> str:
        return self.name if self.sound else f"{self.name} (invalid)"

    @property
    def untagged(self) -> Name:
        return Name(self.name, self.ink, self.sound)

    @property
    def shown(self) -> Name:
        """With what is told of it in a word: that it is the baseline, invalid or failed."""
        baseline = (("baseline", ""),) if self.baseline else ()
        state = ((self.word, self.status.value),) if self.status is not ArmState.FINISHED else ()
        return replace(self.untagged, tags=(*baseline, *state))

    @property
    def reason(self) -> str:
        return self.outcome.reason

    @property
    def word(self) -> str:
        return STATUS.get(self.status, self.status.value)

    @property
    def shortfall(self) -> str:
        """How many of its runs failed, where some did."""
        failed = sum(run.status is RunState.FAILED for run in self.runs)
        return f"{failed} of {len(self.runs)} runs failed" if failed else ""

    @property
    def scores(self) -> Mapping[str, Estimate]:
        return self.outcome.scores

    def findings(self, outcome: str) -> list[Finding]:
        """Findings of one outcome over all seeds, each check once: its latest, of the scored model."""
        rows = [finding for run in self.runs for finding in run.checks if finding.outcome == outcome]
        rows.sort(key=lambda finding: finding.step or 0)
        return [self.over_seeds(row) for row in {row.check: row for row in rows}.values()]

    def over_seeds(self, finding: Finding) -> Finding:
        """A leak in nats as the mean of the seeds' trained models, as the tables have it: one leak has one
        number. Other findings as they are."""
        names = {"difference": "leak", "parallel": "parallel_loss", "token_by_token": "token_by_token_loss"}
        known = "difference" in finding.values and {*names.values()} <= {*self.scores}
        if finding.check != "honesty" or not known:
            return finding
        means = {value: self.scores[name].value for value, name in names.items()}
        between = self.scores["leak"].interval
        means |= dict(zip(("low", "high"), between, strict=True)) if between else {}
        return replace(finding, values={**finding.values, **means})


def limits_of(budget: Mapping[str, Any] | None) -> str:
    """A budget in words."""
    limits = (budget or {}).items()
    return " or ".join(f"{anything(n)} {unit.removesuffix('s') if n == 1 else unit}" for unit, n in limits)


class StudyResults:
    """An outcome with what its page adds: colours, and arms in the order of their legend."""

    def __init__(self, outcome: StudyOutcome) -> None:
        self.outcome, self.facts = outcome, outcome.study

    @property
    def name(self) -> str:
        return self.facts.name

    @property
    def metric(self) -> str:
        return self.facts.metric

    @property
    def seeds(self) -> list[int]:
        return list(self.facts.seeds or sorted({run.seed for _, run in self.runs()}))

    @property
    def budget(self) -> str:
        """1,561,375 tokens or 1 epoch: what comes first; with the arms of each where they differ."""
        common, arms = limits_of(self.facts.budget), dict[str, list[str]]()
        for arm in self.arms:
            arms.setdefault(limits_of(arm.outcome.budget) or common, []).append(arm.name)
        if len(arms) < 2:
            return next(iter(arms), common)
        return ", ".join(f"{limits} ({first_few(names, 4)})" for limits, names in arms.items())

    @cached_property
    def card(self) -> dict[str, str]:
        """The paragraphs of the study's card by the word that they begin with; "" holds the rest."""
        paragraphs: dict[str, str] = {}
        for paragraph in self.facts.card.split("\n\n"):
            text = " ".join(paragraph.split())
            label, colon, rest = text.partition(": ")
            known = label if colon and label in CARD else ""
            paragraphs[known] = "\n".join(filter(None, [paragraphs.get(known, ""), rest if known else text]))
        return paragraphs

    @cached_property
    def arms(self) -> list[Arm]:
        names = [arm.name for arm in self.outcome.arms]
        baseline = self.facts.baseline or (names[0] if names else "")
        baselines = {baseline, *self.facts.against.values()}
        grey = {arm.name for arm in self.outcome.arms if arm.state is not ArmState.FINISHED}
        inks = arm_inks(names, baseline=baseline, grey=grey)
        return [
            Arm(
                outcome=arm,
                runs=self.outcome.runs_of(arm.name),
                ink=inks[arm.name],
                baseline=arm.name in baselines,
            )
            for arm in self.outcome.arms
        ]

    @property
    def baseline(self) -> str:
        """What the arms are set beside; several where arms have baselines of their own."""
        return " and ".join(arm.name for arm in self.arms if arm.baseline)

    def arm(self, name: Any) -> Arm | None:
        return next((arm for arm in self.arms if arm.name == name), None)

    def sound(self, name: Any) -> bool:
        """Whether what bears this name may be believed; what is no arm's name may."""
        arm = self.arm(name)
        return arm is None or arm.sound

    @property
    def unsound(self) -> list[Arm]:
        return [arm for arm in self.arms if not arm.sound]

    def pill(self, arm: Arm, words: str = "") -> VerdictPill:
        """What an arm came to by the study's own metric; its colour goes by the verdict, not by its words."""
        comparison = self.comparison_of(arm)
        if arm.status in (ArmState.FAILED, ArmState.MISSING):
            return VerdictPill(arm.word)
        if not arm.sound:
            return VerdictPill(Verdict.INVALID.value)
        if comparison is None:
            return VerdictPill(arm.shortfall or "not compared")
        return VerdictPill(comparison.verdict.value, words or verdict_phrase(comparison))

    def comparison_of(self, arm: Arm) -> Comparison | None:
        """The arm's comparison by the study's own metric."""
        return self.outcome.comparison_of(arm.name)

    def baseline_of(self, name: str) -> str:
        """What an arm is compared with."""
        return self.facts.against.get(name, self.facts.baseline)

    def runs(self) -> Iterator[tuple[Arm, RunResult]]:
        return ((arm, run) for arm in self.arms for run in arm.runs)
