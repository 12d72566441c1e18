"""Small cases for checks: a healthy one for every task, and the ways to break it."""

from __future__ import annotations

import functools
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from attnlab.checks import CHECKS
from attnlab.checks.check import Case
from attnlab.config.schema import Config
from attnlab.runs.findings import Finding
from attnlab.session.setup import Setup, initial_model, set_up
from attnlab.tasks import TASKS
from tests.training import small_run

WORDS = [name for name in TASKS if TASKS[name].target.of_words]
"""The tasks that predict words."""


@functools.cache
def shared() -> Path:
    """The small corpus, which tests only read."""
    return Path(tempfile.mkdtemp(prefix="attnlab-checks-"))


def config(task: str = "causal", **changes: Any) -> Config:
    return small_run.config(shared(), **small_run.merged(small_run.for_task(task, shared()), changes))


@functools.cache
def made(task: str) -> Setup:
    return set_up(config(task))


def case(task: str = "causal", *, when: str = "before", **facts: Any) -> Case:
    """A healthy case whose model may be broken: it is built anew."""
    setup = made(task)
    return of(replace(setup, model=initial_model(setup)), when=when, **facts)


def of(setup: Setup, *, when: str = "before", **facts: Any) -> Case:
    parts = {"initial": partial(initial_model, setup)} | facts
    return Case(
        when=when,  # type: ignore[arg-type]
        config=setup.config,
        model=setup.model,
        task=setup.task,
        dataset=setup.dataset,
        **parts,
    )


def found(check: str, about: Case) -> Finding:
    return CHECKS.build(check).run(about)
