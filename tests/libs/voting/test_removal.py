"""Removals through the service: a vote's record is read before the reservation, within a deadline."""

import asyncio
from dataclasses import dataclass, field

import pytest

from libs.tally.errors import LedgerCatchingUp, LogUnavailable
from libs.tally.events import VoteCast, VoteRemoved
from libs.tally.vote_commands import RemoveVote
from libs.voting import protocol_driver
from libs.voting.service import VotingService
from tests.libs.views.partition import Partition
from tests.libs.voting.conftest import Counted, Log, service_of
from tests.support.builders import a_contest, a_vote, pseudonym
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
def service(partition: Partition, valkey: Counted, namespace: str, log: Log, reader: Reader) -> VotingService:
    return service_of(partition, valkey, namespace, log, CONTEST, reader.read)


def removals(log: Log) -> list[VoteRemoved]:
    return [event for event in log.events if isinstance(event, VoteRemoved)]


async def pending(partition: Partition) -> int:
    return (await partition.views.state(0)).pending


async def test_nothing_is_reserved_while_the_votes_record_is_read(
    partition: Partition, service: VotingService, log: Log, reader: Reader
) -> None:
    granted = await partition.grant(VOTE, CONTEST)
    reader.cast = await partition.record(VOTE, granted)
    removing = asyncio.ensure_future(service.remove("account", REMOVAL))
    await eventually(lambda: reader.reading == 1)
    assert await pending(partition) == 0
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


async def test_a_vote_that_is_not_folded_yet_is_waited_for_and_then_removed(
    partition: Partition, service: VotingService, log: Log, reader: Reader, valkey: Counted
) -> None:
    """Many ask at once: they wait together, and are granted one removal."""
    reader.goes_on.set()
    granted = await partition.grant(VOTE, CONTEST)
    removing = [asyncio.ensure_future(service.remove("account", REMOVAL)) for _ in range(50)]
    await eventually(lambda: valkey.calls["votes"] >= 2 * len(removing))
    asked = valkey.calls["votes_remove"]
    reader.cast = await partition.record(VOTE, granted)
    assert len({removed.partition for removed in await asyncio.gather(*removing)}) == 1
    assert asked == len(removing)
    assert {event.address for event in removals(log)} == {VOTE.address}


async def test_a_vote_that_stays_undecided_is_answered_so(
    partition: Partition, service: VotingService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol_driver, "GATE_WAIT_S", 0.2)
    await partition.grant(VOTE, CONTEST)
    with pytest.raises(LedgerCatchingUp):
        await service.remove("account", REMOVAL)


async def test_a_purchase_that_was_never_cast_uses_up_its_id(
    partition: Partition, service: VotingService, log: Log
) -> None:
    await service.refund("account", a_vote(source="c-paid", voter="buyer"))
    assert [(event.reason, event.address) for event in removals(log)] == [("refund", None)]
