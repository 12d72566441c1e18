"""A run as it goes: what is prepared and checked, then step, loss, tokens per second and time left."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path

import torch

from attnlab.config.schema import Config
from attnlab.documents.nodes import Inline, Tone, toned
from attnlab.documents.numbers import duration
from attnlab.evaluation.word_frequencies import split_frequencies
from attnlab.runs.display import Display, redraws
from attnlab.runs.events import Checked, Checking, Evaluated, Event, Started, Stepped, Warned
from attnlab.runs.findings import mark
from attnlab.runs.folder import RunFolder
from attnlab.runs.record import read_record
from attnlab.session.prompt_watch import PromptWatch
from attnlab.session.session import Session, default_cache, step_flops
from attnlab.session.training import Run, train
from attnlab.training.machine import cores, device_of, peak_flops, threads_for_step
from attnlab.training.strategies.own_processes import current

KEPT = 0.95
"""Of what was seen before: a few dozen steps decide the speed that is shown."""


def displayed_session(
    display: Display, config: Config, folder: Path, *, resume: bool = False, threads: int = 0
) -> Session:
    """A session whose text is shown as it is read, with the threads that its run in `folder` computes with;
    0: by rule."""
    session = Session(config, cache=default_cache(), progress=display.preparing)
    if current().first:
        RunFolder(folder).refuse_taken(resume=resume)
    display.say(use_threads(session, folder, resume=resume, threads=threads) + processes_sentence(config))
    display.work("Reading the text")
    return session


def train_displayed(
    display: Display,
    session: Session,
    folder: Path,
    *,
    resume: bool = False,
    allow: Collection[str] = (),
    watch: str | None = None,
    expected: float | None = None,
) -> Run:
    """Train as `train` does, and show it; `watch` is a prompt that is continued after 1, 10, 100, … steps,
    `expected` the seconds of its training, where they are known."""
    shown = RunDisplay(display, session, resume=resume, expected=expected)
    watched = [] if watch is None else [PromptWatch(session, folder, watch, display.say)]
    return train(session, folder, resume=resume, listeners=[shown, *watched], allow=allow)


def use_threads(session: Session, folder: Path, *, resume: bool, threads: int = 0) -> str:
    """Set the number of threads; gives what to say of it. The run records it: its last bits depend on it.

    As a person says, as the run was begun, as the environment says, or by the size of its steps.
    """
    run = RunFolder(folder)
    begun = read_record(folder).get("versions", {}).get("threads") if resume and run.exists else None
    if threads:
        why = "as asked"
    elif begun is not None and begun <= cores():
        threads, why = begun, "as when it began"
    elif "OMP_NUM_THREADS" in os.environ:
        threads, why = torch.get_num_threads(), "by OMP_NUM_THREADS"
    else:
        processes = current()
        flops = step_flops(session.config, session.draft) / processes.world
        threads = threads_for_step(flops, processes=processes.local_world)
        of_process = " of each process" if processes.world > 1 else ""
        why = f"by the size of a step{of_process}, {flops / 1e9:,.2g} GFLOP"
    torch.set_num_threads(threads)
    return f"Threads: {threads} of {cores()} cores ({why})."


def processes_sentence(config: Config) -> str:
    """How many processes train together, where there are several, and how."""
    processes = current()
    if processes.world == 1:
        return ""
    parts = f"share the {config.training.accumulate} parts of a step"
    return f" {processes.world} processes {parts} (training.strategy {config.training.strategy})."


def time_left_sentence(training: float, checks: float) -> str:
    """How long a run takes from its first step on: checks after training take about as long as before."""
    parts = f"{duration(training)} of training at most, and about {duration(checks)} of checks after it"
    return f"Expected time from here: {duration(training + checks)} ({parts})."


class RunDisplay:
    """A listener that shows a run's events. `metric` decides which checkpoint is kept, and `expected` are the
    seconds of its training, where they are known."""

    def __init__(self, display: Display, session: Session, *, resume: bool, expected: float | None = None):
        self.display, self.session, self.resume, self.expected = display, session, resume, expected
        self.metric = session.config.training.deciding(session.draft_task.metrics)
        self.device, self.counted = session.config.training.device, not session.draft_task.predicts_words
        self.peak = self.seconds = self.tokens = self.flops = 0.0

    def __call__(self, event: Event) -> None:
        if isinstance(event, Checking):
            self.check(event)
        elif isinstance(event, Started):
            self.start(event)
        elif isinstance(event, Stepped):
            self.step(event)
        elif isinstance(event, Evaluated):
            self.display.say(evaluated_line(event, self.metric))
            self.say_counted()
        elif isinstance(event, Checked):
            self.display.say(checks_line(event.outcomes, event.seconds))
            if not event.step and self.expected is not None:
                self.display.say(time_left_sentence(self.expected, event.seconds))
        elif isinstance(event, Warned):
            self.display.say(toned(Tone.WARNING, "Warning:"), f" {event.message}")

    def say_counted(self) -> None:
        """After the first dev loss of words, what counting them gives: a model has to get below it."""
        if self.counted:
            return
        self.counted, batches = True, self.session.config.training.evaluate_batches
        losses = split_frequencies(
            self.session.dataset, "dev", self.session.evaluator("dev", batches=batches)
        ).losses
        named = " and ".join(f"{one.loss:.4f} ({name})" for name, one in losses.items())
        self.display.say(f"Counting words of the training text gives dev losses of {named}.")

    def check(self, event: Checking) -> None:
        text = "Checking" if event.step else "Checking the run before its first step"
        if event.done:
            self.display.update(f"{text}, {event.done} of {event.of} checks done", event.done / event.of)
        else:
            self.display.work(text)

    def start(self, event: Started) -> None:
        self.display.say(f"{event.parameters:,} parameters. {event.ends}")
        if self.resume and event.step:
            self.display.say(f"Resuming from step {event.step:,}.")
        elif self.resume:
            self.display.say("No checkpoint was saved: starting from step 0.")
        if self.display.shown and redraws(self.display.console):
            self.peak = peak_flops(device_of(self.device))
            self.display.say(f"The machine's matrix-product peak is {self.peak / 1e9:,.0f} GFLOP/s.")
        self.display.work("Training")

    def step(self, event: Stepped) -> None:
        self.seconds = KEPT * self.seconds + event.seconds
        self.tokens = KEPT * self.tokens + event.tokens
        self.flops = KEPT * self.flops + event.flops
        rate = self.tokens / self.seconds
        share = f" ({self.flops / self.seconds / self.peak:.0%} of peak)" if self.peak else ""
        status = f"step {event.step:,}, loss {event.loss:.3f}, {rate:,.0f} tokens/s{share}"
        self.display.update(status if self.peak else f"{status}, {event.progress:.0%} done", event.progress)


def evaluated_line(event: Evaluated, metric: str) -> str:
    """One line on a pass over dev; behind the score that decides, whether its checkpoint is kept."""
    mark = " (best)" if event.best else " (as good as the best)" if event.kept else ""

    def measure(name: str, number: str) -> str:
        return f"{name} {number}{mark}" if name == metric else f"{name} {number}"

    numbers = {
        name: f"{score:,}" if isinstance(score, int) else f"{score:,.4g}"
        for name, score in event.scores.items()
    }
    loss = measure("loss", f"{event.loss:.4f}")
    return f"step {event.step:,}: dev " + ", ".join([loss, *map(measure, numbers, numbers.values())])


def checks_line(outcomes: Mapping[str, str], seconds: float) -> Inline:
    """One line on checks that were made, with what they cost."""
    named = [
        (", " if place else "", mark(outcome), f" {name}")
        for place, (name, outcome) in enumerate(outcomes.items())
    ]
    return (f"Checks ({seconds:.1f} s): ", *named)
