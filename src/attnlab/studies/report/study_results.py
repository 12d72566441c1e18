"""Results as the report's sections read them: arms in order, with their runs, colours and soundness."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from attnlab.documents.nodes import SIGNS, Name, VerdictPill
from attnlab.documents.numbers import anything
from attnlab.documents.palette import Ink, ink
from attnlab.runs.findings import Finding
from attnlab.runs.result import RunResult

STATUS = {
    "finished": "finished",
    "invalid": "not sound",
    "failed": "failed",
    "missing": "not run",
}

CARD = ("Set-up", "Hypothesis", "How to read it", "Time")


@dataclass(frozen=True, eq=False)
class Arm:
    name: str
    data: Mapping[str, Any]
    runs: list[RunResult]
    ink: Ink
    baseline: bool

    @property
    def status(self) -> str:
        return self.data.get("status") or "finished"

    @property
    def sound(self) -> bool:
        """False where a check failed: no number of this arm means what it seems to."""
        return self.status != "invalid"

    @property
    def label(self) -> str:
        return self.name if self.sound else f"{self.name} (not sound)"

    @property
    def untagged(self) -> Name:
        return Name(self.name, self.ink, self.sound)

    @property
    def shown(self) -> Name:
        """With what is told of it in a word: that it is the baseline, or that it is not sound."""
        baseline = (("baseline", ""),) if self.baseline else ()
        state = ((self.word, self.status),) if self.status != "finished" else ()
        return replace(self.untagged, tags=(*baseline, *state))

    @property
    def reason(self) -> str:
        return self.data.get("reason") or ""

    @property
    def word(self) -> str:
        return STATUS.get(self.status, self.status)

    @property
    def shortfall(self) -> str:
        """How many of its runs failed, where some did."""
        failed = sum(run.status == "failed" for run in self.runs)
        return f"{failed} of {len(self.runs)} runs failed" if failed else ""

    @property
    def metrics(self) -> Mapping[str, Mapping[str, Any]]:
        return self.data.get("metrics") or {}

    def findings(self, outcome: str) -> list[Finding]:
        """Findings of one outcome over all seeds, each check once: its latest, of the scored model."""
        rows = [finding for run in self.runs for finding in run.checks if finding.outcome == outcome]
        rows.sort(key=lambda finding: finding.step or 0)
        return list({row.check: row for row in rows}.values())


def limits_of(budget: Mapping[str, Any] | None) -> str:
    """A budget in words."""
    limits = (budget or {}).items()
    return " or ".join(f"{anything(n)} {unit.removesuffix('s') if n == 1 else unit}" for unit, n in limits)


class StudyResults:
    """A results.json: required are study, arms and runs, and all else may be missing."""

    def __init__(self, results: Mapping[str, Any]) -> None:
        missing = [part for part in ("study", "arms", "runs") if part not in results]
        if missing:
            raise ValueError(f"Results need study, arms and runs; {', '.join(missing)} is missing.")
        self.results = results
        self.facts: Mapping[str, Any] = results["study"]

    def part(self, name: str) -> Any:
        """A part of the results, or an empty one."""
        return self.results.get(name) or {}

    @property
    def name(self) -> str:
        return self.facts.get("name") or "study"

    @property
    def metric(self) -> str:
        return self.facts.get("metric") or "loss"

    @property
    def seeds(self) -> list[int]:
        return list(self.facts.get("seeds") or sorted({run.seed for _, run in self.runs()}))

    @property
    def budget(self) -> str:
        """1,561,375 tokens or 1 epoch: what comes first; with the arms that have another one."""
        common = limits_of(self.facts.get("budget"))
        others = {arm.name: limits_of(arm.data.get("budget")) for arm in self.arms}
        own = [f"{name}: {limits}" for name, limits in others.items() if limits and limits != common]
        return f"{common} ({', '.join(own)})" if own else common

    @cached_property
    def card(self) -> dict[str, str]:
        """The paragraphs of the study's card by the word that they begin with; "" holds the rest."""
        found: dict[str, str] = {}
        for paragraph in (self.facts.get("card") or "").split("\n\n"):
            text = " ".join(paragraph.split())
            label, colon, rest = text.partition(": ")
            known = label if colon and label in CARD else ""
            found[known] = "\n".join(filter(None, [found.get(known, ""), rest if known else text]))
        return found

    @cached_property
    def arms(self) -> list[Arm]:
        rows, runs = list(self.results["arms"]), [RunResult.of_json(run) for run in self.results["runs"]]
        names = [row["name"] for row in rows]
        baseline = self.facts.get("baseline") or (names[0] if names else "")
        baselines = {baseline, *(self.facts.get("against") or {}).values()}
        others = [name for name in names if name != baseline]
        return [
            Arm(
                name=row["name"],
                data=row,
                runs=[run for run in runs if run.arm == row["name"]],
                ink=ink(
                    0 if row["name"] == baseline else others.index(row["name"]) + 1,
                    sound=row.get("status") != "invalid",
                ),
                baseline=row["name"] in baselines,
            )
            for row in rows
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

    def pill(self, verdict: str, words: str = "", *, plain: bool = False) -> VerdictPill:
        """A verdict by its kind: what it says of sizes stands behind that."""
        kind = next((name for name in SIGNS if verdict.startswith(name)), verdict)
        return VerdictPill(kind, words or verdict, plain)

    def verdict_of(self, arm: Arm) -> Mapping[str, Any]:
        """The arm's comparison by the study's own metric."""
        rows = self.results.get("comparisons") or []
        return next((r for r in rows if r["arm"] == arm.name and r.get("metric") == self.metric), {})

    def runs(self) -> Iterator[tuple[Arm, RunResult]]:
        return ((arm, run) for arm in self.arms for run in arm.runs)
