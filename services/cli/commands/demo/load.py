"""The simulated voters at work: each sends its ballot until it is told what became of it."""

import asyncio
import random
import time
from typing import Any, Final

import httpx
import orjson

from services.cli.commands.demo.results import AcceptedResults
from services.cli.commands.demo.voters import Ballot, VoterPopulation

MOST_IN_FLIGHT: Final = 200
BATCH: Final = 20
BATCH_SHARE: Final = 0.1
"""Of all votes come from one client that sends batches."""
BROKEN_LINE: Final = b'{"participant_key": 7}'
JSON: Final = {"content-type": "application/json"}
NDJSON: Final = {"content-type": "application/x-ndjson"}


class VoterLoad:
    """Votes at `rate` a second, with pauses as people make them, until told to stop."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        contest: str,
        electorate: VoterPopulation,
        books: AcceptedResults,
        rate: float,
    ) -> None:
        self._client = client
        self._path = f"/contests/{contest}/votes"
        self._electorate = electorate
        self._books = books
        self._rate = rate
        self._in_flight: set[asyncio.Task[None]] = set()
        self._give_up_at = float("inf")

    @property
    def waiting(self) -> int:
        """Voters who have not been told yet."""
        return len(self._in_flight)

    async def vote_until(self, stop: asyncio.Event) -> None:
        """Returns when `stop` is set; those who wait for an answer then go on waiting: see `settle`."""
        await asyncio.gather(
            self._arrive(stop, self._rate * (1 - BATCH_SHARE), self._one),
            self._arrive(stop, self._rate * BATCH_SHARE / BATCH, self._batch),
        )

    async def settle(self, timeout_s: float) -> None:
        """Wait until everybody has been told, `timeout_s` at most; who has not by then is in doubt."""
        self._give_up_at = time.monotonic() + timeout_s
        if self._in_flight:
            await asyncio.wait(self._in_flight, timeout=timeout_s + 1)
        await self.leave()

    async def leave(self) -> None:
        """Hang up at once."""
        for task in self._in_flight:
            task.cancel()
        await asyncio.gather(*self._in_flight, return_exceptions=True)

    async def _arrive(self, stop: asyncio.Event, rate: float, act: Any) -> None:
        """One after the other, never making up for a time in which nobody could be served."""
        due = time.monotonic()
        stopped = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                due = max(due + random.expovariate(rate), time.monotonic() - 0.2)
                await asyncio.wait({stopped}, timeout=max(0.0, due - time.monotonic()))
                while len(self._in_flight) >= MOST_IN_FLIGHT and not stop.is_set():
                    await asyncio.wait({stopped, *self._in_flight}, return_when=asyncio.FIRST_COMPLETED)
                if not stop.is_set():
                    task = asyncio.create_task(act())
                    self._in_flight.add(task)
                    task.add_done_callback(self._in_flight.discard)
        finally:
            stopped.cancel()

    async def _one(self) -> None:
        await self._cast(self._electorate.draw())

    async def _cast(self, ballot: Ballot) -> None:
        try:
            answer = await self._insist(self._path, ballot.body, JSON)
        except asyncio.CancelledError:
            self._books.given_up(ballot)
            raise
        if answer is None:
            self._books.given_up(ballot)
        else:
            self._tell(ballot, answer.status_code, _code(answer))

    async def _batch(self) -> None:
        ballots = [self._electorate.draw() for _ in range(BATCH)]
        ballots = [ballot for ballot in ballots if ballot.vote_id]
        lines = [ballot.body for ballot in ballots]
        try:
            answer = await self._insist(f"{self._path}/batch", b"\n".join([*lines, BROKEN_LINE]), NDJSON)
        except asyncio.CancelledError:
            answer = None
        if answer is None or answer.status_code != httpx.codes.OK:
            for ballot in ballots:
                self._books.given_up(ballot)
            return
        results = answer.json()["results"]
        self._books.refusals[results.pop()["code"]] += 1
        again = []
        for ballot, result in zip(ballots, results, strict=True):
            if result["status"] >= 500:
                self._books.again(result["code"])
                again.append(ballot)
            else:
                self._tell(ballot, result["status"], result.get("code", ""))
        for ballot in again:
            await self._cast(ballot)

    def _tell(self, ballot: Ballot, status: int, code: str) -> None:
        if self._books.told(ballot, status, code):
            self._electorate.accepted(ballot)

    async def _insist(self, path: str, body: bytes, headers: dict[str, str]) -> httpx.Response | None:
        """Send again, with the same vote ids, until there is a final answer; None when time is up."""
        while True:
            pause_s = 0.5
            began = time.monotonic()
            try:
                answer = await self._client.post(path, content=body, headers=headers)
            except httpx.TransportError:
                self._books.again("no_answer")
            else:
                self._books.answered(time.monotonic() - began)
                if answer.status_code < 500 and answer.status_code != httpx.codes.TOO_MANY_REQUESTS:
                    return answer
                self._books.again(_code(answer))
                pause_s = _seconds(answer.headers.get("retry-after"), pause_s)
            pause_s *= random.uniform(1.0, 1.5)  # noqa: S311
            if time.monotonic() + pause_s > self._give_up_at:
                return None
            await asyncio.sleep(pause_s)


def _code(answer: httpx.Response) -> str:
    """The problem's code, or else the status."""
    if answer.is_success:
        return ""
    try:
        return str(orjson.loads(answer.content)["code"])
    except (ValueError, KeyError, TypeError):
        return f"http_{answer.status_code}"


def _seconds(text: str | None, otherwise: float) -> float:
    try:
        return min(5.0, max(0.1, float(text or otherwise)))
    except ValueError:
        return otherwise
