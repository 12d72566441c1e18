"""A run by several processes of this machine: what each of them is asked for, and what is refused before."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from attnlab.config.files import to_json
from attnlab.config.imports import code_of
from attnlab.config.schema import Config
from attnlab.config.values import ConfigError
from attnlab.runs.folder import RunFolder
from attnlab.session.session import Session
from attnlab.training.strategies import strategy_of
from attnlab.training.strategies.launcher import Shown, launch
from attnlab.training.strategies.processes import Processes


@dataclass(frozen=True)
class RunRequest:
    """A run that `attnlab train` is asked for."""

    config: Config
    folder: Path
    resume: bool = False
    allow: tuple[str, ...] = ()
    watch: str | None = None
    threads: int = 0
    json: bool = False

    def words(self, file: Path) -> list[str]:
        """The command that trains it, with its config in a file."""
        options = {"--out": self.folder, "--watch": self.watch, "--threads": self.threads or None}
        words = ["train", str(file)]
        words += [word for name, value in options.items() if value is not None for word in (name, str(value))]
        words += [word for name in self.allow for word in ("--allow", name)]
        words += ["--resume"] if self.resume else []
        words += ["--json"] if self.json else []
        own = [word for code in code_of(self.config) for word in ("--import", code["file"])]
        return [*words, *own]


class Planned(Processes):
    """Processes that are not there yet."""

    def __init__(self, world: int):
        self.world = world


def launch_run(
    request: RunRequest,
    *,
    processes: int,
    restarts: int = 0,
    tell: Callable[[str], None],
    shown: Shown = "all",
) -> int:
    """Train in so many processes; gives the exit code of the first."""
    Session(request.config)  # refuses what cannot work
    strategy_of(request.config.training.strategy, Planned(processes)).refuse(request.config.training)
    RunFolder(request.folder).refuse_taken(resume=request.resume)
    for code in code_of(request.config):
        if not code["file"] or code["module"] == "__main__":
            raise ConfigError(
                f"{processes} processes do not know the parts of {code['module']}, which they cannot import; "
                "define them in a file of their own, and import it (attnlab train --import FILE)."
            )
    with TemporaryDirectory() as folder:
        file = Path(folder) / f"{request.folder.name}.json"
        file.write_text(json.dumps(to_json(request.config)))
        words = request.words(file)
        return launch(words, processes=processes, restarts=restarts, tell=tell, shown=shown)
