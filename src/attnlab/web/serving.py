"""From a folder and an address to a server that answers."""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from attnlab.config.values import ConfigError
from attnlab.web.app import create_app
from attnlab.web.laboratory import Laboratory
from attnlab.web.security import Door

LOGGER = logging.getLogger("uvicorn.error")
"""On stderr, where the server's own warnings go: what workers say of faults."""


BACKLOG = 128
"""Connections that wait to be taken up; of each that cannot be, a line is logged."""
SILENT = 10.0
"""Seconds in which a connection has to ask for something."""
SWITCH = 0.0005
"""Seconds after which a thread that makes a page lets the one go on that sends what is ready: it would
otherwise wait 5 ms for each piece that it sends."""


@contextmanager
def bound(host: str, port: int) -> Iterator[tuple[socket.socket, Door]]:
    """A socket that listens there, and the door that is behind it."""
    kind = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(kind, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
            listening.listen(BACKLOG)  # whoever comes before the server is ready waits, and is not refused
        except OSError as error:
            raise ConfigError(
                f"{host}:{port} cannot be listened on: {error.strerror or error}. Give another --port (0: "
                "any that is free), or another --host."
            ) from None
        yield listening, Door.at(host, listening.getsockname()[1])


def serve_on(listening: socket.socket, door: Door, folder: Path, *, memory: int) -> None:
    """Answer until Ctrl-C."""
    sys.setswitchinterval(SWITCH)
    open_more_files()
    laboratory = Laboratory.at(folder, memory=memory, log=LOGGER.warning)
    settings = uvicorn.Config(
        create_app(laboratory, door),
        http=PromptProtocol,
        backlog=BACKLOG,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
        timeout_keep_alive=15,
        h11_max_incomplete_event_size=1 << 16,
        ws="none",
    )
    with suppress(KeyboardInterrupt):  # uvicorn raises it again once it has ended
        EndingServer(settings, laboratory).run(sockets=[listening])


def open_more_files() -> None:
    """As many as the system allows: each viewer is an open file."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class PromptProtocol(H11Protocol):
    """Ends a connection that has asked for nothing after a while: whoever has no token could hold all."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.loop.call_later(SILENT, self._end_silence)

    def _end_silence(self) -> None:
        asked = getattr(self, "cycle", None)  # None before the first whole request
        if asked is None and not self.transport.is_closing():
            self.transport.close()


class EndingServer(uvicorn.Server):
    """Ends the streams of events before it waits for what is still answered: they would never end."""

    def __init__(self, settings: uvicorn.Config, laboratory: Laboratory):
        super().__init__(settings)
        self.laboratory = laboratory
        self._crowded_at = -SILENT

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(self._log_fault)
        await super().startup(sockets)

    def _log_fault(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """That there are more connections than the system allows is said now and then, not of each."""
        error = context.get("exception")
        if not (isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)):
            loop.default_exception_handler(context)
        elif loop.time() - self._crowded_at > SILENT:
            self._crowded_at = loop.time()
            LOGGER.warning("There are more connections than this system allows; the newest have to wait.")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.laboratory.live.close()
        await super().shutdown(sockets)
