"""A partition of the vote views on the real Valkey, with counted calls, and a log controlled by the test."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from libs.contracts.codec import Undecodable, vote_codec
from libs.contracts.log_records import Appended
from libs.contracts.topics import VotesLog
from libs.kafka.partition_queues import Record
from libs.tally.contest import Contest
from libs.tally.errors import LogUnavailable
from libs.tally.events import Event
from libs.views.valkey.client import Valkey
from libs.views.valkey.function_libraries import unpack
from libs.views.votes.address_counters import AddressCounters
from libs.voting.cast_reader import ReadCast
from libs.voting.contest_cache import ContestCache
from libs.voting.protocol_driver import Driver
from libs.voting.service import VotingService
from tests.libs.views.partition import Partition
from tests.support.clients.intercepted_valkey import CountedValkey, plain_name
from tests.support.clients.vote_views import VoteViews
from tests.support.servers.loaded_valkey import loaded_valkey


class Counted(CountedValkey):
    """Keeps also the keys of the latest calls, and counts votes that are looked up as `votes`."""

    def __init__(self, valkey: Valkey) -> None:
        super().__init__(valkey)
        self.keys: dict[str, list[str]] = {}
        """Keys of the latest call of each function."""

    async def call(self, *command: Any) -> Any:
        name = plain_name(str(command[1]))
        if command[0] == "FCALL":
            self.keys[name] = list(command[3 : 3 + command[2]])
        if name == "votes_lookup":
            self.calls["votes"] += len(unpack(command[4]))
        return await super().call(*command)


class Receipts:
    """A secret of its own for each moment."""

    async def load(self) -> None: ...

    def at(self, moment: int) -> bytes:
        return str(moment).encode()

    def is_first(self, moment: int) -> bool:
        return True


Outcome = Appended | LogUnavailable
Serve = Callable[..., VotingService]
"""Starts a service that votes in a contest, on one partition; `read_cast` reads its records."""


class Log:
    """Stands for a log: takes every record, at the next offset, unless `answers` has other outcomes."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.events: list[Event] = []
        self.answers: Callable[[int], Outcome | None] = lambda _: None
        """Returns the outcome of the record of this number; None: it is appended."""

    def append_group(
        self, topic: str, partition: int, records: Sequence[Record]
    ) -> "asyncio.Future[list[Appended | LogUnavailable]]":
        outcomes = list[Appended | LogUnavailable]()
        for record in records:
            number = len(self.events)
            event = vote_codec.decode(record.value)
            assert not isinstance(event, Undecodable)
            self.events.append(event)
            outcomes.append(self.answers(number) or Appended(partition, self.partition.end + number, True))
        answer = asyncio.get_running_loop().create_future()
        answer.set_result(outcomes)
        return answer


async def never_read(partition: int, offset: int) -> None:
    """Read no record."""


@pytest.fixture
def serve(partition: Partition, valkey: Counted, namespace: str, log: Log) -> Serve:
    def start(contest: Contest, read_cast: ReadCast = never_read) -> VotingService:
        async def load(account: str, key: str) -> Contest:
            return contest

        async def load_version(account: str, key: str) -> int:
            return contest.version

        async def load_secret(key: str) -> bytes:
            return b"secret"

        contests, topic = ContestCache(load, load_version, load_secret), VotesLog(namespace, 1)
        addresses = AddressCounters(valkey, namespace)
        driver = Driver(topic, partition.views, addresses, contests, log, read_cast)
        return VotingService(topic, contests, driver, Receipts())

    return start


@pytest.fixture
async def valkey(valkey_address: str) -> AsyncIterator[Counted]:
    async with loaded_valkey(valkey_address) as client:
        yield Counted(client)


@pytest.fixture
async def partition(valkey: Counted, namespace: str) -> Partition:
    """With its gate open."""
    partition = Partition(VoteViews(valkey, namespace, 1))
    await partition.fence()
    valkey.calls.clear()
    return partition


@pytest.fixture
def log(partition: Partition) -> Log:
    return Log(partition)
