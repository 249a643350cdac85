"""A service in simulated time, behind a network that loses answers and cuts streams."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any, Final

import httpx

from libs.client import AsyncClient, Client, MemoryStore, VoteStore

LIMIT: Final = 3
"""Votes of one voter for one participant."""
BEGIN: Final = datetime(2026, 9, 1, 18, 0, 0, 250_000, UTC).timestamp()
PROXY_PAGE: Final = "<h1>Log in to the hotel's network</h1>"

Answer = tuple[int, dict[str, Any], dict[str, str]]


@dataclass
class Attempt:
    """A vote as it arrived."""

    at: float
    vote: dict[str, Any]
    least_s: float
    """The `Retry-After` of the answer."""


@dataclass
class World:
    """Time, the network's next faults, and the service: it counts each id of a voter once, up to `LIMIT`.

    A fault is "before" (the request is lost), "after" (its answer is), "page" (somebody else answers) or a status;
    without any the service answers.
    """

    faults: Iterator[str | int | None] = field(default_factory=lambda: iter(()))
    streams: Iterator[Sequence[bytes | str]] = field(default_factory=lambda: iter(()))
    retry_after: int = 0
    store: VoteStore = field(default_factory=MemoryStore)
    now: float = 1_000.0
    counted: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    requests: list[httpx.Request] = field(default_factory=list)
    opened: list[float] = field(default_factory=list)
    """Times at which streams were opened."""

    @property
    def time(self) -> datetime:
        """The service's clock."""
        return datetime.fromtimestamp(BEGIN + self.now, UTC)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def answer(self, request: httpx.Request) -> httpx.Response:
        """Answer a request, or fail as the network does."""
        self.requests.append(request)
        self.now += 0.01
        if request.url.path.endswith("/stream"):
            return self._stream(request)
        fault = next(self.faults, None)
        votes = self._votes_of(request)
        least = self.retry_after if isinstance(fault, int) else 0
        self.attempts += [Attempt(self.now, vote, least) for vote in votes]
        assert {vote["vote_id"] for vote in votes} <= {vote.vote_id for vote in self.store.all()}, (
            "sent, not stored"
        )
        if fault == "before":
            raise httpx.ConnectError("no way", request=request)
        if fault == "page":
            return httpx.Response(200, html=PROXY_PAGE)
        if isinstance(fault, int):
            return self._refuse(fault)
        answer = self._served(request, votes)
        if fault == "after":
            self.now += request.extensions["timeout"]["read"]
            raise httpx.ReadTimeout("silence", request=request)
        return self._respond(*answer)

    def _votes_of(self, request: httpx.Request) -> list[dict[str, Any]]:
        if request.method != "POST" or "/votes" not in request.url.path:
            return []
        return [json.loads(line) for line in request.content.splitlines()]

    def _served(self, request: httpx.Request, votes: list[dict[str, Any]]) -> Answer:
        if not votes:
            return 200, {"asked": str(request.url)}, {}
        answers = [self._cast(vote) for vote in votes]
        if request.url.path.endswith("/batch"):
            results = [{**body, "status": status} for status, body in answers]
            return 200, {"results": results}, {"Tally-Position": "batch"}
        status, body = answers[0]
        return status, body, {"Tally-Position": "p"} if status < 400 else {}

    def _cast(self, vote: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        name = vote["voter_id"], vote["vote_id"]
        accepted = {"vote_id": vote["vote_id"], "status": "accepted", "receipt": f"r {vote['vote_id']}"}
        if name in self.counted:
            return 200, accepted
        if "participant_key" not in vote:
            return 422, {"code": "validation_failed", "detail": "Whom?", "vote_id": vote["vote_id"]}
        of_voter = [each for (voter, _), each in self.counted.items() if voter == vote["voter_id"]]
        if sum(each["participant_key"] == vote["participant_key"] for each in of_voter) >= LIMIT:
            data = {"limit": LIMIT, "used": LIMIT, "vote_id": vote["vote_id"]}
            return 409, {"code": "participant_limit_reached", "detail": "That was the last one.", **data}
        self.counted[name] = vote
        return 201, accepted

    def _refuse(self, status: int) -> httpx.Response:
        code = {401: "unauthorized", 403: "forbidden"}.get(status, "overloaded")
        return self._respond(status, {"code": code}, {"Retry-After": str(self.retry_after)})

    def _respond(self, status: int, body: Any, headers: dict[str, str]) -> httpx.Response:
        date = format_datetime(self.time.replace(microsecond=0), usegmt=True)
        return httpx.Response(status, json=body, headers={"Date": date, **headers})

    def _stream(self, request: httpx.Request) -> httpx.Response:
        self.opened.append(self.now)
        pieces = next(self.streams)
        if pieces and isinstance(pieces[0], str) and pieces[0].isdecimal():
            return self._refuse(int(pieces[0]))
        if pieces and pieces[0] == "unreachable":
            raise httpx.ConnectError("no way", request=request)
        if pieces and pieces[0] == "page":
            return httpx.Response(200, html=PROXY_PAGE)
        return httpx.Response(
            200, headers={"Content-Type": "text/event-stream"}, stream=Pieces(self, request, pieces)
        )

    def phase(self, **members: Any) -> bytes:
        """Return a `phase` event of now."""
        data = {"phase": "running", "hidden": False, "server_time": self.time.isoformat(), **members}
        return f"event: phase\ndata: {json.dumps(data)}\n\n".encode()


class Pieces(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A stream's bytes; "break", "silence" for ever, and "wait" are what happens in between."""

    def __init__(self, world: World, request: httpx.Request, pieces: Sequence[bytes | str]) -> None:
        self._world, self._request, self._pieces = world, request, pieces

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            if piece == "break":
                raise httpx.ReadError("cut", request=self._request)
            if piece == "silence":
                patience = self._request.extensions["timeout"]["read"]
                assert patience is not None, "waits for ever"
                self._world.now += patience
                raise httpx.ReadTimeout("silence", request=self._request)
            if piece == "wait":
                self._world.now += 10
            elif piece == "phase":
                yield self._world.phase()
            else:
                assert isinstance(piece, bytes)
                yield piece

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self:
            yield chunk


class Caller:
    """A client of a world, of either kind; calls and updates are the same for both."""

    def __init__(
        self, world: World, is_async: bool, draw: Callable[[], float] = lambda: 0.5, **options: Any
    ) -> None:
        async def sleep(seconds: float) -> None:
            world.sleep(seconds)

        async def answer(request: httpx.Request) -> httpx.Response:
            return world.answer(request)

        shared = {"store": world.store, "clock": lambda: world.now, "draw": draw, "api_key": "tk", **options}
        self.client: Any = (
            AsyncClient("http://api", transport=httpx.MockTransport(answer), sleep=sleep, **shared)
            if is_async
            else Client("http://api", transport=httpx.MockTransport(world.answer), sleep=world.sleep, **shared)
        )

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **members: Any) -> Any:
            found = getattr(self.client, name)(*arguments, **members)
            if name == "follow":
                return collected(found)
            return asyncio.run(found) if asyncio.iscoroutine(found) else found

        return call


def collected(updates: Any) -> list[Any]:
    if hasattr(updates, "__aiter__"):

        async def collect() -> list[Any]:
            return [update async for update in updates]

        return asyncio.run(collect())
    return list(updates)
