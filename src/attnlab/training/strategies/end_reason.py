"""Why all processes of a run end: the first one that fails writes it to the store, where the others and the
launcher read it."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch.distributed as dist

from attnlab.runs.faults import RunError

KEY = "reason"

EndKind = Literal["fault", "error", "lost", "interrupted"]
"""A fault is of the run or its settings, an error of the code; lost is a process that does not answer."""


class LostError(RunError):
    """Other processes ended, or do not answer."""

    def __init__(self, message: str, ranks: Sequence[int] = ()):
        super().__init__(message)
        self.ranks = ranks


@dataclass(frozen=True)
class EndReason:
    """What the process of a rank says, and the exit code of all."""

    rank: int
    kind: EndKind
    message: str
    code: int

    @classmethod
    def of_error(cls, error: Exception, rank: int) -> EndReason:
        kind: EndKind = "fault" if isinstance(error, (RunError, ValueError)) else "error"
        message = str(error) or type(error).__name__
        if isinstance(error, LostError):
            kind = "lost"
        elif kind == "error":
            message = f"{type(error).__name__}: {message}"
        return cls(rank, kind, message, 2 if isinstance(error, ValueError) else 1)

    @classmethod
    def read(cls, store: Any) -> EndReason:
        """What a process says; waits for it."""
        return cls(**json.loads(store.get(KEY)))

    @classmethod
    def said(cls, store: Any) -> EndReason | None:
        """The same where one has said it."""
        return cls.read(store) if store.check([KEY]) else None

    def publish(self, store: Any) -> bool:
        """Write it, unless another process was first; gives whether none was."""
        if store.add("ending", 1) > 1:
            return False
        store.set(KEY, json.dumps(asdict(self)))
        if file := os.environ.get("TORCHELASTIC_ERROR_FILE"):  # torchrun shows what it holds
            record = {"message": self.message, "extraInfo": {"timestamp": str(int(time.time()))}}
            with suppress(OSError):
                Path(file).write_text(json.dumps({"message": record}))
        return True


def is_lost(error: BaseException) -> bool:
    """Whether an error is of the connection between processes, and not of this one's own work."""
    if isinstance(error, (LostError, dist.DistError, ConnectionError)):
        return True
    return type(error) is RuntimeError and bool(re.search(r"gloo|nccl|connection|socket", str(error), re.I))
