"""Files of a run that were cut, edited or written by something else: one sentence that names the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attnlab.config.values import ConfigError
from attnlab.runs.run_error import RunError

FAULTS = (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError)
"""What reading a file raises whose content is not what was written: other types, names or bytes."""


@contextmanager
def reading(file: Path) -> Iterator[None]:
    """While a file's content is read and used. A file that is not there is not damaged."""
    try:
        yield
    except (ConfigError, RunError):
        raise  # it says already what is wrong
    except FAULTS as error:
        raise RunError(
            f"{file} is damaged, or not a file of attnlab: {described(error)}. Restore it from a copy, or "
            "remove its folder."
        ) from error


def as_object(held: Any, *parts: str) -> dict[str, Any]:
    """What a file holds, where it is an object with these objects in it."""
    if not isinstance(held, dict):
        raise TypeError(f"it holds a {type(held).__name__}, not an object")
    for part in parts:
        if not isinstance(held[part], dict):
            raise TypeError(f"{part} is a {type(held[part]).__name__}, not an object")
    return held


def described(error: BaseException) -> str:
    """An error in a few words of its own."""
    if isinstance(error, KeyError):
        return f"there is no {error}"
    return " ".join(str(error).split())[:200] or type(error).__name__
