# /// script
# requires-python = ">=3.11"
# dependencies = ["sse-starlette==3.7.0", "starlette==1.10.0", "uvicorn[standard]==0.54.0"]
# ///
"""Counts to subscribers with sse-starlette: each listener has a generator that yields its events.

As its README writes it: an `EventSourceResponse` over an async generator, woken by a condition; uvicorn with
uvloop and httptools. Arguments: port, the record with `"count":0,`.
"""

import asyncio
import sys
from collections.abc import AsyncIterator

import uvicorn
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

PORT, TEMPLATE = sys.argv[1:]


class Latest:
    """The newest count, and a condition that wakes all listeners."""

    count = 0
    changed = asyncio.Condition()


async def events() -> AsyncIterator[ServerSentEvent]:
    seen = -1
    while True:
        async with Latest.changed:
            while Latest.count == seen:
                await Latest.changed.wait()
            seen = Latest.count
        record = TEMPLATE.replace('"count":0,', f'"count":{seen},', 1)
        yield ServerSentEvent(record, event="counts", id=str(seen), sep="\n")


async def stream(request: Request) -> EventSourceResponse:
    return EventSourceResponse(events())


async def say(request: Request) -> Response:
    Latest.count = int(request.query_params["count"])
    async with Latest.changed:
        Latest.changed.notify_all()
    return Response()


if __name__ == "__main__":
    app = Starlette(routes=[Route("/stream", stream), Route("/say", say, methods=["POST"])])
    uvicorn.run(app, port=int(PORT), log_config=None, backlog=4096)
