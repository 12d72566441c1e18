"""What happens in a run, as told to its listeners. A listener is anything that takes an event."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Started:
    """The loop begins, or goes on, at this step. `ends` says which limit will end it, and when."""

    step: int
    parameters: int
    ends: str = ""


@dataclass(frozen=True, kw_only=True)
class Stepping:
    """The step after this one begins. Of the moment only: no file has it."""

    step: int


@dataclass(frozen=True, kw_only=True)
class Stepped:
    """One step of the optimizer. `loss` is the mean over the step's targets, before the update."""

    step: int
    loss: float
    learning_rate: float
    gradient: float
    tokens: int
    flops: int
    seconds: float
    progress: float
    epoch: float
    parts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """A pass over the dev split: `best` where it has the best score so far, `kept` where its checkpoint is
    now the one that is kept. `error` is the standard error of the score that decides. `signatures` say how
    scores were computed that other packages define."""

    step: int
    loss: float
    seconds: float
    best: bool
    scores: Mapping[str, float] = field(default_factory=dict)
    kept: bool = False
    error: float = 0.0
    signatures: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Saved:
    """A checkpoint was written."""

    step: int
    seconds: float
    place: str


@dataclass(frozen=True, kw_only=True)
class Warned:
    """Something a person should know, that does not stop the run."""

    step: int
    message: str


@dataclass(frozen=True, kw_only=True)
class Checking:
    """Checks begin, or so many of them are done."""

    step: int
    done: int = 0
    of: int = 0


@dataclass(frozen=True, kw_only=True)
class Checked:
    """Checks were made: their names and outcomes, and what they cost."""

    step: int
    outcomes: Mapping[str, str]
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Ended:
    """The loop is over: by "budget", "patience" or "interrupted"."""

    step: int
    reason: str


Event = Started | Stepping | Stepped | Evaluated | Saved | Warned | Checking | Checked | Ended
Listener = Callable[[Event], None]
