"""Removals through the service: a vote's record is read before the reservation, within a deadline."""

import asyncio
from dataclasses import dataclass, field

import pytest

from libs.tally.errors import LogUnavailable
from libs.tally.events import VoteCast, VoteRemoved
from libs.tally.vote_commands import RemoveVote
from libs.voting.service import VotingService
from tests.libs.views.partition import Partition
from tests.libs.voting.conftest import Log, Serve
from tests.support.builders.contests import a_contest, a_vote, pseudonym
from tests.support.eventually import eventually

VOTE = a_vote(address=pseudonym("198.51.100.1"))
REMOVAL = RemoveVote(VOTE.contest, VOTE.voter, VOTE.vote_id)
CONTEST = a_contest(ip_restriction_per_participant=1, is_vote_removal_allowed=True)


@dataclass
class Reader:
    """Stands for the reading of single records, which takes until it is let go on."""

    cast: VoteCast | None = None
    reading: int = 0
    goes_on: asyncio.Event = field(default_factory=asyncio.Event)
    is_away: bool = False

    async def read(self, partition: int, offset: int) -> VoteCast | None:
        self.reading += 1
        await self.goes_on.wait()
        if self.is_away:
            raise LogUnavailable("no answer in time")
        return self.cast


@pytest.fixture
def reader() -> Reader:
    return Reader()


@pytest.fixture
def service(serve: Serve, reader: Reader) -> VotingService:
    return serve(CONTEST, reader.read)


def removals(log: Log) -> list[VoteRemoved]:
    return [event for event in log.events if isinstance(event, VoteRemoved)]


async def test_nothing_is_reserved_while_the_votes_record_is_read(
    partition: Partition, service: VotingService, log: Log, reader: Reader
) -> None:
    granted = await partition.grant(VOTE, CONTEST)
    reader.cast = await partition.record(VOTE, granted)
    removing = asyncio.ensure_future(service.remove("account", REMOVAL))
    await eventually(lambda: reader.reading == 1)
    assert (await partition.views.state(0)).pending == 0
    reader.goes_on.set()
    assert (await removing).offset == partition.end
    assert [(event.address, event.participants) for event in removals(log)] == [(VOTE.address, ("a",))]


async def test_a_record_that_cannot_be_read_in_time_holds_no_removal_up(
    partition: Partition, service: VotingService, log: Log, reader: Reader
) -> None:
    await partition.cast(VOTE, CONTEST)
    reader.is_away = True
    reader.goes_on.set()
    assert (await service.remove("account", REMOVAL)).offset == partition.end
    assert [event.address for event in removals(log)] == [None]


async def test_a_purchase_that_was_never_cast_uses_up_its_id(
    partition: Partition, service: VotingService, log: Log
) -> None:
    await service.refund(CONTEST, a_vote(source="c-paid", voter="buyer"))
    assert [(event.reason, event.address) for event in removals(log)] == [("refund", None)]
