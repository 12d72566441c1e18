"""Small cases for checks: a healthy one for every task, and the ways to break it."""

from __future__ import annotations

import copy
import functools
import tempfile
from pathlib import Path
from typing import Any

from attnlab.checks import CHECKS
from attnlab.checks.check import Case
from attnlab.config.schema import Config
from attnlab.runs.findings import Finding
from attnlab.session.session import Session
from attnlab.tasks import TASKS
from tests.training import small_run
from tests.training.small_run import set_up

WORDS = [name for name in TASKS if TASKS[name].target.of_words]
"""The tasks that predict words."""


@functools.cache
def shared() -> Path:
    """The small corpus, which tests only read."""
    return Path(tempfile.mkdtemp(prefix="attnlab-checks-"))


def config(task: str = "causal", **changes: Any) -> Config:
    return small_run.config(shared(), **small_run.merged(small_run.for_task(task, shared()), changes))


@functools.cache
def made(task: str) -> Session:
    return set_up(config(task))


def case(task: str = "causal", *, when: str = "before", **facts: Any) -> Case:
    """A healthy case whose model may be broken: it is built anew."""
    setup = copy.copy(made(task))
    setup.model = setup.initial_model()
    return of(setup, when=when, **facts)


def of(setup: Session, *, when: str = "before", **facts: Any) -> Case:
    parts = {"initial": setup.initial_model} | facts
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
