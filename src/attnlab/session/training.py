"""A run: from its config to its parts, and to a trained model."""

from __future__ import annotations

import socket
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from attnlab.checks.step_replay import ReplayTurns, StepReplay
from attnlab.config import schema
from attnlab.config.files import to_json
from attnlab.config.values import ConfigError
from attnlab.data.loader import Loader
from attnlab.data.sharing import UNSHARED
from attnlab.evaluation.evaluator import Evaluator
from attnlab.evaluation.features import Features, FeaturesOf, keeps_features, no_features
from attnlab.generation.sample_file import SampleFile, sample_files
from attnlab.model.model import Model
from attnlab.runs.events import Listener
from attnlab.runs.findings import collapse_sentence, failures, not_compared_sentence, shortfall_sentence
from attnlab.runs.folder import FollowedFolder, RunFolder
from attnlab.runs.metrics_file import MetricsFile
from attnlab.runs.record import RECORD, Fingerprints
from attnlab.session.process_turns import ProcessTurns
from attnlab.session.refusals import refuse_unscored
from attnlab.session.session import Session
from attnlab.session.shared_findings import shared_findings
from attnlab.session.soundness import RunChecks, Watch, known
from attnlab.training.budget import State
from attnlab.training.checkpoint import newest_checkpoint
from attnlab.training.continuing import resume_with
from attnlab.training.failure import Failure
from attnlab.training.hardware import and_this
from attnlab.training.interrupt import Interrupt
from attnlab.training.listeners import LISTENERS
from attnlab.training.loop import Loop
from attnlab.training.machine import ProcessorTime, autocast_of, device_of, recompute_blocks, versions
from attnlab.training.optimizers import OPTIMIZERS, Optimizers
from attnlab.training.schedules import SCHEDULES
from attnlab.training.strategies import strategy_of
from attnlab.training.strategies.own_processes import current
from attnlab.training.strategies.processes import Processes
from attnlab.training.strategies.strategy import Strategy
from attnlab.training.trace import initial_weights

SEEN = 30.0
"""Seconds until a file that one machine wrote is seen by another."""
TRAIN_BATCHES = 16
"""The most batches of train that are scored after an epoch; never more than dev has."""


@dataclass(frozen=True)
class Run:
    """A run that has ended: by its "budget", by lost "patience", or "interrupted"."""

    folder: Path
    reason: str
    state: State
    session: Session
    signal: int = 0
    unsound: tuple[str, ...] = ()  # the checks that failed, at whatever step
    failures: tuple[str, ...] = ()  # the same in words, with the step
    collapsed: str = ""  # one sentence, where its best predictions came to the majority share
    not_compared: str = ""  # which rows could not be compared with those that were trained on, and why
    shortfall: str = ""  # one sentence, where counts of words, or a bag of them, know as much

    @property
    def model(self) -> Model:
        return self.session.model


def train(
    session: Session,
    out: Path,
    *,
    resume: bool = False,
    listeners: Iterable[Listener] = (),
    allow: Collection[str] = (),
    first: Path | None = None,
) -> Run:
    """Train as the session's config says, in the folder `out`; with `resume`, continue the run that is there,
    to a larger budget if the config says so (training/continuing.py).

    A check that fails before the first step stops the run, unless it is in `allow`: then every number of
    the run is marked as invalid. `listeners` are asked for when the parts are made. `first` is the folder of
    a run of another seed whose findings hold for this one, as far as nothing but the seed differs.
    """
    known(allow)
    session.refuse_second_training()
    processes = current()
    with processes.guarded():
        strategy = joined_strategy(session.config, processes)
        folder = RunFolder(out) if processes.first else FollowedFolder(out)
        with (
            _opened(folder, session, strategy, resume=resume) as warnings,
            folder.recorded(),
            processes.guarded(),
        ):
            session.taken = True
            loop = _loop(session, folder, strategy)
            warnings += _restored(loop, folder)
            if processes.first:
                return _led(loop, session, folder, warnings, listeners=listeners, allow=allow, first=first)
            turns = ProcessTurns(loop)
            loop.listeners = [turns, *listeners, ReplayTurns(loop)]
            turns.gather()
            return _followed(loop, session, folder)


def joined_strategy(config: schema.Config, processes: Processes) -> Strategy:
    """How the processes of this run share it, once they are connected."""
    settings = config.training
    strategy = strategy_of(settings.strategy, processes)
    strategy.refuse(settings)
    processes.connect(_device(settings, processes), settings.process_timeout)
    return strategy


@contextmanager
def _opened(folder: RunFolder, session: Session, strategy: Strategy, *, resume: bool) -> Iterator[list[str]]:
    """A run's folder, its text read and known to be the one that it was begun with. The first process goes
    first; what it finds holds for all. Gives warnings."""
    config, out, processes = session.config, folder.path, strategy.processes
    facts = versions() | strategy.versions
    with ExitStack() as stack:
        if processes.first:
            opened = folder.opened(config, resume=resume, versions=facts, changed=resume_with)
            warnings = stack.enter_context(opened)
            if processes.world > 1 or "processes" in folder.record:
                folder.note(processes=strategy.record)
        processes.meet()
        if not processes.first:
            refuse_unshared(folder.path)
            warnings = stack.enter_context(folder.opened(config, resume=resume, versions=facts))
        with processes.in_turn():
            _ = session.model  # text that cannot be used is refused here
            with folder.recorded():
                expected, cut = fingerprints(session), truncation(session)  # all text is encoded, or refused
                if "dev" in session.dataset.splits.names:
                    refuse_unscored(config, session.task, lambda: session.writer("dev"))
                if processes.first:
                    session.tokenizer.save(out)
                folder.expect(expected)
                folder.note(truncation=cut, labels=asdict(session.labels))
                folder.note(fresh=session.origin.fresh, certificate=session.origin.certificate)
        refuse_other_data(processes, expected)
        yield warnings + list(session.task.target.warnings(session.labels))


def refuse_other_data(processes: Processes, own: Fingerprints) -> None:
    """Every process must have read the same: each takes its batches from its own copy."""
    processes.meet()
    first = vars(processes.of_first(own))
    for name, value in vars(own).items():
        if value != first[name]:
            raise ConfigError(
                f"Process {processes.rank} read other data than the first one ({name} is {value}, there "
                f"{first[name]}); give all machines the same files."
            )


def refuse_unshared(out: Path) -> None:
    """Every process reads the run's folder, when it is resumed and when a checkpoint is in parts."""
    until = time.monotonic() + SEEN
    while not (out / RECORD).is_file():
        if time.monotonic() > until:
            raise ConfigError(
                f"The first process keeps the run in {out}, which is not there on {socket.gethostname()}; "
                "give a folder on storage that all machines share with --out."
            )
        time.sleep(0.1)


def _led(
    loop: Loop,
    session: Session,
    folder: RunFolder,
    warnings: Sequence[str],
    *,
    listeners: Iterable[Listener],
    allow: Collection[str],
    first: Path | None,
) -> Run:
    """The run as its first process sees it, which checks it and keeps what happens."""
    own: dict[str, Any] = {
        "evaluator": _reading_again(loop.evaluate_model),
        "backward": loop.backward,
    }
    replay, turns = StepReplay(loop, in_order(session)), ProcessTurns(loop)
    own["replays"], own["processes"] = replay.result, turns.result
    turns.gather()
    soundness = RunChecks(session, folder.path, allow, own)
    step, evaluated = loop.state.step, loop.state.evaluated
    with MetricsFile(folder.metrics, step=step, evaluated=evaluated) as metrics:
        samples = samples_of(session, folder.path / "samples.txt", loop.state.step)
        watch = Watch(soundness, loop, samples, replay)
        trackers = _trackers(session.config, folder.path)
        loop.listeners = [turns, metrics, *samples, *listeners, *trackers, ReplayTurns(loop), watch]
        for warning in warnings:
            loop.warn(warning)
        if loop.state.step == 0:
            watch.before([] if first is None else shared_findings(first, folder.record))
        return _run(loop, session, folder, soundness)


def _spread(loop: Loop) -> None:
    """Share the model among the processes, once the first one has checked it."""
    loop.processes.meet()
    if isinstance(loop.features, Features) and not loop.strategy.whole_weights:
        loop.features.fill(loop.device)
    loop.spread()


def _followed(loop: Loop, session: Session, folder: RunFolder) -> Run:
    """The run as every other process sees it: the same steps, and nothing told."""
    _spread(loop)
    interrupt = Interrupt()
    with interrupt.heard():
        reason = loop.run(interrupt)
    loop.strategy.finish()
    return Run(folder.path, reason, loop.state, session, interrupt.signal)


def _run(loop: Loop, session: Session, folder: RunFolder, soundness: RunChecks) -> Run:
    interrupt = Interrupt()
    folder.note(status="running", sound=not soundness.unsound, unsound=soundness.unsound)
    folder.note(machines=and_this(folder.record.get("machines", ()), loop.device))
    if loop.state.step == 0:
        # after the checks, which must not touch the weights; of those that the seed decides
        drawn = {n: w for n, w in initial_weights(session.model).items() if n not in session.origin.taken}
        folder.note(initial=drawn, epoch_batches=len(loop.loader))
    _spread(loop)
    began, earlier = ProcessorTime.now(), folder.record.get("processor", {})
    with interrupt.heard():
        reason = loop.run(interrupt)
    loop.strategy.finish()
    took = ProcessorTime.now().since(began)
    folder.note(processor={name: took[name] + earlier.get(name, 0.0) for name in took})
    state = loop.state
    metric = session.config.training.deciding(session.task.metrics)
    best = {
        "step": state.best_step,
        "metric": metric,
        "value": state.best_score,
        "top_step": state.top_step,
        "top_value": state.top_score,
        "top_error": state.top_error,
    }
    status = "interrupted" if reason == "interrupted" else "finished"
    unsound = soundness.unsound
    folder.note(status=status, reason=reason, step=state.step, best=best, error="")
    parameters = sum(p.numel() for p in session.model.parameters())
    folder.note(parameters=parameters, flops=state.flops, tokens=state.tokens, seconds=state.seconds)
    sentences = failures(soundness.findings)
    folder.note(sound=not unsound, unsound=unsound, failures=sentences, trace=state.trace.record)
    after = [finding for finding in soundness.findings if finding.when == "after"]
    return Run(
        folder.path,
        reason,
        state,
        session,
        interrupt.signal,
        tuple(unsound),
        tuple(sentences),
        collapse_sentence(after),
        not_compared_sentence(soundness.findings),
        shortfall_sentence(after),
    )


def samples_of(session: Session, file: Path, step: int = 0) -> list[SampleFile]:
    """Where a model that writes puts its samples; nothing of one that does not."""
    length = session.config.longest_text
    return sample_files(file, session.model, session.task, session.dataset, length=length, step=step)


def in_order(session: Session) -> Loader:
    """The training batches, in the order of the run's seed."""
    return session.dataset.trained(session.config.seed)


def fingerprints(session: Session) -> Fingerprints:
    """What decides the batches and their order: a resumed run must have the same."""
    dataset, tokenizer = session.dataset, session.tokenizer
    return Fingerprints(
        text=dataset.text_fingerprint,
        data={split: dataset.fingerprint(split) for split in dataset.splits.names},
        tokenizer=tokenizer.fingerprint,
        order=in_order(session).fingerprint,
        tokenizer_identity=tokenizer.identity(),
        tokenizer_text=tokenizer.text_identity,
        start=session.origin.start,
        given=dataset.given_fingerprints(),
    )


def truncation(session: Session) -> dict[str, dict[str, float]]:
    """What data.length removed from the texts that are trained and judged on."""
    splits = [split for split in ("train", "dev") if split in session.dataset.splits.names]
    return {split: session.dataset.truncation(split).record() for split in splits}


def _device(settings: schema.TrainingSettings, processes: Processes) -> torch.device:
    return device_of(settings.device, local_rank=processes.local_rank, processes=processes.world)


def _loop(session: Session, folder: RunFolder, strategy: Strategy) -> Loop:
    config, settings = session.config, session.config.training
    device = _device(settings, strategy.processes)
    model = session.model.to(device)
    if settings.gradient_checkpointing:
        recompute_blocks(model)
    if settings.compile:
        model.trunk.compile(dynamic=True)
    autocast = autocast_of(settings.precision, device)
    loader = in_order(session)
    features = _features(session, loader, autocast, folder.path)
    evaluate = _evaluator(session, device, autocast, folder.path)
    evaluate_train = _train_evaluator(session, features, device, autocast)
    return Loop(
        model=model,
        task=session.task,
        loader=loader,
        features=features,
        evaluate=_shared(evaluate, strategy.processes),
        evaluate_train=_shared(evaluate_train, strategy.processes),
        optimizer=Optimizers(OPTIMIZERS.build(settings.optimizer), model),
        schedule=SCHEDULES.build(settings.schedule),
        settings=settings,
        checkpoints=folder.checkpoints,
        failure=Failure(folder.path, folder.checkpoints),
        seed=config.seed,
        autocast=autocast,
        device=device,
        strategy=strategy,
    )


def _shared(evaluator: Evaluator | None, processes: Processes) -> Evaluator | None:
    """The evaluator whose batches and texts are divided among the processes."""
    if evaluator is None:
        return None
    writer = evaluator.writer
    writer = None if writer is None else replace(writer, sharing=processes)
    return replace(evaluator, sharing=processes, writer=writer)


def _evaluator(session: Session, device: torch.device, autocast: Any, folder: Path) -> Evaluator | None:
    config = session.config
    if config.training.evaluate_every == "never" or "dev" not in session.dataset.splits.names:
        return None
    return session.evaluator(
        "dev",
        batches=config.training.evaluate_batches,
        device=device,
        autocast=autocast,
        features=_features(session, session.dataset.scored("dev"), autocast, folder),
    )


def _train_evaluator(
    session: Session, features: FeaturesOf, device: torch.device, autocast: Any
) -> Evaluator | None:
    """Where a model is adapted or dev is scored by epoch, the first batches of train are scored with it, in
    eval mode and with a stream of their own: curves of both then mean the same."""
    config, splits = session.config, session.dataset.splits.names
    every, adapted = config.training.evaluate_every, config.start != schema.SCRATCH
    wanted = every == "epoch" or (adapted and every != "never" and not session.task.predicts_words)
    if not wanted or "dev" not in splits:
        return None
    batches = min(TRAIN_BATCHES, len(session.dataset.scored("dev").plan(0)))
    return session.evaluator("train", device=device, autocast=autocast, features=features, batches=batches)


def _features(session: Session, loader: Loader, autocast: Any, folder: Path) -> FeaturesOf:
    """Of a trunk that stays as it is, what it makes of each text is computed once."""
    if not keeps_features(session.model, session.task):
        return no_features
    return Features(session.model, session.task, loader, autocast, folder)


def _reading_again(evaluator: Evaluator | None) -> Evaluator | None:
    """The evaluator for checks, which go by the whole model and by other batches, in one process."""
    if evaluator is None:
        return None
    writer = evaluator.writer
    writer = None if writer is None else replace(writer, sharing=UNSHARED)
    return replace(evaluator, features=no_features, sharing=UNSHARED, writer=writer)


def _restored(loop: Loop, folder: RunFolder) -> list[str]:
    """Resume from the last sound checkpoint, where there is one; gives what was wrong with later ones."""
    messages: list[str] = []
    if loop.processes.first:  # it sets aside what is damaged
        checkpoint = newest_checkpoint(folder.checkpoints, messages.append)
    loop.processes.meet()
    if not loop.processes.first:
        checkpoint = newest_checkpoint(folder.checkpoints, messages.append)
    if checkpoint is not None:
        loop.restore(checkpoint)
    place = f"step {loop.state.step}" if checkpoint is not None else "the beginning"
    warnings = [f"{message} The run resumes from {place}." for message in messages]
    if checkpoint is not None and "seconds" in loop.settings.budget.limits:
        warnings.append(
            "The budget is in seconds, so a resumed run does not end at the same step as an uninterrupted "
            "one."
        )
    return warnings


def _trackers(config: schema.Config, out: Path) -> list[Listener]:
    chosen = config.training.listeners
    return [LISTENERS.build(name, folder=out, config=to_json(config)) for name in chosen]
