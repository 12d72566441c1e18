"""A run that could not go on."""

from __future__ import annotations


class RunError(RuntimeError):
    """A failed run, in words for the person who started it: what happened, what is safe, what to do."""


class UnsoundError(RunError):
    """A check failed before the first step."""
