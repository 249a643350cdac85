"""The official clients against the whole service: a vote, its receipt, counts, a refusal, a batch, a stream."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from libs.client import Accepted, ApiError, AsyncClient, Client, FileStore, Refused
from libs.local_stack.supervisor import Supervisor
from tests.support.clients.voting import Api, running
from tests.support.programs import NODE, Programs

STORY = Path(__file__).parent / "official_clients" / "story.js"
ONE = {"max_participant": 1, "max_contest": -1}


async def test_the_python_client_votes_reads_and_follows(api: Api, stack: Supervisor, tmp_path: Path) -> None:
    contest = await api.contest(2, running(free=ONE))
    one, other = contest.participants
    address = stack.base_url, stack.stack["api_key"]
    async with AsyncClient(*address, store=FileStore(tmp_path / "votes")) as client:
        updates = client.follow(contest.key)
        cast = await client.vote(contest.key, participant_key=one, voter_id="anna", vote_id="v", ip="192.0.2.7")
        assert isinstance(cast, Accepted)
        assert cast.position is not None
        again = await client.vote(contest.key, participant_key=one, voter_id="anna", vote_id="v")
        assert isinstance(again, Accepted)
        assert again.receipt == cast.receipt
        refused = await client.vote(contest.key, participant_key=one, voter_id="anna")
        assert isinstance(refused, Refused)
        assert (refused.code, refused.problem.data["limit"]) == ("participant_limit_reached", 1)
        assert (await client.counts(contest.key, min_position=[cast.position]))["count"] == 1
        batch = await client.vote_batch(
            contest.key,
            [{"participant_key": other, "voter_id": "anna"}, {"participant_key": "nobody", "voter_id": "ben"}],
        )
        assert [type(outcome) for outcome in batch] == [Accepted, Refused]
        async for update in updates:
            if update.results and update.results["count"] == 2:
                assert update.phase is not None
                assert update.phase["phase"] == "running"
                break
        assert (await client.allowance(contest.key, voter_id="anna"))["sources"][0]["contest"]["used"] == 2
        assert (await client.recorded_vote(contest.key, "v", voter_id="anna"))["counts"] is True
        assert await client.remove(contest.key, "v", voter_id="anna") is not None
        time = client.service_time()
        assert time is not None
        assert abs((datetime.now(UTC) - time).total_seconds()) < 60
        assert client.store.all() == []


async def test_the_python_client_without_asyncio_rates_and_fills_in_ballots(api: Api, stack: Supervisor) -> None:
    rating = await api.contest(1, running() | {"contest_type": "rating"})
    ordering = await api.contest(2, running(ordering={"positions": [{"id": "1"}]}) | {"contest_type": "ordering"})

    def story() -> None:
        with Client(stack.base_url, stack.stack["api_key"]) as client:
            rated = client.vote(
                rating.key, participant_key=rating.participants[0], voter_id="anna", rating={"value": 4}
            )
            filled = client.vote(ordering.key, positions={"1": ordering.participants[1]}, voter_id="anna")
            assert isinstance(rated, Accepted)
            assert isinstance(filled, Accepted)
            assert client.votes(ordering.key, voter_id="nobody")["data"] == []
            with pytest.raises(ApiError, match="not_found"):
                client.allowance("no-contest", voter_id="anna")
        with Client(stack.base_url) as public:
            for update in public.follow(rating.key, receipt=rated.receipt):
                if update.results and update.results["count"]:
                    break

    await asyncio.to_thread(story)


async def test_the_client_for_node_votes_reads_and_follows(
    api: Api, stack: Supervisor, programs: Programs
) -> None:
    contest = await api.contest(2, running(free=ONE))
    arguments = (stack.base_url, stack.stack["api_key"], contest.key, *contest.participants)
    told = await asyncio.create_subprocess_exec(
        programs.path(NODE),
        str(STORY),
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await told.communicate()
    assert printed == b"told\n", printed.decode()
