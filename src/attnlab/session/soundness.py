"""The checks of a run: when they are made, where their findings are kept, and what follows from them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attnlab.checks import CHECKS
from attnlab.checks.check import LONG, Case, run_checks
from attnlab.checks.step_replay import StepReplay
from attnlab.config.files import to_json
from attnlab.config.schema import SCRATCH, declares_dropout
from attnlab.config.values import unknown_name
from attnlab.evaluation.evaluator import Evaluation
from attnlab.generation.sample_file import SampleFile
from attnlab.metrics.metric import Examples
from attnlab.model.frozen import is_fixed
from attnlab.runs.events import Checked, Checking, Ended, Evaluated, Event, Stepped, Stepping, Warned
from attnlab.runs.faults import UnsoundError
from attnlab.runs.findings import Finding, When, failed_checks, merge_findings, read_findings, save_findings
from attnlab.session.session import Session
from attnlab.session.trained_texts import texts_before
from attnlab.targets.classes import as_read
from attnlab.targets.relabelling import Predictions
from attnlab.training.loop import Loop


@dataclass(frozen=True)
class ScoredExamples:
    """What an evaluation of dev says of each example, with its text; of words as a whole alone. `train` is
    the evaluation of the sample of train that was scored beside it."""

    evaluation: Evaluation | None = None
    examples: Examples | None = None
    predictions: Predictions | None = None
    train: Evaluation | None = None

    @classmethod
    def of(
        cls, session: Session, evaluation: Evaluation | None, train: Evaluation | None = None
    ) -> ScoredExamples:
        if evaluation is None or session.task.predicts_words:
            return cls(evaluation, train=train)
        examples, task = evaluation.examples, session.task
        predictions = task.target.predictions(examples, task.labels)
        if predictions is not None:
            texts = session.dataset.texts("dev")
            predictions = replace(predictions, texts=[as_read(texts[n]) for n in evaluation.numbers.tolist()])
        return cls(evaluation, examples, predictions, train)


UNSCORED = ScoredExamples()
STEPS = ("replayed_step", "processes")
"""The checks that are made right after a step."""


def case_of(session: Session, when: When, *, scored: ScoredExamples = UNSCORED, **facts: Any) -> Case:
    """What the checks of a moment look at: the parts of a run, with what is known by then."""
    return Case(
        examples=scored.examples,
        predictions=scored.predictions,
        evaluation=scored.evaluation,
        train_evaluation=scored.train,
        when=when,
        config=session.config,
        model=session.model,
        task=session.task,
        dataset=session.dataset,
        initial=session.initial,
        pretrained=session.config.start != SCRATCH,
        trained_before=tuple(texts_before(session.config, session.cache)) if when in LONG else (),
        **facts,
    )


class RunChecks:
    """What the checks found of a run. A failed check stops it before the first step, unless allowed."""

    def __init__(
        self,
        session: Session,
        folder: Path,
        allow: Collection[str] = (),
        own: Mapping[str, Any] | None = None,
    ):
        """`own` are the run's own ways to its numbers, which checks go by: `evaluator`, `backward` and
        `replays`."""
        self.session, self.folder, self.allow = session, folder, tuple(sorted(set(allow)))
        self.own = dict(own or {})
        self.findings: list[Finding] = read_findings(folder)

    def examine(
        self, *moments: When, names: Sequence[str] = (), shared: Sequence[Finding] = (), **facts: Any
    ) -> list[Finding]:
        """The checks of these moments, or only the named ones, made now: see `merge_findings`. What is
        `shared` is known already, and is not asked again."""
        findings, known = list(shared), {(finding.when, finding.check) for finding in shared}
        for when in moments:
            due = names or [n for n in CHECKS if when in CHECKS[n].when and (when, n) not in known]
            case = case_of(self.session, when, folder=self.folder, **self.own, **facts)
            findings += run_checks(case, due) if due else []
        self.findings = merge_findings(self.findings, findings)
        self.save()
        return findings

    def before(self, **facts: Any) -> list[Finding]:
        """The checks before the first step. One that fails, here or in the run that a finding is `shared`
        with, stops the run, unless it is allowed."""
        findings = self.examine("config", "before", **facts)
        stopping = [
            finding for finding in findings if finding.outcome == "fail" and finding.check not in self.allow
        ]
        if stopping:
            raise UnsoundError("\n".join(map(refusal, stopping)))
        return findings

    def of_frozen_trunk(self, step: int) -> list[Finding]:
        """What was found before training, and cannot have changed by it: of a trunk that stays as it is."""
        if not is_fixed(self.session.model.trunk):
            return []
        lasting = [one for one in self.findings if one.when == "before" and of_trunk(one.check)]
        return [replace(finding, when="after", step=step, seconds=0.0) for finding in lasting]

    @property
    def unsound(self) -> list[str]:
        """The checks that failed: while there is one, no number of the run means what it says."""
        return failed_checks(self.findings)

    def save(self) -> None:
        save_findings(self.folder, self.findings, self.allow)


def of_trunk(check: str) -> bool:
    return check in CHECKS and CHECKS[check].of_trunk


def known(allow: Collection[str]) -> None:
    """Refuse a name that no check has, before any work."""
    for name in allow:
        if name not in CHECKS:
            raise unknown_name("--allow", name, CHECKS)


class Watch:
    """Makes the checks of a run when their moment has come, and tells what is new in what they found."""

    def __init__(self, soundness: RunChecks, loop: Loop, samples: Sequence[SampleFile], replay: StepReplay):
        self.soundness, self.loop, self.tell, self.samples = soundness, loop, loop.tell, samples
        self.replay, self.best = replay, UNSCORED
        config = soundness.session.config
        self.drops = config.start != SCRATCH or declares_dropout(to_json(config))
        self.reported = {(finding.when, finding.check): finding.outcome for finding in soundness.findings}

    def before(self, shared: Sequence[Finding] = ()) -> None:
        """The checks before the first step; what fails and is not allowed raises."""
        began = time.perf_counter()
        self.tell(Checking(step=0))
        self.report(0, self.soundness.before(progress=self.progress(0), shared=shared), began)

    def __call__(self, event: Event) -> None:
        began, facts = time.perf_counter(), dict[str, Any]()
        if isinstance(event, Stepping):
            self.replay.before()
        elif isinstance(event, Stepped):
            if self.replay.after(event):
                self.warn(event.step, self.soundness.examine("during", names=STEPS, step=event.step))
            self.name_unasked_draws()
        elif isinstance(event, Evaluated):
            self.tell(Checking(step=event.step))
            written = [sample for file in self.samples for sample in file.last]
            scores = {"loss": event.loss, **event.scores}
            scored = ScoredExamples.of(
                self.soundness.session, self.loop.evaluation, self.loop.train_evaluation
            )
            self.best = ScoredExamples(scored.evaluation) if event.best else self.best
            facts = {"scores": scores, "samples": written, "scored": scored}
            findings = self.soundness.examine("during", "evaluation", step=event.step, **facts)
            self.report(event.step, findings, began)
        elif isinstance(event, Ended) and event.reason != "interrupted":
            self.tell(Checking(step=event.step))
            session = self.soundness.session
            scored, state = self.best, self.loop.state  # of words, the best evaluation is at hand
            facts = {"step": event.step, "progress": self.progress(event.step)}
            facts["scored_step"] = state.best_step
            if not session.task.predicts_words or scored.evaluation is None:
                best = self.loop.best_evaluation()
                facts["scored_step"] = state.evaluated if best is self.loop.evaluation else state.best_step
                scored = ScoredExamples.of(session, best)
            facts["scored"] = scored
            facts["decides"] = bool(state.settled)
            facts["best"] = None if state.best_score is None else (state.best_step, state.best_score)
            facts["shared"] = self.soundness.of_frozen_trunk(event.step)
            self.report(event.step, self.soundness.examine("after", **facts), began)

    def name_unasked_draws(self) -> None:
        """Say once that training draws random numbers though its config has no dropout."""
        if self.drops or not self.loop.state.trace.drawn.count:
            return
        self.drops = True
        self.loop.warn(
            "Training draws random numbers, and no dropout is set in the config: a part of the model draws "
            "by itself. Give it a setting, so that runs can be compared by it, or take the draws out."
        )

    def progress(self, step: int) -> Callable[[int, int], None]:
        """Tells how many checks are done: of a deep model they take minutes."""
        return lambda done, of: self.tell(Checking(step=step, done=done, of=of))

    def report(self, step: int, findings: Sequence[Finding], began: float) -> None:
        outcomes = {
            finding.check: finding.outcome for finding in findings if finding.outcome != "not applicable"
        }
        if outcomes:
            self.tell(Checked(step=step, outcomes=outcomes, seconds=time.perf_counter() - began))
        self.warn(step, findings)

    def warn(self, step: int, findings: Sequence[Finding]) -> None:
        """Tell what is newly bad."""
        for finding in findings:
            key, bad = (finding.when, finding.check), finding.outcome in ("warn", "fail")
            if bad and self.reported.get(key) != finding.outcome:
                self.tell(Warned(step=step, message=finding.sentence))
            self.reported[key] = finding.outcome


def refusal(finding: Finding) -> str:
    return (
        f"{finding.sentence} "
        f"To train anyway, with every number marked invalid: --allow {finding.check} "
        f'(in a study: allow = {{ ARM = ["{finding.check}"] }}).'
    )
