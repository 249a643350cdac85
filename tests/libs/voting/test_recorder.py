"""Records of unknown outcome: what the fold, a fence or the deadline makes of them."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from libs.contracts.log_records import Appended
from libs.contracts.topics import votes_topic
from libs.tally.commands import CastVote
from libs.tally.errors import AppendUnknown, IdempotencyKeyReused
from libs.tally.reservations import Granted, cast_of
from libs.views.address_counters import AddressCounters
from libs.voting.batching import ConfirmationBatcher
from libs.voting.partition_watch import PartitionWatch
from libs.voting.recorder import Recorder
from libs.voting.vote_attempt import Accepted, Attempt
from tests.libs.views.simulation.partition import Partition
from tests.libs.voting.conftest import Counted
from tests.support.builders import a_vote, content_hash
from tests.support.eventually import eventually


class Receipts:
    async def load(self) -> None: ...

    def at(self, moment: int) -> bytes:
        return b"key"


class Log:
    """Stands for a log that does not say what became of a record, or says it of one that a fence overtook."""

    offset: int | None = None

    def submit(
        self, topic: str, partition: int, value: bytes, key: bytes | None = None
    ) -> "asyncio.Future[Appended]":
        answer: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        if self.offset is None:
            answer.set_exception(AppendUnknown("no acknowledgement"))
        else:
            answer.set_result(Appended(partition, self.offset, True))
        return answer


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def recorder(partition: Partition, valkey: Counted, namespace: str, log: Log) -> Recorder:
    views = partition.views
    addresses = AddressCounters(valkey, namespace)
    return Recorder(
        votes_topic(namespace, 1),
        views,
        addresses,
        log,
        ConfirmationBatcher(views),
        PartitionWatch(views),
        Receipts(),
    )


Granting = tuple[Attempt, Granted]


async def recorded(
    recorder: Recorder, granted: list[Granting], meanwhile: Callable[[], Awaitable[object]], wait_s: float = 20.0
) -> list[Attempt]:
    deadline = asyncio.get_running_loop().time() + wait_s
    recording = asyncio.ensure_future(recorder.record(granted, deadline))
    await meanwhile()
    await recording
    return [attempt for attempt, _ in granted]


async def granting(partition: Partition, vote: CastVote) -> Granting:
    return Attempt(vote, 0), await partition.grant(vote)


async def test_many_in_doubt_are_answered_by_what_the_fold_shows_of_each(
    partition: Partition, recorder: Recorder, valkey: Counted
) -> None:
    granted = [await granting(partition, a_vote(voter=f"v{n}")) for n in range(300)]
    valkey.calls.clear()

    async def fold_the_even_ones() -> None:
        await eventually(lambda: valkey.calls["votes"] == 300)
        await partition.fold(*(cast_of(attempt.command, grant, "receipt") for attempt, grant in granted[::2]))
        await partition.fence()

    attempts = await recorded(recorder, granted, fold_the_even_ones)
    for at, attempt in enumerate(attempts):
        if at % 2:
            assert attempt.outcome is None
            assert attempt.doubted
        else:
            assert isinstance(attempt.outcome, Accepted)
            assert (attempt.outcome.offset, attempt.outcome.replayed) == (2 + at // 2, False)


async def test_an_acknowledged_record_that_a_fence_overtook_may_be_reserved_again(
    partition: Partition, recorder: Recorder, log: Log
) -> None:
    granted = [await granting(partition, a_vote())]
    await partition.fence()
    log.offset = partition.end
    [attempt] = await recorded(recorder, granted, lambda: asyncio.sleep(0))
    assert attempt.outcome is None
    assert attempt.doubted


async def test_an_id_that_another_request_took_meanwhile_is_refused(
    partition: Partition, recorder: Recorder
) -> None:
    [(attempt, grant)] = granted = [await granting(partition, a_vote())]
    await partition.fence()
    other = replace(attempt.command, content=content_hash("other"))
    await partition.cast(other)
    await recorded(recorder, granted, lambda: asyncio.sleep(0))
    assert isinstance(attempt.outcome, IdempotencyKeyReused)
    assert grant.incarnation


async def test_what_nothing_decides_is_unknown_at_its_deadline(partition: Partition, recorder: Recorder) -> None:
    granted = [await granting(partition, a_vote(voter=f"v{n}")) for n in range(3)]
    attempts = await recorded(recorder, granted, lambda: asyncio.sleep(0), wait_s=0.2)
    assert all(isinstance(attempt.outcome, AppendUnknown) for attempt in attempts)


async def test_past_the_deadline_one_look_is_taken(partition: Partition, recorder: Recorder, log: Log) -> None:
    [(attempt, grant)] = granted = [await granting(partition, a_vote())]
    log.offset = partition.end
    await partition.record(attempt.command, grant)
    await partition.fence()
    await recorded(recorder, granted, lambda: asyncio.sleep(0), wait_s=-1.0)
    assert isinstance(attempt.outcome, Accepted)
