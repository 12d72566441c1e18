"""Questions to models and parts: what a worker answers, a JSON object a line, as it comes."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response, StreamingResponse

from attnlab.config.values import unknown_name
from attnlab.web.actions import ACTIONS
from attnlab.web.laboratory import Laboratory
from attnlab.web.worker_pool import WorkerError

LINES = "application/x-ndjson"


def routes(laboratory: Laboratory) -> APIRouter:
    router = APIRouter()

    @router.post("/api/ask/{action}", response_class=StreamingResponse)
    async def part(action: str, values: dict[str, Any]) -> Response:
        """What needs no model: the picture of a mask, the query for some weights, a config's errors."""
        return await answered(laboratory, action, None, values)

    @router.post("/api/ask/{action}/{address:path}", response_class=StreamingResponse)
    async def run(action: str, address: str, values: dict[str, Any]) -> Response:
        """A question to the model of a run."""
        return await answered(laboratory, action, laboratory.model_folder(address), values)

    return router


async def answered(
    laboratory: Laboratory, action: str, folder: Path | None, values: dict[str, Any]
) -> Response:
    """The lines of an answer. What goes wrong before the first is an error of the request."""
    if action not in ACTIONS:
        raise unknown_name("Questions", action, ACTIONS)
    messages = laboratory.workers.ask(action, folder, values)
    try:
        first = await anext(messages)
    except BaseException:
        await messages.aclose()
        raise
    return StreamingResponse(lines(first, messages), media_type=LINES)


async def lines(first: dict[str, Any], messages: AsyncGenerator[dict[str, Any]]) -> AsyncGenerator[str]:
    """Of an answer that has begun. Where the browser goes away, the work ends."""
    async with aclosing(messages):
        yield line(first)
        try:
            async for message in messages:
                yield line(message)
        except WorkerError as error:
            yield line({"error": str(error)})


def line(message: dict[str, Any]) -> str:
    return json.dumps(message, allow_nan=False) + "\n"
