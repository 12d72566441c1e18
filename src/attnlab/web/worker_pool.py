"""Processes that open models and answer questions about them, each with a limit of time and of memory."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

from attnlab.documents.numbers import duration

LONGEST_LINE = 96 * 2**20
"""Bytes of one part of an answer."""
LOOK = 0.5
"""Seconds between two looks at the memory of a process."""
FAREWELL = 2.0
"""Seconds that a process has to end by itself when the pool closes."""


class WorkerError(Exception):
    """A question without an answer, in a sentence for the person who asked. `fault`: ours, not the
    person's."""

    def __init__(self, sentence: str, *, fault: bool = False):
        super().__init__(sentence.encode("utf-8", "replace").decode())  # half of a character is in no answer
        self.fault = fault


class WorkerPool:
    """Up to `workers` processes for the folder `root`; each answers one question at a time.

    A question may take `seconds`, and its process `memory` bytes; a process that is not asked for `idle`
    seconds ends. What workers print goes to `log`, line by line.
    """

    def __init__(
        self,
        root: Path,
        *,
        workers: int = 2,
        seconds: float = 60,
        memory: int = 4 * 2**30,
        idle: float = 600,
        log: Callable[[str], None] = lambda line: None,
    ):
        self.root, self.most, self.seconds, self.memory = root, workers, seconds, memory
        self.idle, self.log = idle, log
        self._workers: list[ModelWorker] = []
        self._leaving: set[asyncio.Task[None]] = set()
        self._free = asyncio.Semaphore(workers)
        self._closed = False

    @property
    def processes(self) -> list[int]:
        """The ids of the processes that there are."""
        return [worker.process.pid for worker in self._workers]

    async def ask(
        self, action: str, folder: Path | None = None, values: Mapping[str, Any] | None = None
    ) -> AsyncGenerator[dict[str, Any]]:
        """The parts of an answer as they come, each {"part": …}, and last {"done": …}.

        Whoever stops listening (contextlib.aclosing) ends the work.
        """
        await self._wait()
        try:
            worker = await self._worker(folder)
            try:
                answers = worker.answers(action, folder, values or {}, self.seconds, self.memory)
                async with aclosing(answers):
                    async for message in answers:
                        yield message
            finally:
                worker.busy = False
                if worker.asking:  # in the middle of an answer: what it still says is for nobody
                    worker.kill()
                if worker.killed:
                    self._remove(worker)
                else:
                    worker.rest(self.idle, lambda: self._retire(worker))
        finally:
            self._free.release()

    async def answer(
        self, action: str, folder: Path | None = None, values: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The end of an answer, for actions without parts."""
        done: dict[str, Any] = {}
        async for message in self.ask(action, folder, values):
            done = message.get("done", done)
        return done

    async def close(self) -> None:
        """End all processes: at once those that are idle, and the others after a moment."""
        self._closed = True
        for worker in list(self._workers):
            self._retire(worker)
        await asyncio.gather(*self._leaving)

    async def _wait(self) -> None:
        if self._closed:
            raise WorkerError("The server is ending.")
        try:
            async with asyncio.timeout(self.seconds):
                await self._free.acquire()
        except TimeoutError:
            raise WorkerError(
                f"The laboratory is busy: {self.most} questions are being answered, and none ended in "
                f"{duration(self.seconds)}. Ask again in a while."
            ) from None

    async def _worker(self, folder: Path | None) -> ModelWorker:
        """A process that is free: one that has the run open, else one without a run, a new one, or that which
        was asked least recently."""
        for worker in [w for w in self._workers if not w.busy and w.process.returncode is not None]:
            self._remove(worker)
        free = sorted((w for w in self._workers if not w.busy), key=lambda worker: worker.used)
        fitting = [w for w in free if folder is None or w.folder == folder]
        empty = [w for w in free if w.folder is None]
        chosen = next(iter([*fitting, *empty]), None)
        if chosen is None and len(self._workers) >= self.most:
            chosen = free[0]
        if chosen is None:
            chosen = ModelWorker(self.log)
            chosen.busy = True
            self._workers.append(chosen)
            try:
                await chosen.start(self.root)
            except BaseException:
                self._workers.remove(chosen)
                raise
        chosen.busy = True
        return chosen

    def _remove(self, worker: ModelWorker) -> None:
        """Forget a process that has ended, or is about to."""
        if worker not in self._workers:
            return
        self._workers.remove(worker)
        leaving = asyncio.get_running_loop().create_task(worker.ended(FAREWELL))
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)

    def _retire(self, worker: ModelWorker) -> None:
        worker.dismiss()
        self._remove(worker)


class ModelWorker:
    """One process. `asking` while it works on a question, `folder` the run that it has open."""

    process: asyncio.subprocess.Process

    def __init__(self, log: Callable[[str], None]):
        self.log = log
        self.folder: Path | None = None
        self.used = time.monotonic()
        self.busy = self.asking = self.killed = False
        self._number = 0
        self._retirement: asyncio.TimerHandle | None = None
        self._memory_passed = 0

    async def start(self, root: Path) -> None:
        command = [sys.executable, "-m", "attnlab.web.model_worker", str(root)]
        pipe = asyncio.subprocess.PIPE
        self.process = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, stderr=pipe, limit=LONGEST_LINE, start_new_session=True
        )
        self._logging = asyncio.create_task(self._log())

    async def _log(self) -> None:
        assert self.process.stderr is not None
        with suppress(ValueError):  # a line without an end
            async for line in self.process.stderr:
                self.log(line.decode("utf-8", "replace").rstrip("\n"))

    async def answers(
        self, action: str, folder: Path | None, values: Mapping[str, Any], seconds: float, memory: int
    ) -> AsyncGenerator[dict[str, Any]]:
        """The messages of one question, up to its end."""
        if self._retirement is not None:
            self._retirement.cancel()
        self.folder = self.folder if folder is None else folder
        self.asking, self._memory_passed = True, 0
        self._number += 1
        request = {
            "id": self._number,
            "action": action,
            "folder": folder and str(folder),
            "values": dict(values),
        }
        watch = asyncio.create_task(self._watch_memory(memory))
        deadline = time.monotonic() + seconds
        try:
            self._write(request)
            while True:
                message = await self._message(deadline, seconds, memory)
                if "error" in message:
                    self.asking = False
                    raise WorkerError(message["error"], fault=bool(message.get("fault")))
                self.asking = "done" not in message
                yield {name: value for name, value in message.items() if name != "id"}
                if not self.asking:
                    return
        finally:
            watch.cancel()

    def _write(self, request: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request).encode() + b"\n")

    async def _message(self, deadline: float, seconds: float, memory: int) -> dict[str, Any]:
        """The next line. A process that takes too long, or too much, is ended."""
        assert self.process.stdout is not None
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                line = await self.process.stdout.readline()
        except TimeoutError:
            self.kill()
            raise WorkerError(
                f"This took longer than {duration(seconds)}, the limit of a question, and was stopped. Give "
                "less text, or use the command line, which has no limit."
            ) from None
        except ValueError:
            self.kill()
            raise WorkerError(
                f"The answer is larger than {LONGEST_LINE // 2**20} MB, the limit of the page. Give less "
                "text, or use the command line."
            ) from None
        if line:
            message: dict[str, Any] = json.loads(line)
            return message
        self.kill()
        if self._memory_passed:
            raise WorkerError(
                f"This took more than {memory / 2**30:.3g} GB of memory, the limit of a question, and was "
                "stopped. Give less text, or use the command line, which has no limit."
            )
        code = await self.process.wait()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        raise WorkerError(f"The process that held the model ended ({how}); ask again.", fault=True)

    async def _watch_memory(self, most: int) -> None:
        while True:
            if (used := resident_bytes(self.process.pid)) > most:
                self._memory_passed = used
                self.kill()
                return
            await asyncio.sleep(LOOK)

    def rest(self, idle: float, retire: Callable[[], None]) -> None:
        """Wait for the next question, and not for ever."""
        self.used = time.monotonic()
        self._retirement = asyncio.get_running_loop().call_later(idle, retire)

    def kill(self) -> None:
        self.killed = True
        if self._retirement is not None:
            self._retirement.cancel()
        with suppress(ProcessLookupError):
            self.process.kill()

    def dismiss(self) -> None:
        """Let it end by itself."""
        if self._retirement is not None:
            self._retirement.cancel()
        assert self.process.stdin is not None
        self.process.stdin.close()

    async def ended(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self.process.wait()
        except TimeoutError:
            self.kill()
            await self.process.wait()
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        await asyncio.gather(self.process.stdout.read(), self._logging)


def resident_bytes(process: int) -> int:
    """The memory that a process holds; 0 where that cannot be seen."""
    try:
        pages = Path(f"/proc/{process}/statm").read_text().split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
