"""Contests from their first vote to their certificate: hidden until the end or the release, then sealed.

A receipt opens what it may, and proves its vote.
"""

import asyncio
import json
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import httpx

from tests.campaign.clients import Crowd
from tests.campaign.commands import Commands
from tests.campaign.oracle import LIMITS, Poll, Rule, Vote
from tests.support.clients.http_clients import http_client
from tests.support.clients.retried import final_answer
from tests.support.clients.voting import Api, hours_from_now, running
from tests.support.eventually import eventually

HOST: Final = -4
"""Seat of the host of these contests."""
VOTERS, LIMIT = 12, 2
READS: Final = 3
PAUSE_S: Final = (10.0, 30.0)


@dataclass
class Finals:
    crowd: Crowd
    commands: Commands
    reader: httpx.AsyncClient
    """With a key that may not read hidden results."""
    legacy: httpx.AsyncClient
    public: httpx.AsyncClient
    rng: Random
    done: int = 0
    hidden_reads: int = 0
    _former: str | None = None
    """A receipt of the contest before."""

    async def work(self) -> None:
        while not self.crowd.stop.is_set():
            await self.hold(is_by_hand=self.rng.random() < 0.5)
            self.done += 1
            with suppress(TimeoutError):
                await asyncio.wait_for(self.crowd.stop.wait(), self.rng.uniform(*PAUSE_S))

    async def hold(self, *, is_by_hand: bool) -> None:
        release = {"result_release": "by_hand", "vote_visibility": "hidden_until_end"}
        shown = release if is_by_hand else {"vote_visibility": "hidden_until_vote"}
        free = {"max_participant": LIMIT, "max_contest": LIMIT}
        contest = await Api(self.crowd.client, math.inf).contest(2, running(free=free, **shown))
        poll = Poll(f"final {len(self.crowd.oracle.polls)}", contest, [Rule(LIMIT, 0.0, 0.0)], LIMITS)
        self.crowd.oracle.polls.append(poll)
        votes = await asyncio.gather(*(self._vote(poll, number) for number in range(VOTERS)))
        accepted = [vote for vote in votes if vote.acceptance is not None]
        receipt = accepted[0].acceptance["receipt"] if accepted[0].acceptance else ""
        await self._is_hidden(poll, receipt if is_by_hand else self._former)
        if not is_by_hand:
            await self._opens(poll, receipt)
        await self.crowd.demand(HOST, "PATCH", contest.path, json={"contest_config": {"end": hours_from_now(0)}})
        await self._true(lambda: self._is_final(poll), f"{poll.name}: its counts do not become final")
        if is_by_hand:
            await self._is_hidden(poll, receipt)
            await self.crowd.demand(HOST, "PUT", f"{contest.path}/show", json={"is_released": True})
        self._former = receipt
        await self._shows(poll, len(accepted))
        await self._certify(poll, self.rng.choice(accepted))

    async def _vote(self, poll: Poll, number: int) -> Vote:
        body = {"participant_key": self.rng.choice(poll.contest.participants)}
        vote = self.crowd.oracle.vote(poll, f"guest {number}", "only", f"only.{number}", body)
        await self.crowd.cast(HOST, poll, vote)
        return vote

    async def _is_hidden(self, poll: Poll, receipt: str | None) -> None:
        """No way to read shows a number; `receipt` opens nothing, unless None."""
        for _ in range(READS):
            for way, found in (await self._counts_seen(poll, receipt)).items():
                self.hidden_reads += 1
                if found is not None:
                    self.crowd.oracle.untrue(f"{poll.name}: {way} shows {found}, which is hidden")

    async def _counts_seen(self, poll: Poll, receipt: str | None) -> Mapping[str, Any]:
        """Return what each way to read the counts shows, by its name; without those that are not answered."""
        path = poll.contest.path
        found: dict[str, Any] = {}
        with suppress(httpx.TransportError, TimeoutError):
            answer = await self.reader.get(f"{path}/vote_updates/")
            if answer.status_code == 200 or answer.json().get("code") == "results_hidden":
                found["vote_updates"] = answer.json().get("count")
            answer = await self.reader.get(f"{path}/participants")
            if answer.status_code == 200:
                numbers = {one["vote_count"] for one in answer.json()["data"]}
                found["participants"] = None if numbers <= {None} else numbers
            answer = await self.legacy.get(path)
            if answer.status_code == 200:
                found["legacy"] = answer.json()["total_vote_count"]
            for query in ({}, *([{"receipt": receipt}] if receipt else ())):
                answer = await self.public.get(f"/public{path}/results", params=query)
                if answer.status_code == 200:
                    found[f"public {[*query]}"] = answer.json()["count"]
            async with asyncio.timeout(10), self.reader.stream("GET", f"{path}/vote_updates/stream") as response:
                async for line in response.aiter_lines() if response.status_code == 200 else _nothing():
                    name, _, value = line.partition(": ")
                    if name == "data":  # of the first event, `phase`; counts would follow
                        found["stream"] = None if json.loads(value)["hidden"] else value
                        break
        return found

    async def _opens(self, poll: Poll, receipt: str) -> None:
        """A receipt opens the results of its contest once its vote counts."""

        async def count(contest: str) -> Any:
            answer = await self._read(self.public, f"/public/contests/{contest}/results", receipt=receipt)
            return answer.json()["count"]

        async def is_open() -> bool:
            return await count(poll.contest.key) is not None

        await self._true(is_open, f"{poll.name}: the receipt of a counted vote opens nothing")

    async def _shows(self, poll: Poll, accepted: int) -> None:
        async def shows() -> bool:
            seen = await self._counts_seen(poll, None)
            return seen.get("vote_updates") == accepted and seen.get("public []") == accepted

        await self._true(shows, f"{poll.name}: its {accepted} votes are not shown after the end or release")

    async def _certify(self, poll: Poll, vote: Vote) -> None:
        """Seal it; the certificate matches the log and proves an accepted vote by its receipt."""
        key = poll.contest.key

        async def is_sealed() -> bool:
            return (await self.commands.tally("seal", key, "--execute"))[1]

        await self._true(is_sealed, f"{poll.name}: it cannot be sealed")
        certificate = self.commands.data_dir / f"{key}.json"
        proof = self.commands.data_dir / f"{key}.proof.json"
        receipt = (vote.acceptance or {})["receipt"]

        async def is_proved() -> bool:
            shown, is_done = await self.commands.tally("certificate", "show", key)
            certificate.write_text(json.dumps(shown))
            steps = [
                ("certificate", "verify", str(certificate)),
                ("certificate", "prove", key, receipt, "--out", str(proof)),
                ("certificate", "check", str(proof), str(certificate)),
            ]
            for step in steps if is_done else ():
                is_done = is_done and (await self.commands.tally(*step))[1]
            return is_done

        await self._true(is_proved, f"{poll.name}: its certificate or a proof by it does not verify")

    async def _true(self, check: Any, otherwise: str) -> None:
        """Wait until it is true: as long as faults go on, and a while after the last one."""
        while True:
            is_last = self.crowd.stop.is_set()
            try:
                await eventually(check, every_s=1)
                return
            except AssertionError as error:
                if is_last:
                    self.crowd.oracle.untrue(f"{otherwise}: {error}")
                    return

    async def _is_final(self, poll: Poll) -> bool:
        answer = await self._read(self.crowd.client, f"{poll.contest.path}/vote_updates/")
        return answer.headers["tally-final"] == "final"

    async def _read(self, client: httpx.AsyncClient, path: str, **query: str) -> httpx.Response:
        return await self.crowd.demand(HOST, "GET", path, client=client, params=query)


@asynccontextmanager
async def open_finals(
    crowd: Crowd, commands: Commands, stack: Mapping[str, Any], rng: Random
) -> AsyncIterator[Finals]:
    """Create a key that may not read hidden results, and its clients, which are closed after."""
    body = {"name": "reader", "permissions": ["content:read", "results:read"], "rate": 0}
    answer = await final_answer(lambda: crowd.client.post("/keys", json=body))
    assert answer.status_code == 201, answer.text
    key, timeout = answer.json()["api_key"], crowd.client.timeout
    legacy = {"service-brand": stack["service_brand"], "service-key": key}
    async with (
        http_client(
            base_url=stack["base_url"], headers={"Authorization": f"Bearer {key}"}, timeout=timeout
        ) as reader,
        http_client(base_url=stack["legacy_base_url"], headers=legacy, timeout=timeout) as old,
        http_client(base_url=stack["base_url"], timeout=timeout) as public,
    ):
        yield Finals(crowd, commands, reader, old, public, rng)


async def _nothing() -> AsyncIterator[str]:
    return
    yield
