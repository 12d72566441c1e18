"""One input of the soak: a command, its arguments, and what it is asked with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any


@dataclass(frozen=True)
class Input:
    """A command and its arguments; `call` is a function of calls.py that stands for one."""

    argv: tuple[Any, ...]
    call: str = ""
    about: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


Maker = Callable[[Random, Path, Path], Input]
"""From random numbers, the folder of the sound files, and an empty folder to work in."""


def usable(text: str) -> bool:
    """Whether a process can be given it at all: arguments end at a NUL, and are bytes."""
    try:
        return "\0" not in text and bool(text.encode("utf-8"))
    except UnicodeEncodeError:
        return False
