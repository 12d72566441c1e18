"""The contract of a check: what it asks, when, of what; and what it found."""

from __future__ import annotations

import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

import torch

from attnlab.checks import CHECKS
from attnlab.checks.process_facts import SharedStep
from attnlab.checks.step_replay import Replays
from attnlab.checks.trained_text import TrainedText
from attnlab.config.schema import Config
from attnlab.data.dataset import Dataset
from attnlab.data.workers import in_order
from attnlab.evaluation.evaluator import Evaluation, Evaluator
from attnlab.generation.generate import Written
from attnlab.metrics.metric import Examples
from attnlab.model.isolation import sampled_layers
from attnlab.model.model import Model
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.runs.typed import Value
from attnlab.targets.predictions import provisional
from attnlab.targets.relabelling import Predictions
from attnlab.tasks.task import Prepared, Task
from attnlab.training.machine import probe_processes

EARLY = 200
"""Steps before which a model has hardly learned how often words occur: nothing is expected of it."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is checked: a run's parts, and as much of its course as there is by then.

    `initial` builds the model as it was before the first step. `losses` are those of dev by step,
    `scores` what the last evaluation gave, `samples` what the model wrote then, `predictions` what a
    classifier said, `examples` what was said of each example in numbers: after training
    both are of the best checkpoint, which is the one that is opened. `evaluation` is what these come from,
    `train_evaluation` the same of the sample of train that is scored with dev. `pretrained` says that the
    first weights were learned before. `evaluator` is the run's own way to score dev, `backward` its own way
    to a step's gradient and loss. `progress` hears how many of how many checks are done.
    """

    when: When
    config: Config
    model: Model
    task: Task
    dataset: Dataset
    initial: Callable[[], Model] | None = None
    folder: Path | None = None
    step: int = 0
    scores: Mapping[str, float] = field(default_factory=dict)
    samples: Sequence[Written] = ()
    predictions: Predictions | None = None
    examples: Examples | None = None
    evaluation: Evaluation | None = None
    train_evaluation: Evaluation | None = None
    best: tuple[int, float] | None = None
    """The step that the run calls its best on dev, and its score there."""
    scored_step: int | None = None
    """The step of what was scored, where that is not the last one: after training, that of the best
    checkpoint."""
    pretrained: bool = False
    trained_before: Sequence[TrainedText] = ()
    """What the start of the run was trained on, and what that began from."""
    decides: bool = False
    """Whether its predictions go by something that was chosen on dev, such as a threshold."""
    evaluator: Evaluator | None = None
    backward: Callable[[Model, list[Prepared]], tuple[float, Mapping[str, float]]] | None = None
    replays: Replays | None = None
    processes: Callable[[], SharedStep | None] | None = None
    """What several processes of the run have, and did in the last step that was looked at."""
    progress: Callable[[int, int], None] = lambda done, of: None


class Check(ABC):
    """One question about a run. Its docstring is its card; its class says when and for how long it runs.

    `run` gathers what the question needs from a run of ours. Where other people's loops can answer it too,
    `judge` says what follows from what was gathered, wherever that is from.
    """

    when: ClassVar[tuple[When, ...]] = ("before",)
    limit: ClassVar[float] = 2.0
    """Seconds that it may take for a small model on two cores."""
    of_scores: ClassVar[bool] = False
    """Whether it judges what was scored: its finding then is of that step."""
    samples_layers: ClassVar[bool] = False
    """Whether it asks a sample of a very deep model's layers, see `sample_of`; its finding then says so."""
    of_trunk: ClassVar[bool] = False
    """Whether it asks the trunk alone: where that is frozen, what was found before training still holds after
    it (`moved` says whether it stayed as it was)."""
    same_for_seeds: ClassVar[bool] = False
    """Whether it asks how a model is built or what its data are, and not which weights or batches a seed
    drew: before training it is then made once for all seeds of a study's arm."""

    @abstractmethod
    def run(self, case: Case) -> Finding:
        """Look at the case and say what was found."""

    def finding(
        self, when: When, outcome: Outcome, kind: str, number: float | None = None, **values: Value
    ) -> Finding:
        """What was found: its kind, whose words are in `checks/wording`, and the values that they hold."""
        name = CHECKS.name_of(type(self))
        return Finding(check=name, when=when, outcome=outcome, kind=kind, number=number, values=values)

    def passed(self, case: Case, found: str, number: float | None = None) -> Finding:
        """For checks of one's own, which say in their own words what they found; so do the next three."""
        return self._worded(case, Outcome.PASS, found, number)

    def warned(
        self, case: Case, found: str, number: float | None = None, *, meaning: str, fix: str
    ) -> Finding:
        return self._worded(case, Outcome.WARN, found, number, meaning=meaning, fix=fix)

    def failed(
        self, case: Case, found: str, number: float | None = None, *, meaning: str, fix: str
    ) -> Finding:
        return self._worded(case, Outcome.FAIL, found, number, meaning=meaning, fix=fix)

    def not_applicable(self, case: Case, why: str) -> Finding:
        return self._worded(case, Outcome.NOT_APPLICABLE, why)

    def _worded(
        self, case: Case, outcome: Outcome, found: str, number: float | None = None, **words: str
    ) -> Finding:
        name = CHECKS.name_of(type(self))
        return Finding.of_text(found, check=name, when=case.when, outcome=outcome, number=number, **words)


LONG: tuple[When, ...] = ("before", "after")
"""The moments whose checks take long enough for several processes to share them."""


def so_far(finding: Finding, case: Case) -> Finding:
    """A finding of an evaluation in the course of training, where a model may still learn: at its end it
    fails."""
    training = case.when == "evaluation" and case.evaluator is not None
    return replace(provisional(finding) if training else finding, when=case.when)


def run_checks(case: Case, names: Iterable[str] = ()) -> list[Finding]:
    """Every check of this moment, or only the named ones, each timed. They are independent of each other."""
    chosen = list(names) or [name for name in CHECKS if case.when in CHECKS[name].when]
    processes = probe_processes(case.model) if case.when in LONG else 1
    longest_first = sorted(chosen, key=lambda name: -CHECKS[name].limit)  # none is begun last and waited for
    work = partial(_made if processes == 1 else _made_by_one_thread, case)
    made = in_order(work, longest_first, processes=processes, ahead=len(chosen))
    findings: dict[str, Finding] = {}
    for name, finding in zip(longest_first, made, strict=True):
        findings[name] = finding
        case.progress(len(findings), len(chosen))
    return [findings[name] for name in chosen]


def raised(error: Exception) -> dict[str, Value]:
    """What a finding holds of an error: its kind and first line, and the file, line and function it is of."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}, {frames[-1].name}" if frames else ""
    message = next(iter(str(error).splitlines()), "")[:200]
    return {"error": f"{type(error).__name__}: {message}".removesuffix(": "), "place": place}


def _made_by_one_thread(case: Case, name: str) -> Finding:
    torch.set_num_threads(1)
    return _made(case, name)


def _made(case: Case, name: str) -> Finding:
    began = time.perf_counter()
    check = CHECKS.build(name)
    try:
        finding = check.run(case)
    except Exception as error:  # of a model or data of anybody's: a check says so, and the others go on
        finding = check.finding(case.when, Outcome.WARN, "raised", None, **raised(error))
    if check.samples_layers and finding.outcome is not Outcome.NOT_APPLICABLE:
        finding = replace(finding, layers=sampled_layers(case.model))
    step = case.scored_step if check.of_scores and case.scored_step is not None else case.step
    return replace(finding, seconds=time.perf_counter() - began, step=step)
