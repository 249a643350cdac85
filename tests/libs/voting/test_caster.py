"""Votes at a gate that is shut: they wait together, and go on when it opens."""

import asyncio
from typing import Any

import pytest

from libs.contracts.codec import vote_codec
from libs.contracts.log_records import Appended
from libs.contracts.topics import votes_topic
from libs.tally.contest import Contest
from libs.tally.errors import LedgerCatchingUp
from libs.tally.events import Fence, VoteCast
from libs.voting.batching import CALL_REQUESTS, ConfirmationBatcher, ReservationBatcher
from libs.voting.caster import Caster
from libs.voting.contest_cache import ContestCache
from libs.voting.partition_watch import PartitionWatch
from libs.voting.recorder import Recorder
from libs.voting.vote_attempt import Accepted
from tests.libs.views.simulation.partition import Partition
from tests.libs.voting.conftest import Counted
from tests.support.builders import a_contest, a_vote
from tests.support.eventually import eventually

WAITING = 200


class Receipts:
    """A secret of its own for each moment."""

    async def load(self) -> None: ...

    def at(self, moment: int) -> bytes:
        return str(moment).encode()


class Log:
    """Stands for a log that takes everything."""

    end = 1_000

    def __init__(self) -> None:
        self.values: list[bytes] = []

    def submit(
        self, topic: str, partition: int, value: bytes, key: bytes | None = None
    ) -> "asyncio.Future[Appended]":
        self.end += 1
        self.values.append(value)
        answer: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        answer.set_result(Appended(partition, self.end, True))
        return answer


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def caster(partition: Partition, namespace: str, log: Log) -> Caster:
    async def load(account: str, key: str) -> Contest:
        return a_contest()

    async def load_version(account: str, key: str) -> int:
        return a_contest().version

    async def load_secret(key: str) -> bytes:
        return b"secret"

    views, topic = partition.views, votes_topic(namespace, 1)
    contests, watch = ContestCache(load, load_version, load_secret), PartitionWatch(views)
    addresses: Any = None  # the contest has no limit for them
    recorder = Recorder(topic, views, addresses, log, ConfirmationBatcher(views), watch, Receipts())
    return Caster(topic, views, addresses, contests, ReservationBatcher(views), recorder, watch)


async def shut(partition: Partition) -> Fence:
    fence = await partition.views.shut(0, (await partition.views.state(0)).incarnation)
    assert fence is not None
    return fence


async def test_votes_at_a_shut_gate_ask_for_a_reservation_again_only_when_it_has_opened(
    partition: Partition, caster: Caster, valkey: Counted
) -> None:
    fence = await shut(partition)
    casting = [asyncio.ensure_future(caster.cast("account", [a_vote(voter=f"v{n}")])) for n in range(WAITING)]
    await eventually(lambda: valkey.calls["votes_lookup"] > 5)
    batches = -(-WAITING // CALL_REQUESTS)
    assert valkey.calls["votes_reserve"] == batches
    await partition.fold(fence)
    outcomes = [outcome for outcomes in await asyncio.gather(*casting) for outcome in outcomes]
    assert all(isinstance(outcome, Accepted) for outcome in outcomes), outcomes[:3]
    assert (
        valkey.calls["votes_reserve"] <= 4 * batches
    )  # once more for the configuration, which went with the gate


async def test_a_gate_that_stays_shut_is_answered_in_time(
    partition: Partition, caster: Caster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("libs.voting.caster.GATE_WAIT_S", 0.2)
    await shut(partition)
    [outcome] = await caster.cast("account", [a_vote()])
    assert isinstance(outcome, LedgerCatchingUp)
    assert outcome.retry_after_s == 1


async def test_a_vote_that_is_sent_again_is_given_the_receipt_in_the_log_whatever_signs_now(
    partition: Partition, caster: Caster, log: Log
) -> None:
    await partition.fence()

    async def given() -> str:
        [outcome] = await caster.cast("account", [a_vote()])
        assert isinstance(outcome, Accepted), outcome
        return outcome.receipt

    first = await given()
    assert await given() == first
    cast = vote_codec.decode(log.values[0])
    assert isinstance(cast, VoteCast)
    assert cast.receipt == first
    await partition.fold(cast)
    assert await given() == first
