"""Views of two layouts: each version works on its own, and the swap between them admits no vote twice."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from libs.contracts.log_records import Position
from libs.contracts.topics import votes_topic
from libs.tally.contest import Limits
from libs.tally.events import Event, LogCreated
from libs.tally.reservations import Answer, GateClosed, Granted, OverLimit, Stale, cast_of
from libs.tally.vote_commands import CastVote
from libs.views.generations.generations import Generations, State
from libs.views.valkey.client import ValkeyClient
from libs.views.valkey.connection import OtherLayout
from libs.views.valkey.function_libraries import layouts
from libs.views.valkey.function_loading import load_functions, open_valkey
from tests.libs.views.lua_ledger import request_of
from tests.support.builders import a_contest, a_vote, pseudonym
from tests.support.own_valkey import own_valkey
from tests.support.versions import functions_of_another_version
from tests.support.vote_views import FoldInput, VoteViews

NAMESPACE = "t"
ONE_VOTE = a_contest(free=Limits(-1, 1))


@pytest.fixture
async def valkey(tmp_path: Path) -> AsyncIterator[ValkeyClient]:
    async with own_valkey(tmp_path) as server:
        client = open_valkey(server.address)
        await load_functions(client)
        yield client
        await client.close()


class Voting:
    """A partition's log, and the votes of a contest in which a voter has one vote."""

    def __init__(self, valkey: ValkeyClient) -> None:
        self.views = VoteViews(valkey, NAMESPACE, 1)
        self.log: list[Event] = [LogCreated("log")]

    async def fold(self, views: VoteViews | None = None) -> None:
        """Fold what the views lack."""
        its = views or self.views
        start = await its.position(0) or Position("log", 0)
        rest = enumerate(self.log[start.offset :], start.offset)
        await its.apply(0, start, [FoldInput(event, at, 1_000 + at) for at, event in rest], len(self.log))

    async def fence(self) -> None:
        fence = await self.views.shut(0, (await self.views.state(0)).incarnation if len(self.log) > 1 else 0)
        assert fence is not None
        self.log.append(fence)
        await self.fold()

    async def reserve(self, vote: CastVote) -> Answer:
        [answer] = await self.views.reserve(0, [request_of(ONE_VOTE, vote)])
        if isinstance(answer, Stale):
            assert await self.views.put_in_force(0, ONE_VOTE, answer.incarnation)
            [answer] = await self.views.reserve(0, [request_of(ONE_VOTE, vote)])
        return answer

    async def grant(self, vote: CastVote) -> Granted:
        answer = await self.reserve(vote)
        assert isinstance(answer, Granted), answer
        return answer

    async def cast(self, vote: CastVote) -> None:
        self.log.append(cast_of(vote, await self.grant(vote), "receipt"))
        await self.fold()


def by(voter: str, vote_id: str = "first") -> CastVote:
    return a_vote(voter=pseudonym(voter), vote_id=vote_id)


async def test_each_layout_is_served_by_its_version_and_no_voter_votes_twice_across_the_swap(
    valkey: ValkeyClient, tmp_path: Path
) -> None:
    voting = Voting(valkey)
    generations = Generations(valkey, NAMESPACE, "votes", votes_topic(NAMESPACE, 1))
    newer = tmp_path / "newer", [("local SCHEMA = 12", "local SCHEMA = 1009")]
    await voting.fence()
    await voting.cast(by("counted"))
    in_flight = await voting.grant(by("in flight"))
    await voting.grant(by("lost"))

    with functions_of_another_version(*newer):
        await load_functions(valkey)
        for refused in (voting.views.state(0), voting.views.reserve(0, [request_of(ONE_VOTE, by("early"))])):
            with pytest.raises(OtherLayout):
                await refused
        assert await generations.open(0, 2)
        await voting.fold(VoteViews(valkey, NAMESPACE, 1, generation=2))
        assert await generations.touch(0, 2, Position("log", len(voting.log))) is State.FOLLOWING

    await voting.cast(by("meanwhile"))

    with functions_of_another_version(*newer):
        assert (await generations.swap(0, 2)).reason == "moving"
        await voting.fold(VoteViews(valkey, NAMESPACE, 1, generation=2))
        assert (await generations.swap(0, 2)).done

    with pytest.raises(OtherLayout):
        await voting.views.state(0)
    assert await voting.reserve(by("late")) == GateClosed()
    assert not await voting.views.confirm(0, in_flight.incarnation)

    with functions_of_another_version(*newer):
        assert await voting.reserve(by("lost", "second")) == GateClosed()
        voting.log.append(cast_of(by("in flight"), in_flight, "receipt"))
        await voting.fence()
        for voter in ("counted", "in flight", "meanwhile"):
            assert isinstance(await voting.reserve(by(voter, "second")), OverLimit), voter
        assert isinstance(await voting.reserve(by("lost", "second")), Granted)

    with pytest.raises(OtherLayout):
        await voting.reserve(by("late"))
    assert isinstance((await voting.views.doubts((0,)))[0], OtherLayout), "its gateways are not ready"


def test_layouts_name_the_number_of_each_library(tmp_path: Path) -> None:
    catalogue, purchases, votes = layouts().split(".")
    with functions_of_another_version(tmp_path, [("local SCHEMA = 12", "local SCHEMA = 13")]):
        assert layouts() == f"{catalogue}.{purchases}.{int(votes) + 1}"
