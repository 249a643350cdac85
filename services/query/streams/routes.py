"""The paths of the streams, and what the OpenAPI document says of them."""

from collections.abc import Callable
from typing import Final

from fastapi.sse import EventSourceResponse

from libs.web.asgi_routes import StreamRoute
from libs.web.openapi import COMPONENT, Schema, answers, needs, parameter, problems
from services.query.routes import ReceiptOfVote, SourcesFlag
from services.query.streams.endpoints import CountStream, PublicStream

LAST_EVENT_ID: Final = parameter(
    "Last-Event-ID",
    "header",
    "The `id` that was heard last: where it still holds, what it names is not sent again.",
)
EVENTS: Final = """
Server-sent events. First `phase`, and again whenever any of it changes: `{"phase", "start", "end", "final",
"sealed", "hidden", "server_time"}`, where `hidden` says that the counts are not shown to this caller now. Then
`%s`: its data is what the plain read answers, its `id` the version (the ETag without quotes); again whenever it
changes, ten times a second at most, the latest wins. `stale` says since when nobody can tell whether that still
holds; once somebody can, all is said anew. `gone` ends the stream of a contest that was deleted. A stream that
just ends may be opened again.
"""
EVENT: Final[Schema] = {
    COMPONENT: "schemas/StreamEvent",
    "description": "One event of the stream.",
    "type": "object",
    "required": ["event", "data"],
    "properties": {
        "event": {"type": "string", "description": "Its kind."},
        "data": {"type": "string", "contentMediaType": "application/json", "description": "What its kind says."},
        "id": {"type": "string", "description": "The version, of events that have one."},
    },
}
"""OpenAPI before 3.2 describes of a stream each event."""


def count_stream_route(serve: CountStream, end: Callable[[], None]) -> StreamRoute:
    """What a key's holder follows."""

    def vote_updates_stream(contest_key: str, sources: SourcesFlag = False) -> None:
        pass

    return StreamRoute(
        "/contests/{contest_key}/vote_updates/stream",
        vote_updates_stream,
        serve,
        end,
        methods=["GET"],
        response_class=EventSourceResponse,
        responses=answers("not_found", "validation_failed", success={200: _stream("counts")}),
        openapi_extra=needs("results:read") | {"parameters": [LAST_EVENT_ID]},
        tags=["results"],
        summary="Follow a contest's vote counts",
        description=EVENTS % "counts"
        + "\nWhile the counts are hidden, `results:read_hidden` is needed to be shown them.",
    )


def public_stream_route(serve: PublicStream, end: Callable[[], None]) -> StreamRoute:
    """What voters follow."""

    def public_results_stream(contest_key: str, receipt: ReceiptOfVote = None) -> None:
        pass

    return StreamRoute(
        "/public/contests/{contest_key}/results/stream",
        public_results_stream,
        serve,
        end,
        methods=["GET"],
        response_class=EventSourceResponse,
        responses=problems("not_found", "views_unavailable", "overloaded") | {200: _stream("results")},
        openapi_extra={"parameters": [LAST_EVENT_ID]},
        tags=["results"],
        summary="Follow a contest's public results",
        description=EVENTS % "results" + "\nFor everybody: no key is needed.",
    )


def _stream(name: str) -> Schema:
    example = (
        'retry: 2000\n\nevent: phase\ndata: {"phase":"running","start":"2026-09-01T18:00:00.000000Z","end":null,'
        '"final":false,"sealed":false,"hidden":false,"server_time":"2026-09-01T18:30:00.000000Z"}\n\n'
        f'event: {name}\ndata: {{"contest_key":"...","count":42}}\nid: 5d41402abc4b2a76\n\n'
    )
    content = {"text/event-stream": {"schema": EVENT, "example": example}}
    return {"description": "The stream.", "content": content}
