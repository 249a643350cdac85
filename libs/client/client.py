"""The two clients, with and without asyncio: they carry out what `calls` and `following` decide."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Self, TypeVar, Unpack

import httpx

from .calls import Ask, Calls, Pause, Retried, Steps, path_of
from .following import Follower, Update
from .outcomes import Outcome, VoteMembers, Voter
from .pending_votes import MemoryStore, PendingVote, VoteStore
from .service_clock import ServiceClock

T = TypeVar("T")
PATIENCE_S: Final = 60.0
MOST_LISTED: Final = 100


class _Base:
    """What both clients share.

    `url` is the API's. Without an `api_key` only `follow` works. `store` keeps votes that are not answered yet, by
    default in memory. `patience_s`, also infinite, bounds every call but `follow`; `retried` is called after each
    attempt without a final answer. Tests replace the others, the outside world.
    """

    def __init__(
        self, url: str, api_key: str | None, store: VoteStore | None, patience_s: float,
        retried: Retried, clock: Callable[[], float], draw: Callable[[], float],
    ) -> None:  # fmt: skip
        self.store: VoteStore = MemoryStore() if store is None else store
        self._calls = Calls(self.store, patience_s, retried, clock, draw)
        self._time = ServiceClock(clock)
        self._clock, self._draw = clock, draw
        self._is_keyed = api_key is not None
        headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        self._options: dict[str, Any] = {"base_url": url.rstrip("/"), "headers": headers}

    def service_time(self) -> datetime | None:
        """Return the service's time by its latest answer, None before the first; count down by no other clock."""
        return self._time.now()

    def _follower(self, contest: str, receipt: str | None) -> Follower:
        return Follower(contest, receipt, self._is_keyed, self._time, self._clock, self._draw)


def _request(ask: Ask) -> dict[str, Any]:
    headers = {} if ask.content is None else {"Content-Type": ask.media_type}
    params = ask.params or None
    return {"params": params, "content": ask.content, "headers": headers, "timeout": ask.timeout_s}


def _counts_params(sources: bool, min_position: Sequence[str]) -> dict[str, Any]:
    return {"sources": "true" if sources else None, "min_position": list(min_position) or None}


class Client(_Base):
    """A client whose calls block. Threads may share it."""

    def __init__(
        self, url: str, api_key: str | None = None, *, store: VoteStore | None = None,
        patience_s: float = PATIENCE_S, retried: Retried = lambda _: None,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep, clock: Callable[[], float] = time.monotonic,
        draw: Callable[[], float] = random.random,
    ) -> None:  # fmt: skip
        super().__init__(url, api_key, store, patience_s, retried, clock, draw)
        self._http = httpx.Client(transport=transport, **self._options)
        self._sleep = sleep

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def vote(self, contest: str, **vote: Unpack[VoteMembers]) -> Outcome:
        """Cast a vote, a rating or a ballot; it is stored first, and counts once.

        Give it the `vote_id` of your own record of the voter's action. Without one, a vote that equals another
        which is still undecided is that one. Raises `StoreFull`.
        """
        return self._run(self._calls.vote(contest, vote))

    def vote_batch(self, contest: str, votes: Iterable[VoteMembers]) -> list[Outcome]:
        """Cast any number of votes, at most 10,000 and 8 MiB a request; outcomes are in their order.

        Equal votes are several votes. Raises `StoreFull`.
        """
        return self._run(self._calls.cast_all(contest, votes))

    def resume(self, vote: PendingVote) -> Outcome:
        """Go on with an undecided vote."""
        return self._run(self._calls.cast(vote))

    def resume_all(self) -> list[Outcome]:
        """Go on with all stored votes, in batches: call it after a start."""
        return self._run(self._calls.resume_all())

    def get(self, path: str, **params: Any) -> Any:
        """Return the JSON of any read of the API.

        All calls from here on raise `ApiError` if refused, and `NoAnswer`.
        """
        return self._run(self._calls.read(path, **params))

    def recorded_vote(self, contest: str, vote_id: str, **voter: Unpack[Voter]) -> Any:
        """Return a recorded vote with its status and receipt; `not_found` means that it is not recorded."""
        return self._run(self._calls.read(path_of(contest, "votes", vote_id), **voter))

    def votes(self, contest: str, *, next: str | None = None, **voter: Unpack[Voter]) -> Any:
        """Return a page of a voter's votes, newest first."""
        return self._run(self._calls.read(path_of(contest, "votes"), **voter, limit=MOST_LISTED, next=next))

    def allowance(self, contest: str, **voter: Unpack[Voter]) -> Any:
        """Return what a voter has used and has left."""
        return self._run(self._calls.read(path_of(contest, "allowance"), **voter))

    def remove(self, contest: str, vote_id: str, **voter: Unpack[Voter]) -> str | None:
        """Remove a free vote; returns the position of the removal."""
        return self._run(self._calls.remove(contest, vote_id, voter))

    def counts(self, contest: str, *, sources: bool = False, min_position: Sequence[str] = ()) -> Any:
        """Return the vote count record, which includes what has the given positions."""
        return self._run(
            self._calls.read(path_of(contest, "vote_updates"), **_counts_params(sources, min_position))
        )

    def report(self, contest: str, source: str, report: Mapping[str, Any]) -> Any:
        """Report counts of an external source, with a `report_id` that you have stored."""
        return self._run(self._calls.report(contest, source, report))

    def follow(self, contest: str, *, receipt: str | None = None) -> Iterator[Update]:
        """Yield each new state of a contest for as long as it exists; reconnects after any end of the stream.

        With a key the counts of the API, without one the public results; a vote's `receipt` shows those that are
        hidden until then. Raises `ApiError` where connecting again does not help.
        """
        follower = self._follower(contest, receipt)
        while not follower.is_over:
            try:
                with self._http.stream("GET", follower.path, **follower.options()) as reply:
                    if not reply.is_success:
                        reply.read()
                    for chunk in reply.iter_bytes() if follower.accepts(reply) else ():
                        yield from follower.feed(chunk)
                        if follower.is_over:
                            return
            except httpx.UnsupportedProtocol:
                raise
            except httpx.RequestError:
                pass
            yield from follower.lost()
            self._sleep(follower.pause())

    def _run(self, steps: Steps[T]) -> T:
        reply = None
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as done:
                result: T = done.value
                return result
            reply = self._perform(step)

    def _perform(self, step: Ask | Pause) -> httpx.Response | None:
        if isinstance(step, Pause):
            self._sleep(step.seconds)
            return None
        sent = self._clock()
        try:
            reply = self._http.request(step.method, step.path, **_request(step))
        except httpx.UnsupportedProtocol:
            raise
        except httpx.RequestError:
            return None
        self._time.hear(reply.headers.get("date"), sent)
        return reply


class AsyncClient(_Base):
    """The same calls for asyncio; a store is called on the event loop."""

    def __init__(
        self, url: str, api_key: str | None = None, *, store: VoteStore | None = None,
        patience_s: float = PATIENCE_S, retried: Retried = lambda _: None,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep, clock: Callable[[], float] = time.monotonic,
        draw: Callable[[], float] = random.random,
    ) -> None:  # fmt: skip
        super().__init__(url, api_key, store, patience_s, retried, clock, draw)
        self._http = httpx.AsyncClient(transport=transport, **self._options)
        self._sleep = sleep

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def vote(self, contest: str, **vote: Unpack[VoteMembers]) -> Outcome:
        """See `Client`, as for all calls. A vote whose call is cancelled stays stored."""
        return await self._run(self._calls.vote(contest, vote))

    async def vote_batch(self, contest: str, votes: Iterable[VoteMembers]) -> list[Outcome]:
        return await self._run(self._calls.cast_all(contest, votes))

    async def resume(self, vote: PendingVote) -> Outcome:
        return await self._run(self._calls.cast(vote))

    async def resume_all(self) -> list[Outcome]:
        return await self._run(self._calls.resume_all())

    async def get(self, path: str, **params: Any) -> Any:
        return await self._run(self._calls.read(path, **params))

    async def recorded_vote(self, contest: str, vote_id: str, **voter: Unpack[Voter]) -> Any:
        return await self._run(self._calls.read(path_of(contest, "votes", vote_id), **voter))

    async def votes(self, contest: str, *, next: str | None = None, **voter: Unpack[Voter]) -> Any:
        return await self._run(self._calls.read(path_of(contest, "votes"), **voter, limit=MOST_LISTED, next=next))

    async def allowance(self, contest: str, **voter: Unpack[Voter]) -> Any:
        return await self._run(self._calls.read(path_of(contest, "allowance"), **voter))

    async def remove(self, contest: str, vote_id: str, **voter: Unpack[Voter]) -> str | None:
        return await self._run(self._calls.remove(contest, vote_id, voter))

    async def counts(self, contest: str, *, sources: bool = False, min_position: Sequence[str] = ()) -> Any:
        params = _counts_params(sources, min_position)
        return await self._run(self._calls.read(path_of(contest, "vote_updates"), **params))

    async def report(self, contest: str, source: str, report: Mapping[str, Any]) -> Any:
        return await self._run(self._calls.report(contest, source, report))

    async def follow(self, contest: str, *, receipt: str | None = None) -> AsyncIterator[Update]:
        follower = self._follower(contest, receipt)
        while not follower.is_over:
            try:
                async with self._http.stream("GET", follower.path, **follower.options()) as reply:
                    if not reply.is_success:
                        await reply.aread()
                    if follower.accepts(reply):
                        async for chunk in reply.aiter_bytes():
                            for update in follower.feed(chunk):
                                yield update
                            if follower.is_over:
                                return
            except httpx.UnsupportedProtocol:
                raise
            except httpx.RequestError:
                pass
            for update in follower.lost():
                yield update
            await self._sleep(follower.pause())

    async def _run(self, steps: Steps[T]) -> T:
        reply = None
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as done:
                result: T = done.value
                return result
            reply = await self._perform(step)

    async def _perform(self, step: Ask | Pause) -> httpx.Response | None:
        if isinstance(step, Pause):
            await self._sleep(step.seconds)
            return None
        sent = self._clock()
        try:
            reply = await self._http.request(step.method, step.path, **_request(step))
        except httpx.UnsupportedProtocol:
            raise
        except httpx.RequestError:
            return None
        self._time.hear(reply.headers.get("date"), sent)
        return reply
