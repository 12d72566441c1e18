"""`python -m attnlab.web.model_worker ROOT`: answers requests, a JSON line each, with JSON lines.

It holds at most one model, that of the run that was asked last. Own code of runs is never imported here: a
run that needs some is answered with the sentence that says so.
"""

from __future__ import annotations

import json
import math
import os
import sys
import threading
import traceback
from collections.abc import Callable, Generator, Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from attnlab.config.registry import locate
from attnlab.config.values import ConfigError, unknown_name
from attnlab.runs.checkpoints import Checkpoints
from attnlab.runs.faults import RunError
from attnlab.runs.record import RECORD
from attnlab.web.actions import ACTIONS
from attnlab.web.worker_request import WorkerRequest, fault_sentence

if TYPE_CHECKING:
    from attnlab.session.trained import Trained

Line = dict[str, Any]
NICER = 5
"""How much later than others a worker gets the processor: a training next to it goes first."""


class OpenModel:
    """The model of the run that was asked last, until another one is asked or its files change."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._key: object = None
        self._trained: Trained | None = None

    def __call__(self, folder: Path) -> Trained:
        key = self._key_of(folder)
        if self._trained is None or key != self._key:
            self._trained = None  # before the next is read: there is room for one
            refuse_links(folder, self.root)
            from attnlab.session.trained import Trained

            self._trained, self._key = Trained.at(folder), key
        return self._trained

    @staticmethod
    def _key_of(folder: Path) -> object:
        record = folder / RECORD
        changed = record.stat().st_mtime_ns if record.is_file() else 0
        return folder, changed, tuple(Checkpoints.of(folder).steps())


def refuse_links(folder: Path, root: Path) -> None:
    """Stop where a file of a run is a link that leads outside the folder that is served."""
    for path in folder.rglob("*"):
        if path.is_symlink() and not path.resolve().is_relative_to(root.resolve()):
            raise ConfigError(
                f"{path.relative_to(folder)} of this run is a link out of the folder that is served; it is "
                "not read."
            )


def answer(request: Mapping[str, Any], root: Path, models: OpenModel, send: Callable[[Line], None]) -> None:
    """Answer one request: its parts, then `done` or `error`. A person's mistake is a sentence; anything else
    is a fault, whose traceback goes to stderr."""
    number = request["id"]
    try:
        if request["action"] not in ACTIONS:
            raise unknown_name("The worker's actions", request["action"], ACTIONS)
        folder = None if request["folder"] is None else Path(request["folder"])
        asked = WorkerRequest(root, folder, request["values"], models)
        result = locate(ACTIONS[request["action"]])(asked)
        if isinstance(result, Generator):
            result = streamed(result, lambda part: send({"id": number, "part": part}))
        send({"id": number, "done": result})
    except MemoryError:
        send({"id": number, "error": NO_MEMORY})
    except (RunError, ValueError) as error:
        send({"id": number, "error": str(error)})
    except OSError as error:
        name = Path(str(error.filename or "A file")).name
        send({"id": number, "error": f"{name} cannot be read: {error.strerror or error}."})
    except Exception as error:
        if "can't allocate memory" in str(error):
            send({"id": number, "error": NO_MEMORY})
            return
        traceback.print_exc()
        send({"id": number, "error": fault_sentence(error), "fault": True})


NO_MEMORY = "There is not enough memory for this. Give less text, or use a smaller model."


def streamed(parts: Generator[Line, None, Line], send: Callable[[Line], None]) -> Line:
    """Send parts as they come; gives what ends them."""
    while True:
        try:
            send(next(parts))
        except StopIteration as ended:
            result: Line = ended.value
            return result


def plain(value: Any) -> Any:
    """What JSON has: a number that is none is null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def line_of(message: Line) -> str:
    return json.dumps(plain(message), allow_nan=False) + "\n"


def main() -> None:
    """Requests until stdin ends. Nothing but answers is written to stdout: whatever prints goes to stderr.

    Both are taken from Python's own streams: a process that is forked closes sys.stdin, and would wait for
    ever for the thread that reads it here.
    """
    root = Path(sys.argv[1])
    asked, answers = os.fdopen(os.dup(0), encoding="utf-8"), os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    os.nice(NICER)

    def send(message: Line) -> None:
        answers.write(line_of(message))
        answers.flush()

    requests: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=read_requests, args=(asked, requests), daemon=True).start()
    models = OpenModel(root)
    while True:
        answer(json.loads(requests.get()), root, models, send)


def read_requests(asked: TextIO, requests: SimpleQueue[str]) -> NoReturn:
    """Read while requests are worked on, so that the process ends with the server, whatever it is doing."""
    for line in asked:
        requests.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
