"""Answers many commands in one process, forked from a loaded one: a process for each costs more than most.

Reads one JSON list of requests a line: {"argv": […], "said": FILE, "call": "module:function" in place of
the command, "environment": {…} that it has}. Writes {"code": n} for each as it ends, and {"ended": status}
when the process does: one that was killed, hung or took too much memory has answered all requests but those
from the fatal one on.
"""

from __future__ import annotations

import gc
import json
import linecache
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from attnlab import cli
from attnlab.config.registry import locate
from attnlab.config.values import ConfigError
from tests.crash.zygote import load_everything

SECONDS, GIBIBYTES = 60, 6
"""Of processor time for one request, and of memory beside what is loaded: what is sound takes two and one."""
APP = cli.app


def answer(request: dict[str, Any]) -> int:
    """Run one command; what it says is in the file."""
    said = os.open(request["said"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(said, 1)
    os.dup2(said, 2)
    os.close(said)
    limit_time()
    sys.argv = ["attnlab", *request["argv"]]
    called = locate(request["call"]) if request.get("call") else None
    chosen: Any = strictly(called or APP)
    cli.app = (lambda **options: chosen(*request["argv"])) if called else chosen  # type: ignore[assignment]
    code: Any = 0
    before = {name: os.environ[name] for name in request.get("environment", {})}
    os.environ.update(request.get("environment", {}))
    try:
        cli.main()
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc()
        code = 1
    os.environ.update(before)
    sys.stdout.flush()
    sys.stderr.flush()
    return int(code)


def limit_time() -> None:
    """What does not end is ended."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = int(used.ru_utime + used.ru_stime) + SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))
    signal.alarm(10 * SECONDS)  # for what waits without working; a busy machine is given time


def limit_memory() -> None:
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + GIBIBYTES * 2**30,) * 2)


def strictly(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command whose refusals are in words of ours: what a library says of itself is not an answer."""

    def asked(*given: Any, **named: Any) -> Any:
        try:
            return command(*given, **named)
        except ValueError as error:
            if not isinstance(error, ConfigError) and not raised_by_us(error):
                raise AssertionError(f"words of a library: {error}") from error
            raise

    return asked


def raised_by_us(error: BaseException) -> bool:
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    if place is None or f"{os.sep}attnlab{os.sep}" not in place.tb_frame.f_code.co_filename:
        return False
    return linecache.getline(place.tb_frame.f_code.co_filename, place.tb_lineno).strip().startswith("raise")


def serve() -> None:
    torch.set_num_threads(1)
    load_everything()
    gc.collect()
    gc.freeze()  # what is loaded stays in pages that no child copies
    for line in sys.stdin:
        number = os.fork()
        if number == 0:
            answer_all(json.loads(line))
        _, status = os.waitpid(number, 0)
        print(json.dumps({"ended": os.waitstatus_to_exitcode(status)}), flush=True)


def answer_all(requests: list[dict[str, Any]]) -> None:
    told = os.fdopen(os.dup(1), "w")
    limit_memory()
    for request in requests:
        print(json.dumps({"code": answer(request)}), file=told, flush=True)
    os._exit(0)


if __name__ == "__main__":
    serve()
