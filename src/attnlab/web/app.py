"""The server: every view's routes behind one guard."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator
from importlib import import_module
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException

from attnlab import __version__
from attnlab.config.values import ConfigError
from attnlab.documents.markup import element
from attnlab.runs.faults import RunError
from attnlab.web.addresses import NotServedError
from attnlab.web.laboratory import Laboratory
from attnlab.web.security import App, Door, Guard
from attnlab.web.shell import ShellPage, static_file
from attnlab.web.worker_pool import WorkerError
from attnlab.web.worker_request import fault_sentence

VIEWS = ("home", "starting", "run", "compare", "study", "parts", "new_run", "ask", "try_it", "inside")
EVENTS = {"cache-control": "no-store", "x-accel-buffering": "no"}


def create_app(laboratory: Laboratory, door: Door) -> App:
    """Everything that is served, behind its guard."""
    return Guard(create_routes(laboratory), door)


def create_routes(laboratory: Laboratory) -> FastAPI:
    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        watching = asyncio.create_task(laboratory.live.run())
        reading = asyncio.create_task(asyncio.to_thread(read_first, laboratory))
        try:
            yield
        finally:
            watching.cancel()
            reading.cancel()
            await laboratory.workers.close()

    app = FastAPI(
        title="attnlab",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
    )
    app.state.laboratory = laboratory
    _add_errors(app)

    @app.get("/static/{name}", include_in_schema=False)
    def static(name: str) -> Response:
        file = static_file(name)
        if file is None:
            raise HTTPException(404, f'There is no file "{name}".')
        return Response(file[0], media_type=file[1], headers={"cache-control": "max-age=60"})

    @app.get("/events/{topic:path}", response_class=StreamingResponse)
    async def events(topic: str, request: Request, after: str = "") -> Response:
        """What changes on a page, as server-sent events: regions by their names."""
        known = laboratory.live.topics.get(topic)
        if known is None:
            raise HTTPException(404, f'Nobody looked at "{topic}" yet: open its page.')
        begun = request.headers.get("last-event-id") or after
        return StreamingResponse(
            laboratory.live.events(known, begun), media_type="text/event-stream", headers=EVENTS
        )

    for view in VIEWS:
        app.include_router(import_module(f"attnlab.web.views.{view}").routes(laboratory))
    return app


def read_first(laboratory: Laboratory) -> None:
    """Read every run. What stays is not looked through again for garbage, which would hold up all answers."""
    laboratory.index.refresh()
    gc.collect()
    gc.freeze()


def _add_errors(app: FastAPI) -> None:
    """A person's mistake is one sentence: a page for a browser, JSON for a script."""

    async def answer(request: Request, status: int, sentence: str) -> Response:
        sentence = sentence.encode("utf-8", "replace").decode()  # half of a character is in no answer
        if "text/html" not in request.headers.get("accept", ""):
            return JSONResponse({"error": sentence}, status)
        title = "Not found" if status == 404 else "This cannot be shown"
        body = element("p", element("a", "All runs", href="/"))
        page = ShellPage(title=title, headline=sentence, eyebrow=title, body=body)
        return HTMLResponse(page.html(), status)

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        return await answer(request, error.status_code, str(error.detail))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return await answer(request, 422, _sentence(error.errors()))

    @app.exception_handler(ConfigError)
    async def mistake(request: Request, error: ConfigError) -> Response:
        return await answer(request, 404 if isinstance(error, NotServedError) else 400, str(error))

    @app.exception_handler(RunError)
    async def failed(request: Request, error: RunError) -> Response:
        return await answer(request, 400, str(error))

    @app.exception_handler(OSError)
    async def unusable(request: Request, error: OSError) -> Response:
        name = Path(str(error.filename or "A file of the folder")).name
        return await answer(request, 400, f"{name[:100]} cannot be used: {error.strerror or error}.")

    @app.exception_handler(WorkerError)
    async def worker(request: Request, error: WorkerError) -> Response:
        return await answer(request, 400, str(error))

    @app.exception_handler(Exception)
    async def fault(request: Request, error: Exception) -> Response:
        return await answer(request, 500, fault_sentence(error))


def _sentence(errors: Any) -> str:
    """What was wrong with a request, in words."""
    wrong = [f"{'.'.join(map(str, one['loc'][1:])) or one['loc'][0]}: {one['msg']}" for one in errors]
    return f"The request cannot be read: {'; '.join(wrong)}."
