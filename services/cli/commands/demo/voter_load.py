"""Sends the simulated voters' ballots, each until it receives a final response."""

import asyncio
import random
import time
from typing import Any, Final

import httpx
import orjson

from services.cli.commands.demo.voter_responses import AcceptedResults
from services.cli.commands.demo.voters import Ballot, VoterPopulation

MOST_IN_FLIGHT: Final = 200
BATCH: Final = 20
BATCH_SHARE: Final = 0.1
"""Share of the votes that one client sends in batches."""
BROKEN_LINE: Final = b'{"participant_key": 7}'
JSON: Final = {"content-type": "application/json"}
NDJSON: Final = {"content-type": "application/x-ndjson"}


class VoterLoad:
    """Sends `rate` votes per second, with exponentially distributed pauses, until stopped."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        contest: str,
        voters: VoterPopulation,
        results: AcceptedResults,
        rate: float,
    ) -> None:
        self._client = client
        self._path = f"/contests/{contest}/votes"
        self._voters = voters
        self._results = results
        self._rate = rate
        self._in_flight: set[asyncio.Task[None]] = set()
        self._give_up_at = float("inf")

    @property
    def waiting(self) -> int:
        """Number of requests without a final response."""
        return len(self._in_flight)

    async def vote_until(self, stop: asyncio.Event) -> None:
        """Send votes until `stop` is set; requests then in flight go on: see `settle`."""
        await asyncio.gather(
            self._arrive(stop, self._rate * (1 - BATCH_SHARE), self._one),
            self._arrive(stop, self._rate * BATCH_SHARE / BATCH, self._batch),
        )

    async def settle(self, timeout_s: float) -> None:
        """Wait at most `timeout_s` for the final responses; ballots without one then count as in doubt."""
        self._give_up_at = time.monotonic() + timeout_s
        if self._in_flight:
            await asyncio.wait(self._in_flight, timeout=timeout_s + 1)
        await self.leave()

    async def leave(self) -> None:
        """Cancel all requests in flight."""
        for task in self._in_flight:
            task.cancel()
        await asyncio.gather(*self._in_flight, return_exceptions=True)

    async def _arrive(self, stop: asyncio.Event, rate: float, act: Any) -> None:
        """Start `act` at random intervals; arrivals missed during an outage are not made up for."""
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
        await self._cast(self._voters.draw())

    async def _cast(self, ballot: Ballot) -> None:
        try:
            answer = await self._send_until_final(self._path, ballot.body, JSON)
        except asyncio.CancelledError:
            self._results.record_doubt(ballot)
            raise
        if answer is None:
            self._results.record_doubt(ballot)
        else:
            self._record(ballot, answer.status_code, _code(answer))

    async def _batch(self) -> None:
        ballots = [self._voters.draw() for _ in range(BATCH)]
        ballots = [ballot for ballot in ballots if ballot.vote_id]
        lines = [ballot.body for ballot in ballots]
        try:
            answer = await self._send_until_final(f"{self._path}/batch", b"\n".join([*lines, BROKEN_LINE]), NDJSON)
        except asyncio.CancelledError:
            answer = None
        if answer is None or answer.status_code != httpx.codes.OK:
            for ballot in ballots:
                self._results.record_doubt(ballot)
            return
        results = answer.json()["results"]
        self._results.refusals[results.pop()["code"]] += 1
        again = []
        for ballot, result in zip(ballots, results, strict=True):
            if result["status"] >= 500:
                self._results.record_retry(result["code"])
                again.append(ballot)
            else:
                self._record(ballot, result["status"], result.get("code", ""))
        for ballot in again:
            await self._cast(ballot)

    def _record(self, ballot: Ballot, status: int, code: str) -> None:
        if self._results.record_response(ballot, status, code):
            self._voters.accepted(ballot)

    async def _send_until_final(self, path: str, body: bytes, headers: dict[str, str]) -> httpx.Response | None:
        """Send the request, with the same vote ids, until it has a final response; None when the time is up."""
        while True:
            pause_s = 0.5
            began = time.monotonic()
            try:
                answer = await self._client.post(path, content=body, headers=headers)
            except httpx.TransportError:
                self._results.record_retry("no_answer")
            else:
                self._results.record_time(time.monotonic() - began)
                if answer.status_code < 500 and answer.status_code != httpx.codes.TOO_MANY_REQUESTS:
                    return answer
                self._results.record_retry(_code(answer))
                pause_s = _seconds(answer.headers.get("retry-after"), pause_s)
            pause_s *= random.uniform(1.0, 1.5)  # noqa: S311
            if time.monotonic() + pause_s > self._give_up_at:
                return None
            await asyncio.sleep(pause_s)


def _code(answer: httpx.Response) -> str:
    """Return the problem's code, or `http_<status>` without one."""
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
