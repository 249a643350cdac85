"""Routes of the streams with their OpenAPI descriptions."""

from collections.abc import Callable
from typing import Annotated, Final

from fastapi import Header
from fastapi.sse import EventSourceResponse
from pydantic import WithJsonSchema

from libs.web.openapi import COMPONENT, Schema, answers, needs, problems
from libs.web.server.asgi_routes import StreamRoute
from services.query.routes import DetailsFlag, ReceiptOfVote, SourcesFlag
from services.query.streams.endpoints import CountStream, PublicStream

LastEventId = Annotated[
    str | None,
    Header(
        alias="Last-Event-ID",
        description="The `id` received last: if that version is still current, it is not sent again.",
    ),
    WithJsonSchema({"type": "string"}),
]
EVENTS: Final = """
Sends server-sent events. The first is `phase`, sent again on every change: `{"phase", "start", "end", "final",
"sealed", "visibility", "hidden", "lag", "server_time"}`. `visibility` is the contest's `vote_visibility`, and
`hidden` is true while this caller may not see the counts. `lag` is `{"records", "seconds"}`: while counting is
late, the events of all contests that wait to be counted, and the time that the oldest has waited; zeros below
2 seconds, null while hidden. Then comes `%s`: its data is the body of the plain read, its `id` the version (the
ETag without quotes). It is sent again on changes, at most ten times a second, always with the latest state.
`stale` has the time since when the data may be outdated; on recovery all events are sent again. `gone` ends the
stream of a deleted contest. A stream that ends without it may be opened again.
"""
DETAILS: Final = """
With `details`, an event `details` comes before the counts, and again on changes: `{"title", "image", "seal",
"participants": {"<key>": {"title", "image", "running_number"}}}`, also while the counts are hidden. With
`sources`, events `counts` then contain the external counts that are held.

While the counts are hidden, only keys with `results:read_hidden` receive them.
"""
EVENT: Final[Schema] = {
    COMPONENT: "schemas/EventStream",
    "type": "string",
    "description": "Server-sent events: lines `event:` with the type, `data:` with a JSON value, and `id:` with "
    "the version where there is one; an empty line ends an event.",
}
"""The schema of the body, which is text: OpenAPI before 3.2 cannot describe its events."""


def count_stream_route(serve: CountStream, end: Callable[[], None]) -> StreamRoute:
    """Return the stream route for callers with a key."""

    def stream_vote_counts(
        contest_key: str,
        sources: SourcesFlag = False,
        details: DetailsFlag = False,
        last_event_id: LastEventId = None,
    ) -> None:
        pass

    return StreamRoute(
        "/contests/{contest_key}/vote_updates/stream",
        stream_vote_counts,
        serve,
        end,
        methods=["GET"],
        response_class=EventSourceResponse,
        responses=answers("not_found", "validation_failed", success={200: _stream("counts")}),
        openapi_extra=needs("results:read"),
        tags=["results"],
        summary="Follow a contest's vote counts",
        description=EVENTS % "counts" + DETAILS,
    )


def public_stream_route(serve: PublicStream, end: Callable[[], None]) -> StreamRoute:
    """Return the public stream route, for voters."""

    def stream_public_results(
        contest_key: str, receipt: ReceiptOfVote = None, last_event_id: LastEventId = None
    ) -> None:
        pass

    return StreamRoute(
        "/public/contests/{contest_key}/results/stream",
        stream_public_results,
        serve,
        end,
        methods=["GET"],
        response_class=EventSourceResponse,
        responses=problems("not_found", "validation_failed", "views_unavailable", "overloaded")
        | {200: _stream("results")},
        tags=["results"],
        summary="Follow a contest's public results",
        description=EVENTS % "results" + "\nPublic: no key is needed.",
    )


def _stream(name: str) -> Schema:
    example = (
        'retry: 2000\n\nevent: phase\ndata: {"phase":"running","start":"2026-09-01T18:00:00.000000Z","end":null,'
        '"final":false,"sealed":false,"visibility":"shown","hidden":false,"lag":{"records":0,"seconds":0},"server_time":"2026-09-01T18:30:00.000000Z"}\n\n'
        f'event: {name}\ndata: {{"contest_key":"...","count":42}}\nid: 5d41402abc4b2a76\n\n'
    )
    content = {"text/event-stream": {"schema": EVENT, "example": example}}
    return {"description": "The stream.", "content": content}
