"""A run: from its config to its parts, and to a trained model."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from attnlab.checks.predictions import collapse_told
from attnlab.config import schema
from attnlab.config.files import to_json
from attnlab.data.dataset import ProgressOf, no_progress
from attnlab.data.loader import Loader
from attnlab.evaluation.evaluator import Evaluator
from attnlab.evaluation.features import Features, FeaturesOf, keeps_features, unknown
from attnlab.model.model import Model
from attnlab.runs.events import Listener
from attnlab.runs.findings import failures
from attnlab.runs.folder import RunFolder
from attnlab.runs.metrics_file import MetricsFile
from attnlab.session.continuing import go_on
from attnlab.session.sample_file import sample_files
from attnlab.session.setup import Setup, check, evaluator_of, fingerprints, in_order, set_up, truncation
from attnlab.session.soundness import RunChecks, Watch, known
from attnlab.training.budget import State
from attnlab.training.checkpoint import newest_checkpoint
from attnlab.training.failure import Failure
from attnlab.training.interrupt import Interrupt
from attnlab.training.listeners import LISTENERS
from attnlab.training.loop import Loop
from attnlab.training.machine import autocast_of, device_of, recompute_blocks, versions
from attnlab.training.optimizers import OPTIMIZERS, Optimizers
from attnlab.training.schedules import SCHEDULES
from attnlab.training.trace import initial_weights

TRAIN_BATCHES = 16
"""The most batches of train that are scored after an epoch; never more than dev has."""


@dataclass(frozen=True)
class Run:
    """A run that has ended: by its "budget", by lost "patience", or "interrupted"."""

    folder: Path
    reason: str
    state: State
    setup: Setup
    signal: int = 0
    unsound: tuple[str, ...] = ()  # the checks that failed, at whatever step
    failures: tuple[str, ...] = ()  # the same in words, with the step
    collapsed: str = ""  # one sentence, where its best predictions came to the majority share

    @property
    def model(self) -> Model:
        return self.setup.model


def train(
    config: schema.Config,
    out: Path,
    *,
    resume: bool = False,
    cache: Path | None = None,
    listeners: Iterable[Listener] = (),
    watchers: Callable[[Setup], Iterable[Listener]] = lambda setup: (),
    progress: ProgressOf = no_progress,
    allow: Collection[str] = (),
) -> Run:
    """Train as the config says, in the folder `out`; with `resume`, go on where that run stands, to a larger
    budget if the config says so (session/continuing.py).

    `watchers` gives listeners that need the run's own parts, such as its model.
    A check that fails before the first step stops the run, unless it is in `allow`: then every number of
    the run is marked as not sound.
    """
    config = check(config)
    known(allow)
    folder = RunFolder(out)
    with folder.opened(config, resume=resume, versions=versions(), changed=go_on) as warnings:
        setup = set_up(config, cache=cache, progress=progress)
        with folder.recorded():
            expected, cut = fingerprints(setup), truncation(setup)  # all text is encoded, or refused
            setup.dataset.tokenizer.save(out)
            folder.expect(**expected)
            folder.note(truncation=cut, labels=asdict(setup.dataset.labels))
            folder.note(fresh=setup.origin.fresh, certificate=setup.origin.certificate)
            warnings += setup.task.target.warnings(setup.dataset.labels)
            loop = _loop(setup, folder)
            warnings += _restored(loop, folder)
            own = {"evaluator": _reading_again(loop.evaluate_model), "backward": loop.backward}
            soundness = RunChecks(setup, out, allow, own)
            step, evaluated = loop.state.step, loop.state.evaluated
            with MetricsFile(folder.metrics, step=step, evaluated=evaluated) as metrics:
                samples = sample_files(setup, folder.path / "samples.txt", loop.state.step)
                watch = Watch(soundness, loop, samples)
                others = (*listeners, *watchers(setup), *_trackers(config, out))
                loop.listeners = [metrics, *samples, *others, watch]
                for warning in warnings:
                    loop.warn(warning)
                if loop.state.step == 0:
                    watch.before()
                return _run(loop, setup, folder, soundness)


def _run(loop: Loop, setup: Setup, folder: RunFolder, soundness: RunChecks) -> Run:
    interrupt = Interrupt()
    folder.note(status="running", sound=not soundness.unsound, unsound=soundness.unsound)
    if loop.state.step == 0:
        # after the checks, which must not touch the weights; of those that the seed decides
        drawn = {n: w for n, w in initial_weights(setup.model).items() if n not in setup.origin.taken}
        folder.note(initial=drawn, epoch_batches=len(loop.loader))
    with interrupt.heard():
        reason = loop.run(interrupt)
    state = loop.state
    metric = setup.task.metrics[0]
    best = {"step": state.best_step, "metric": metric, "value": state.best_score}
    status = "interrupted" if reason == "interrupted" else "finished"
    unsound = soundness.unsound
    folder.note(status=status, reason=reason, step=state.step, best=best, error="")
    parameters = sum(p.numel() for p in setup.model.parameters())
    folder.note(parameters=parameters, flops=state.flops, tokens=state.tokens, seconds=state.seconds)
    told = failures(soundness.findings)
    folder.note(sound=not unsound, unsound=unsound, failures=told, trace=state.trace.record)
    collapsed = collapse_told(one for one in soundness.findings if one.when == "after")
    return Run(folder.path, reason, state, setup, interrupt.signal, tuple(unsound), tuple(told), collapsed)


def _loop(setup: Setup, folder: RunFolder) -> Loop:
    config, settings = setup.config, setup.config.training
    device = device_of(settings.device)
    model = setup.model.to(device)
    if settings.gradient_checkpointing:
        recompute_blocks(model)
    if settings.compile:
        model.trunk.compile(dynamic=True)
    autocast = autocast_of(settings.precision, device)
    loader = in_order(setup)
    features = _features(setup, loader, autocast, folder.path)
    return Loop(
        model=model,
        task=setup.task,
        loader=loader,
        features=features,
        evaluate=_evaluator(setup, device, autocast, folder.path),
        evaluate_train=_train_evaluator(setup, features, device, autocast),
        optimizer=Optimizers(OPTIMIZERS.build(settings.optimizer), model),
        schedule=SCHEDULES.build(settings.schedule),
        settings=settings,
        checkpoints=folder.checkpoints,
        failure=Failure(folder.path, folder.checkpoints),
        seed=config.seed,
        autocast=autocast,
        device=device,
    )


def _evaluator(setup: Setup, device: torch.device, autocast: Any, folder: Path) -> Evaluator | None:
    config = setup.config
    if config.training.evaluate_every == "never" or "dev" not in setup.dataset.splits.names:
        return None
    chosen = {"batches": config.training.evaluate_batches, "device": device, "autocast": autocast}
    found = evaluator_of(config, setup.dataset, setup.model, setup.task, "dev", **chosen)
    return replace(found, features=_features(setup, setup.dataset.scored("dev"), autocast, folder))


def _train_evaluator(
    setup: Setup, features: FeaturesOf, device: torch.device, autocast: Any
) -> Evaluator | None:
    """Where dev is scored by epoch, the first batches of train are scored with it, in eval mode and with a
    stream of their own: curves of both then mean the same."""
    config, splits = setup.config, setup.dataset.splits.names
    if config.training.evaluate_every != "epoch" or "dev" not in splits:
        return None
    chosen = {"device": device, "autocast": autocast, "features": features}
    found = evaluator_of(config, setup.dataset, setup.model, setup.task, "train", **chosen)
    return replace(found, batches=min(TRAIN_BATCHES, len(setup.dataset.scored("dev").plan(0))))


def _features(setup: Setup, loader: Loader, autocast: Any, folder: Path) -> FeaturesOf:
    """Of a trunk that stays as it is, what it makes of each text is computed once."""
    if not keeps_features(setup.model, setup.task):
        return unknown
    return Features(setup.model, setup.task, loader, autocast, folder)


def _reading_again(evaluator: Evaluator | None) -> Evaluator | None:
    """The evaluator for checks, which go by the whole model and by other batches."""
    return None if evaluator is None else replace(evaluator, features=unknown)


def _restored(loop: Loop, folder: RunFolder) -> list[str]:
    """Go on from the last sound checkpoint, where there is one; gives what was wrong with later ones."""
    messages: list[str] = []
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


def default_cache() -> Path:
    """Where tokenised text is kept between runs."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "attnlab"
