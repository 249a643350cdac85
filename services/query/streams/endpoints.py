"""Stream endpoints of `vote_updates` and `results`, as bare ASGI, with the permissions of the plain reads."""

from starlette.types import Receive, Scope, Send

from libs.web.auth import Authenticator, require
from libs.web.query_parameters import refuse_unknown_parameters
from services.query.public_results import PublicResults, receipt_of
from services.query.snapshot_cache import SnapshotCache
from services.query.streams.hub import StreamHub
from services.query.streams.keyless_quota import KeylessQuota
from services.query.streams.renderers import KeyView, PublicView
from services.query.vote_updates import flags


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


class PublicStream:
    """Streams the public results, without a key."""

    def __init__(self, results: PublicResults, streams: StreamHub, quota: KeylessQuota) -> None:
        self._quota = quota
        self._results = results
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refuse_unknown_parameters(scope)
        contest, receipt = scope["path_params"]["contest_key"], receipt_of(scope["query_string"])
        snapshot = await self._results.published(contest)
        view = PublicView(receipt is not None and await self._results.admits(contest, receipt))
        with self._quota.taken(scope):
            await self._streams.serve(scope, receive, send, snapshot, view, is_keyed=False)
