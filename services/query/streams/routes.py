"""Routes of the streams with their OpenAPI descriptions."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Final

from fastapi import Header
from fastapi.sse import EventSourceResponse
from starlette.types import Receive, Scope, Send

from libs.catalogue.contests.wall_links import NO_LINK, Viewers
from libs.contracts.catalogue_events import ApiKey
from libs.tally.errors import Overloaded
from libs.telemetry.metrics import HTTP_REFUSALS
from libs.web.documents.openapi import COMPONENT, Schema, needs, problems
from libs.web.door.auth import Authenticator, require
from libs.web.door.client_address import Proxies
from libs.web.door.query_parameters import refuse_unknown_parameters
from libs.web.errors import Unauthorized
from libs.web.server.asgi_routes import StreamRoute
from services.query.public_results import PublicResults, receipt_of
from services.query.routes import DetailsFlag, ReceiptOfVote, SourcesFlag
from services.query.snapshot_cache import SnapshotCache
from services.query.streams.hub import StreamHub
from services.query.streams.renderers import KeyView, PublicView, ScreenView
from services.query.vote_updates import flags

TRY_AGAIN_S = 10
REFUSED = HTTP_REFUSALS.labels("streams")


class StreamQuota:
    """Bounds the open streams of one process with the same name, such as an address or a contest."""

    def __init__(self, most: int, too_many: str) -> None:
        """`too_many` is the message for further ones."""
        self._most = most
        self._too_many = too_many
        self._open: Counter[str] = Counter()

    @contextmanager
    def taken(self, name: str = "") -> Iterator[None]:
        """Count a stream while the context is open. Raises `Overloaded` if the limit is reached."""
        if self._open[name] >= self._most:
            REFUSED.inc()
            raise Overloaded(self._too_many, retry_after_s=TRY_AGAIN_S)
        self._open[name] += 1
        try:
            yield
        finally:
            self._open[name] -= 1
            if not self._open[name]:
                del self._open[name]


class CountStream:
    """Streams the vote count record to callers with a key. While they may not see it, only phases are sent."""

    def __init__(self, auth: Authenticator, snapshots: SnapshotCache, streams: StreamHub) -> None:
        self._auth = auth
        self._snapshots = snapshots
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        key = self._auth.known(scope) or await self._auth.authenticate(scope)
        require(key, "results:read")
        by_source, details = flags(scope["query_string"])
        view = KeyView(by_source, details, "results:read_hidden" in key.permissions)
        snapshot = await self._snapshots.get(key.account, scope["path_params"]["contest_key"])
        await self._streams.serve(scope, receive, send, snapshot, view, is_keyed=True)


MOST_PER_CONTEST: Final = 50
"""Screens that links of one contest open in one process, apart from the streams of voters in the same hall."""
MOST_PER_LINK: Final = 20
"""Those of one link, so that one that has leaked leaves room for others. Addresses are not counted: all screens of
a hall have the same."""


class ScreenStream:
    """Streams what the screens of a contest show, to callers with a key or a link."""

    def __init__(self, viewers: Viewers, snapshots: SnapshotCache, streams: StreamHub) -> None:
        self._viewers = viewers
        self._snapshots = snapshots
        self._streams = streams
        self._by_link = StreamQuota(MOST_PER_LINK, "This link has too many screens open.")
        self._by_contest = StreamQuota(MOST_PER_CONTEST, "Links of this contest have too many screens open.")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        contest = scope["path_params"]["contest_key"]
        refuse_unknown_parameters(scope)
        viewer = await self._viewers.authenticate(scope)
        if isinstance(viewer, ApiKey):
            require(viewer, "results:read")
            await self._serve(scope, receive, send, viewer.account, ScreenView(is_linked=False))
            return
        if viewer.contest != contest:
            raise Unauthorized(NO_LINK)
        with self._by_link.taken(viewer.link), self._by_contest.taken(contest):
            await self._serve(scope, receive, send, viewer.account, ScreenView(is_linked=True))

    async def _serve(self, scope: Scope, receive: Receive, send: Send, account: str, view: ScreenView) -> None:
        snapshot = await self._snapshots.get(account, scope["path_params"]["contest_key"])
        await self._streams.serve(scope, receive, send, snapshot, view, is_keyed=True)


class PublicStream:
    """Streams the public results, without a key."""

    def __init__(
        self, results: PublicResults, streams: StreamHub, most: int, most_per_address: int, proxies: Proxies
    ) -> None:
        self._all = StreamQuota(most, "Too many streams are open.")
        self._by_address = StreamQuota(most_per_address, "This address has too many streams open.")
        self._proxies = proxies
        self._results = results
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refuse_unknown_parameters(scope)
        contest, receipt = scope["path_params"]["contest_key"], receipt_of(scope["query_string"])
        snapshot = await self._results.published(contest)
        view = PublicView(receipt is not None and await self._results.admits(contest, receipt))
        with self._by_address.taken(self._proxies.network(scope)), self._all.taken():
            await self._streams.serve(scope, receive, send, snapshot, view, is_keyed=False)


LastEventId = Annotated[
    str | None,
    Header(
        alias="Last-Event-ID",
        description="The `id` received last: if that version is still current, it is not sent again.",
    ),
]
EVENTS: Final = """
Sends server-sent events. The first is `phase`, sent again on every change: `{"phase", "start", "end", "final",
"sealed", "visibility", "result_release", "hidden", "is_public", "is_counting", "held_final", "show", "lag",
"updated", "server_time"}`.
`visibility` is the contest's `vote_visibility`, `result_release` its member of the same name. `hidden` is true
while this caller may not see the counts, and `is_public` while the public may. `is_counting` is false while the
log does not respond: no vote is accepted or counted then. `show` is what screens show, as `GET
/contests/<key>/show` returns it; without a key its call to vote is empty until it is shown. `held_final` is
true if the counts that it holds or reveals are those of the final result. `lag` is `{"records", "seconds"}`:
while counting is late, the events of all contests that wait to be counted, and the time that the oldest has
waited; zeros below 2 seconds, null while hidden. `updated` is the last change to the contest's records, such as
titles, pictures, order or statuses. Then comes `%s`: its data is the body of the plain read, its `id` the
version (the ETag without quotes). It is sent again on changes, at most ten times a second, always with the
latest state. `stale` has the time since when the data may be outdated; on recovery all events are sent again.
`gone` ends the stream of a deleted contest. A stream that ends without it may be opened again.
"""
DETAILS: Final = """
With `details`, an event `details` comes before the counts, and again on changes: `{"title", "image", "seal",
"corrections", "running_order": ["<key>"], "participants": {"<key>": {"title", "image", "color",
"running_number", "number_string"}}}`, also while the counts are hidden. With
`sources`, events `counts` then contain the external counts that are held.

While the counts are hidden, only keys with `results:read_hidden` receive them.
"""
SCREENS: Final = """
An event `details` comes before the board, and again on changes. The board is `{"held_at", "final", "updated",
"count", "unique_voter_count", "anonymous_voter_count", "covered", "participants": [{"participant_key", "rank",
"count", "unique_voter_count", "share"}]}`, best first. What it contains follows the show: present counts (`live`,
`result`), those of `held_at` (`held`), or of these only the places that are revealed, while `covered` counts the
participants of all others and the sums are null (`reveal`). If the show `reveals` points, these places have
`points` in place of counts, and the sums stay null. While the public may not see the counts, `live` and `held`
send none, whatever the key may see.

In place of a key, the header `Tally-Link` may have the token of a link of the contest. A link opens at most 20
screens, and names no participants where `participant_visibility` is `owner_only`.
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
        responses={200: _stream("counts"), **problems("not_found")},
        openapi_extra=needs("results:read"),
        tags=["results"],
        summary="Follow a contest's vote counts",
        description=EVENTS % "counts" + DETAILS,
    )


LinkToken = Annotated[
    str | None, Header(alias="Tally-Link", description="The part of a link's address after `#link=`.")
]


def screen_stream_route(serve: ScreenStream, end: Callable[[], None]) -> StreamRoute:
    """Return the stream route for the screens of a show."""

    def stream_show(contest_key: str, tally_link: LinkToken = None, last_event_id: LastEventId = None) -> None:
        pass

    return StreamRoute(
        "/contests/{contest_key}/show/stream",
        stream_show,
        serve,
        end,
        methods=["GET"],
        response_class=EventSourceResponse,
        responses={200: _stream("board"), **problems("not_found", "overloaded")},
        openapi_extra=needs("results:read"),
        tags=["results"],
        summary="Follow what the screens of a contest show",
        description=EVENTS % "board" + SCREENS,
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
        'retry: 2000\nevent: phase\ndata: {"phase":"running","start":"2026-09-01T18:00:00.000000Z","end":null,'
        '"final":false,"sealed":false,"visibility":"shown","result_release":"at_end","hidden":false,"is_public":true,"is_counting":true,"held_final":false,"show":{"state":"live","held_at":null,"revealed":0,"reveals":"counts","is_released":false,"released_at":null,'
        '"call_to_vote":{"is_shown":false,"url":null,"text":null},"message":null},"lag":{"records":0,"seconds":0},"updated":"2026-09-01T17:30:00.000000Z","server_time":"2026-09-01T18:30:00.000000Z"}\n\n'
        f'event: {name}\ndata: {{"contest_key":"...","count":42}}\nid: 5d41402abc4b2a76\n\n'
    )
    content = {"text/event-stream": {"schema": EVENT, "example": example}}
    return {"description": "The stream.", "content": content}
