"""One model in many processes: do they train it together?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import ClassVar

import numpy as np
from scipy.stats import binom

from attnlab.checks.check import Case, Check
from attnlab.checks.process_facts import (
    BatchWeight,
    ProcessReading,
    ProcessScores,
    ProcessState,
    ProcessStep,
    SharedStep,
    coincidences,
)
from attnlab.runs.findings import Finding, Outcome, When

EQUAL, WEIGHED = 1e-3, 0.02
"""How far gradients and weights of targets may differ by rounding, in any precision."""
CHANCE = 1e-6
"""How improbable shared rows must be before they count: data may hold a text several times."""


class Processes(Check):
    """Processes: do many processes train one model, each on rows of its own?

    Formula: checksums of weights and buffers and the numbers of steps are equal everywhere; the rows of a
    step are those that one process would have read (of other people's loops: the rows of two processes
    coincide no more often than those of one); a gradient that is used is a common multiple of the
    sum of those that the processes computed; a target weighs the same in all of them; random numbers differ
    between them; and as many examples are scored as the split has.

    When it helps: processes that read the same rows, that are not averaged, or that average means over
    different numbers of targets all train, their loss falls, and the result is that of another training.

    Cannot see: processes that differ in steps between those that are looked at, rows of models that take no
    ids, and gradients of weights that are spread over processes by another project.
    """

    when: ClassVar[tuple[When, ...]] = ("before", "during", "evaluation", "after")
    limit: ClassVar[float] = 1.0

    def run(self, case: Case) -> Finding:
        shared = None if case.processes is None else case.processes()
        if shared is None:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "one_process")
        states = self.judge_states(case.when, shared.states)
        asks_step = case.when == "during" and states.outcome is Outcome.PASS
        return self.judge_shared(case.when, shared) if asks_step else states

    def judge_shared(self, when: When, shared: SharedStep) -> Finding:
        """Whether the parts of a step are those that one process would have taken, each once."""
        count, rows = len(shared.states), [sorted(part) for _, part in shared.parts]
        planned = [sorted(part) for part in shared.planned]
        others = [n for n, (own, plan) in enumerate(zip_longest(rows, planned)) if own != plan]
        if others:
            ranks = sorted({shared.parts[n][0] for n in others if n < len(rows)})
            return self.finding(when, Outcome.FAIL, "other_rows", parts=others, ranks=ranks, of=count)
        if len(set(shared.draws)) < len(shared.draws):
            return self.finding(when, Outcome.FAIL, "same_part_draws", of=count, parts=len(rows))
        return self.finding(
            when, Outcome.PASS, "planned_rows", of=count, parts=len(rows), rows=sum(map(len, rows))
        )

    def judge_states(self, when: When, states: Sequence[ProcessState]) -> Finding:
        """Whether all processes have the same weights and buffers after the same number of steps."""
        for kind, name in (
            ("other_steps", "steps"),
            ("other_place", "place"),
            ("other_weights", "weights"),
            ("other_buffers", "buffers"),
        ):
            values = [getattr(state, name) for state in states]
            differing = [rank for rank, value in enumerate(values) if value != values[0]]
            if differing:
                outcome = Outcome.WARN if name == "buffers" else Outcome.FAIL
                steps = [state.steps for state in states]
                return self.finding(when, outcome, kind, ranks=differing, of=len(states), steps=steps)
        kind = "equal_states" if states[0].weights else "sharded_states"
        return self.finding(when, Outcome.PASS, kind, of=len(states), step=states[0].steps)

    def judge_step(self, when: When, steps: Sequence[ProcessStep]) -> Finding:
        """Whether one step of all processes is a step of one model on all of their rows."""
        findings = (
            self.judge_states(when, [step.state for step in steps]),
            self._same_batches(when, steps),
            self._averaged(when, steps),
            self._weighed(when, [step.batches for step in steps]),
            self._drawn(when, steps),
        )
        bad = [one for one in findings if one is not None and one.outcome is not Outcome.PASS]
        worst = sorted(bad, key=lambda finding: finding.outcome is not Outcome.FAIL)
        if worst:
            return worst[0]
        rows = sum(len(step.rows) for step in steps)
        targets = sum(batch.targets for step in steps for batch in step.batches)
        return self.finding(when, Outcome.PASS, "one_step", of=len(steps), rows=rows, targets=targets)

    def judge_readings(self, when: When, readings: Sequence[ProcessReading]) -> Finding:
        """Whether targets weigh the same in every process at each step, and rows are read by one of them."""
        together = zip(*(reading.steps for reading in readings), strict=False)
        unequal = (self._weighed(when, step) for step in together)
        rows = self.judge_rows(when, [reading.rows for reading in readings])
        return next((finding for finding in unequal if finding is not None), rows)

    def judge_rows(self, when: When, rows: Sequence[Sequence[str]]) -> Finding:
        """Whether the rows of two processes coincide more often than rows of one process do."""
        across, inside, share = coincidences(rows)
        total = sum(map(len, rows))
        if not total:
            return self.finding(when, Outcome.NOT_APPLICABLE, "no_rows")
        if across and binom.sf(across - 1, across + inside, share) < CHANCE:
            return self.finding(when, Outcome.FAIL, "shared_rows", shared=across, inside=inside, rows=total)
        return self.finding(when, Outcome.PASS, "own_rows", shared=across, inside=inside, rows=total)

    def judge_scores(self, when: When, scores: Sequence[ProcessScores], examples: int | None) -> Finding:
        """Whether as many examples were scored as there are; each process tells what it scored itself, or
        all tell the same."""
        states = self.judge_states(when, [score.state for score in scores])
        if states.outcome is not Outcome.PASS or examples is None or not any(s.scored for s in scores):
            return states
        gathered = len({score.content for score in scores}) == 1
        scored = scores[0].scored if gathered else sum(score.scored for score in scores)
        if scored != examples:
            kind = "repeated_rows" if scored > examples else "unscored_rows"
            return self.finding(
                when, Outcome.FAIL, kind, abs(scored - examples), scored=scored, rows=examples
            )
        return self.finding(when, Outcome.PASS, "each_scored_once", rows=examples, of=len(scores))

    def _same_batches(self, when: When, steps: Sequence[ProcessStep]) -> Finding | None:
        """Processes whose rows of this step are all the same."""
        sets = [frozenset(step.rows) for step in steps]
        same = [rank for rank, rows in enumerate(sets[1:], 1) if len(rows) > 1 and rows in sets[:rank]]
        if not same:
            return None
        return self.finding(when, Outcome.FAIL, "same_rows", ranks=same, of=len(steps), rows=len(sets[0]))

    def _averaged(self, when: When, steps: Sequence[ProcessStep]) -> Finding | None:
        """Gradients that are used in place of the mean of all."""
        if any(not step.own or len(step.own) != len(step.used) for step in steps):
            return None
        own, used = (np.array([getattr(step, name) for step in steps]) for name in ("own", "used"))
        total = own.sum(0)
        scale = max(float(np.abs(used).max()), 1e-30)
        factor = float(total @ used[0]) / max(float(total @ total), 1e-60)
        gaps = np.abs(used - factor * total).max(1) / scale
        apart = [
            rank for rank in range(len(steps)) if not np.abs(used[rank] - used[0]).max() <= EQUAL * scale
        ]
        if apart:
            alone = float(np.abs(used[apart[0]] - own[apart[0]]).max()) <= EQUAL * scale
            kind = "not_averaged" if alone else "other_gradients"
            return self.finding(when, Outcome.FAIL, kind, ranks=apart, of=len(steps))
        if not gaps.max() <= EQUAL:
            return self.finding(when, Outcome.FAIL, "not_the_mean", float(gaps.max()), of=len(steps))
        return None

    def _weighed(self, when: When, step: Sequence[Sequence[BatchWeight]]) -> Finding | None:
        """Targets that weigh more in one process than in another, of the batches of each in one step."""
        batches = [batch for own in step for batch in own if batch.targets]
        weights = [batch.weight for batch in batches if batch.weight]
        if len(batches) < 2 or len(weights) < len(batches):
            return None
        least, most = weights.index(min(weights)), weights.index(max(weights))
        ratio = weights[most] / weights[least]
        if ratio <= 1 / (1 - WEIGHED):
            return None
        return self.finding(
            when,
            Outcome.FAIL,
            "mean_of_means",
            ratio,
            most=batches[most].targets,
            least=batches[least].targets,
            of=len(step),
        )

    def _drawn(self, when: When, steps: Sequence[ProcessStep]) -> Finding | None:
        """Processes that draw the same random numbers."""
        draws = [step.draws for step in steps]
        same = [rank for rank, state in enumerate(draws[1:], 1) if state and state in draws[:rank]]
        return self.finding(when, Outcome.WARN, "same_draws", ranks=same, of=len(steps)) if same else None
