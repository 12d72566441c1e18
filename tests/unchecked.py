"""Runs without their checks, or with a few: all of them take three times as long as a small training.

That checks change nothing of a run has tests of its own (tests/checks/test_recipe.py, the goldens).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from attnlab.checks import CHECKS
from attnlab.checks.check import Case, run_checks
from attnlab.runs.findings import Finding


@contextmanager
def checked_by(*names: str) -> Iterator[None]:
    """Runs are checked by these checks alone."""
    with pytest.MonkeyPatch.context() as patch:
        only_checks(patch, *names)
        yield


def only_checks(patch: pytest.MonkeyPatch, *names: str) -> None:
    """The same, until the patch is undone."""

    def some(case: Case, only: Sequence[str] = ()) -> list[Finding]:
        due = [name for name in only or names if name in names and case.when in CHECKS[name].when]
        return run_checks(case, due) if due else []

    patch.setattr("attnlab.session.soundness.run_checks", some)
    if "replayed_step" not in names:
        patch.setattr("attnlab.checks.step_replay.StepReplay.before", lambda replay: None)
