"""Compares everything that can be read with what was told, when all faults are over."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import httpx

from tests.campaign.alarms import Alarms
from tests.campaign.clients import Crowd
from tests.campaign.oracle import Poll, judge_addresses, judge_counts, judge_voter
from tests.support.clients.retried import final_answer
from tests.support.eventually import eventually

AT_ONCE: Final = 8
SETTLE_S: Final = 300.0

Shown = dict[str, dict[str, dict[str, Any]]]
"""Votes as they are read, by voter and vote id."""


async def compare(crowd: Crowd, data_dir: Path) -> None:
    """Record everything untrue in the oracle: votes, counts, limits and repeated answers."""
    await settled(data_dir)
    for poll in crowd.oracle.polls:
        shown = await _shown(crowd.client, poll)
        for voter, votes in shown.items():
            _note(crowd, judge_voter(poll, voter, votes))
        record = await _counts(crowd.client, poll)
        _note(crowd, judge_counts(poll, record, shown))
        _note(crowd, judge_addresses(poll, crowd.oracle.disturbed))
        await _send_again(crowd, poll)


async def settled(data_dir: Path) -> None:
    """Wait until the status names no problem and nothing is left to fold."""

    alarms = Alarms(data_dir)

    async def is_settled() -> bool:
        status, problems = await alarms.read()
        assert not problems, [*map(str, problems)]
        assert status is not None
        pending = sum(row.pending or 0 for row in status.rows)
        return bool(status.rows) and not status.lag and not pending

    await eventually(is_settled, SETTLE_S, every_s=0.5)


def _note(crowd: Crowd, findings: Any) -> None:
    for text in findings:
        crowd.oracle.untrue(text)


async def _shown(client: httpx.AsyncClient, poll: Poll) -> Shown:
    async def read(voter: str) -> dict[str, dict[str, Any]]:
        query: dict[str, str] = {"voter_id": voter, "limit": "100"}
        answer = await final_answer(lambda: client.get(f"{poll.contest.path}/votes", params=query))
        assert answer.status_code == 200, answer.text
        return {one["vote_id"]: one for one in answer.json()["data"]}

    voters = list(poll.votes)
    return dict(zip(voters, await _few_at_once(read, voters), strict=True))


async def _counts(client: httpx.AsyncClient, poll: Poll) -> Mapping[str, Any]:
    answer = await final_answer(lambda: client.get(f"{poll.contest.path}/vote_updates/"))
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def _send_again(crowd: Crowd, poll: Poll) -> None:
    """Each accepted vote gets its first answer again, with 200: also a removed one, or after the end."""

    async def send(number: int) -> None:
        vote, sent_at = accepted[number], time.monotonic()
        answer = await final_answer(lambda: crowd.post(poll, vote))
        if answer.status_code != 200:
            crowd.oracle.untrue(f"{poll.name}: accepted vote {vote.vote_id} is answered {answer.text} again")
        crowd.oracle.answered(poll, vote, sent_at, answer.status_code, answer.json())

    accepted = [vote for vote in poll.all_votes() if vote.acceptance is not None]
    await _few_at_once(send, range(len(accepted)))


async def _few_at_once(do: Callable[[Any], Awaitable[Any]], items: Any) -> list[Any]:
    few = asyncio.Semaphore(AT_ONCE)

    async def one(item: Any) -> Any:
        async with few:
            return await do(item)

    return await asyncio.gather(*map(one, items))
