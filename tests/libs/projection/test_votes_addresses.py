"""Address counters are rebuilt from the log only if Valkey may have lost them."""

import time
from collections.abc import AsyncIterator

import pytest

from libs.contracts.codec import vote_codec
from libs.contracts.log_records import LogRecord, Position
from libs.contracts.topics import votes_topic
from libs.projection.votes_projection import VotesProjection
from libs.tally.events import Event, LogCreated, VoteCast, address_takers
from libs.tally.reservations import AddressAnswer, Take, Taken
from libs.views.valkey.client import ValkeyClient
from libs.views.votes.address_counters import AddressCounters
from tests.libs.views.partition import Partition
from tests.support.builders.contests import a_cast, a_removal, pseudonym
from tests.support.clients.intercepted_valkey import CountedValkey
from tests.support.clients.vote_views import VoteViews

ADDRESSES = ("home", "office")


class Subject:
    """One partition: its log, appended long ago, and the projection that folds it."""

    def __init__(self, valkey: ValkeyClient, namespace: str) -> None:
        self.valkey = CountedValkey(valkey)
        self.views = VoteViews(self.valkey, namespace, 1)
        self.partition = Partition(self.views)
        self.addresses = AddressCounters(self.valkey, namespace)
        self.projection = VotesProjection(votes_topic(namespace, 1), self.views, self.addresses)
        self.log: list[LogRecord] = []

    async def fold(self, *events: Event, age_s: float = 60) -> None:
        """Append and fold."""
        for event in events:
            at = int((time.time() - age_s) * 1000)
            self.log.append(LogRecord(len(self.log), at, vote_codec.encode(event)))
        await self.catch_up()

    async def catch_up(self) -> None:
        """Fold what was not; calls are those of this fold."""
        start = await self.views.position(0) or Position("log", 0)
        self.valkey.calls.clear()
        await self.projection.fold(0, start, self.log[start.offset :])

    async def vote(self, number: int, address: str) -> VoteCast:
        """A vote as ingestion counts and records it."""
        cast = a_cast(
            voter=f"voter{number}",
            vote_id=f"vote{number}",
            address=pseudonym(address),
            incarnation=await self.partition.incarnation(),
            accepted_at=int(time.time() * 1_000_000),
        )
        await self.addresses.take([Take((cast.contest, "a", cast.address or ""), own_name(cast), 1, -1)])
        return cast

    async def used(self, address: str) -> int:
        [answer] = await self.addresses.take([Take(("contest", "a", pseudonym(address)), "more", 1, 0)])
        assert isinstance(answer, AddressAnswer)
        assert answer.taken is Taken.FULL
        return answer.used

    async def forget(self) -> None:
        """Another server takes the place of this one: an empty one."""
        keys = await self.valkey.call("KEYS", f"{self.views._namespace}:*")
        await self.valkey.call("DEL", *keys)


@pytest.fixture
async def subject(valkey: ValkeyClient, namespace: str) -> AsyncIterator[Subject]:
    """With its gate open, and eight votes in its log."""
    subject = Subject(valkey, namespace)
    await subject.fold(LogCreated("log"), await subject.partition.shut())
    await subject.fold(*[await subject.vote(number, ADDRESSES[number % 2]) for number in range(8)])
    yield subject
    await subject.forget()


def own_name(cast: VoteCast) -> str:
    return address_takers(cast.voter, cast.vote_id)[0]


def counted_again(subject: Subject) -> int:
    return sum(calls for name, calls in subject.valkey.calls.items() if name.startswith("address_"))


async def test_a_fold_that_lags_costs_no_call_for_addresses(subject: Subject) -> None:
    await subject.fold(*[await subject.vote(number, "home") for number in range(8, 16)])
    assert not counted_again(subject)
    assert await subject.used("home") == 12


async def test_what_an_emptied_server_lost_is_counted_again_with_one_call_a_counter(subject: Subject) -> None:
    await subject.forget()
    await subject.catch_up()
    assert counted_again(subject) == len(ADDRESSES)
    assert [await subject.used(address) for address in ADDRESSES] == [4, 4]


async def test_what_a_restarted_server_may_have_lost_is_counted_again(subject: Subject) -> None:
    lost = await subject.vote(8, "home")
    await subject.addresses.give(("contest", "a", pseudonym("home")), own_name(lost))
    await subject.valkey.call("HSET", f"{subject.views._base(0)}:gate", "run", "another server")
    assert await subject.used("home") == 4
    await subject.fold(lost)
    assert await subject.used("home") == 5


async def test_what_was_lost_is_counted_again_though_the_gate_opens_behind_it(subject: Subject) -> None:
    lost = await subject.vote(8, "home")
    await subject.forget()
    await subject.fold(lost, await subject.partition.shut())
    assert [await subject.used(address) for address in ADDRESSES] == [5, 4]


async def test_a_removal_makes_room_again(subject: Subject) -> None:
    incarnation = await subject.partition.incarnation()
    home = pseudonym("home")
    await subject.fold(
        a_removal(voter="voter2", vote_id="vote2", incarnation=incarnation, address=home, participants=("a",))
    )
    await subject.forget()
    await subject.catch_up()
    assert await subject.used("home") == 3


async def test_what_is_folded_at_once_asks_nothing_of_the_gate(subject: Subject) -> None:
    await subject.fold(*[await subject.vote(number, "home") for number in range(8, 16)], age_s=-5)
    assert set(subject.valkey.calls) == {"votes_apply"}
