"""Removals: the vote's record is read before anything is reserved, and never waited for in vain."""

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from libs.contracts.codec import vote_codec
from libs.contracts.log_records import Appended
from libs.contracts.topics import votes_topic
from libs.tally.commands import RemoveVote
from libs.tally.contest import Contest
from libs.tally.errors import LedgerCatchingUp, LogUnavailable
from libs.tally.events import VoteCast, VoteRemoved
from libs.views.address_counters import AddressCounters
from libs.voting.batching import ConfirmationBatcher
from libs.voting.contest_cache import ContestCache
from libs.voting.partition_watch import PartitionWatch
from libs.voting.remover import Remover
from tests.libs.views.simulation.partition import Partition
from tests.libs.voting.conftest import Counted
from tests.support.builders import a_contest, a_vote, pseudonym
from tests.support.eventually import eventually

VOTE = a_vote(address=pseudonym("198.51.100.1"))
REMOVAL = RemoveVote(VOTE.contest, VOTE.voter, VOTE.vote_id)
CONTEST = a_contest(ip_restriction_per_participant=1, is_vote_removal_allowed=True)


@dataclass
class Log:
    """Stands for the writer, and for the reading of single records, which takes until it is let go on."""

    partition: Partition
    cast: VoteCast | None = None
    reading: int = 0
    goes_on: asyncio.Event = field(default_factory=asyncio.Event)
    is_away: bool = False
    removals: list[VoteRemoved] = field(default_factory=list)

    def submit(
        self, topic: str, partition: int, value: bytes, key: bytes | None = None
    ) -> "asyncio.Future[Appended]":
        event = vote_codec.decode(value)
        assert isinstance(event, VoteRemoved)
        self.removals.append(event)
        answer: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        answer.set_result(Appended(partition, self.partition.end + len(self.removals) - 1, True))
        return answer

    async def read(self, partition: int, offset: int) -> VoteCast | None:
        self.reading += 1
        await self.goes_on.wait()
        if self.is_away:
            raise LogUnavailable("no answer in time")
        return self.cast


@pytest.fixture
def log(partition: Partition) -> Log:
    return Log(partition)


@pytest.fixture
def remover(partition: Partition, valkey: Counted, namespace: str, log: Log) -> Remover:
    views = partition.views

    async def load(account: str, key: str) -> Contest:
        return CONTEST

    async def load_version(account: str, key: str) -> int:
        return CONTEST.version

    async def load_secret(key: str) -> bytes:
        return b"secret"

    contests = ContestCache(load, load_version, load_secret)
    topic, addresses, recorder = votes_topic(namespace, 1), AddressCounters(valkey, namespace), cast(Any, log)
    confirmations = ConfirmationBatcher(views)
    return Remover(topic, views, addresses, contests, recorder, confirmations, PartitionWatch(views), log.read)


async def pending(partition: Partition) -> int:
    return (await partition.views.state(0)).pending


async def test_nothing_is_reserved_while_the_votes_record_is_read(
    partition: Partition, remover: Remover, log: Log
) -> None:
    granted = await partition.grant(VOTE, CONTEST)
    log.cast = await partition.record(VOTE, granted)
    removing = asyncio.ensure_future(remover.remove("account", REMOVAL))
    await eventually(lambda: log.reading == 1)
    assert await pending(partition) == 0
    log.goes_on.set()
    assert (await removing).offset == partition.end
    assert [(event.address, event.participants) for event in log.removals] == [(VOTE.address, ("a",))]


async def test_a_record_that_cannot_be_read_in_time_holds_no_removal_up(
    partition: Partition, remover: Remover, log: Log
) -> None:
    await partition.cast(VOTE, CONTEST)
    log.is_away = True
    log.goes_on.set()
    assert (await remover.remove("account", REMOVAL)).offset == partition.end
    assert [event.address for event in log.removals] == [None]


async def test_a_vote_that_is_not_folded_yet_is_waited_for_and_then_removed(
    partition: Partition, remover: Remover, log: Log, valkey: Counted
) -> None:
    """Many ask at once: they wait together, and are granted one removal."""
    log.goes_on.set()
    granted = await partition.grant(VOTE, CONTEST)
    removing = [asyncio.ensure_future(remover.remove("account", REMOVAL)) for _ in range(50)]
    await eventually(lambda: valkey.calls["votes"] >= 2 * len(removing))
    asked = valkey.calls["votes_remove"]
    log.cast = await partition.record(VOTE, granted)
    assert len({removed.partition for removed in await asyncio.gather(*removing)}) == 1
    assert asked == len(removing)
    assert {event.address for event in log.removals} == {VOTE.address}


async def test_a_vote_that_stays_undecided_is_answered_so(
    partition: Partition, remover: Remover, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("libs.voting.remover.GATE_WAIT_S", 0.2)
    await partition.grant(VOTE, CONTEST)
    with pytest.raises(LedgerCatchingUp):
        await remover.remove("account", REMOVAL)
