"""Lag of the counting, as streams carry it."""

import asyncio
from collections.abc import Mapping
from itertools import chain

import pytest
from aiokafka import AIOKafkaProducer

from libs.contracts.topics import votes_topic
from libs.kafka.reader import LogReader
from libs.kafka.security import connection
from libs.kafka.topics import create_unbegun
from libs.tally.contest import MILLION
from libs.tally.errors import LogUnavailable
from services.query.snapshot_cache import now
from services.query.streams import counting_lag
from services.query.streams.counting_lag import NO_LAG, CountingLag, LagMeter
from tests.services.query.query_environment import PARTITIONS, contest, open_environment
from tests.services.query.streams.stream_clients import COUNTS, PUBLIC, served
from tests.support.eventually import eventually

LATE = 3 * MILLION


class NoLog(LogReader):
    def __init__(self) -> None: ...

    async def end_offsets(self, topic: str, partitions: object) -> dict[int, int]:
        raise AssertionError


@pytest.fixture
def meter() -> LagMeter:
    return LagMeter(NoLog(), votes_topic("test", 2))


def lag_of(meter: LagMeter, moved: Mapping[int, int], moment: int) -> CountingLag:
    meter.move(moved)
    return meter.lag(moment)


def test_a_record_counts_as_late_from_the_first_look_that_saw_it(meter: LagMeter) -> None:
    meter.observe({0: 10, 1: 10}, 0)
    assert meter.lag(LATE) == NO_LAG, "the positions are not known yet"
    meter.observe({0: 15, 1: 10}, MILLION)
    meter.observe({0: 17, 1: 10}, 2 * MILLION)
    assert lag_of(meter, {0: 10, 1: 10}, 2 * MILLION) == NO_LAG
    assert lag_of(meter, {0: 10, 1: 10}, LATE) == CountingLag(7, 2)
    assert lag_of(meter, {0: 10, 1: 4}, LATE) == CountingLag(13, 3)
    assert lag_of(meter, {0: 15, 1: 10}, LATE) == NO_LAG
    assert lag_of(meter, {0: 15, 1: 10}, 2 * LATE) == CountingLag(2, 4)
    assert lag_of(meter, {0: 17, 1: 10}, 2 * LATE) == NO_LAG
    assert lag_of(meter, {0: 99, 1: 10}, 2 * LATE) == NO_LAG


def test_positions_hold_until_they_change_and_only_partitions_that_are_behind_are_gone_through(
    meter: LagMeter,
) -> None:
    meter.move(dict.fromkeys(range(256), 10))
    meter.observe(dict.fromkeys(range(256), 10), 0)
    meter.observe({3: 12, 5: 11}, 0)
    assert meter.behind == {3, 5}
    assert meter.lag(LATE) == CountingLag(3, 3)
    assert lag_of(meter, {3: 12}, LATE) == CountingLag(1, 3)
    assert lag_of(meter, {5: 11}, LATE) == NO_LAG
    assert meter.behind == set()


def test_ends_of_many_partitions_are_read_in_turn_until_one_is_behind() -> None:
    meter = LagMeter(NoLog(), votes_topic("test", 200))
    turns = [meter.next_turn() for _ in range(4)]
    assert {len(turn) for turn in turns} == {50}
    assert sorted(chain.from_iterable(turns)) == list(range(200))
    meter.move({3: 10})
    meter.observe({3: 12}, 0)
    assert [*meter.next_turn()] == list(range(200))
    meter.move({3: 12})
    assert [*meter.next_turn()] == [*turns[0]]


async def test_streams_tell_how_many_records_wait_until_they_are_counted(
    valkey_address: str, kafka: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting_lag, "LATE_US", 0)
    monkeypatch.setattr(counting_lag, "READ_S", 0.05)
    topic = votes_topic(namespace, PARTITIONS)
    async with (
        open_environment(valkey_address, namespace, kafka_bootstrap_servers=kafka) as env,
        served(env) as service,
    ):
        await create_unbegun(env.settings, [topic])
        for name, visibility in (("song", "shown"), ("secret", "hidden")):
            await env.production.create("contests", name, contest(vote_visibility=visibility))
        await env.production.enter("song", "a")
        reader = await env.production.reader()
        casts = [env.cast("a", voter=f"v{number}") for number in range(3)]
        async with (
            service.listen(f"{COUNTS}/stream", reader) as stream,
            service.listen(f"{PUBLIC}/stream") as public,
            service.listen("/contests/secret/vote_updates/stream", reader) as hidden,
        ):
            for each in (stream, public):
                assert (await each.next("phase")).data["lag"] == {"records": 0, "seconds": 0}
            assert (await hidden.next("phase")).data["lag"] is None
            async with AIOKafkaProducer(**connection(env.settings)) as producer:
                for cast in casts:
                    await producer.send_and_wait(topic.name, b"vote", partition=topic.partition_of(cast.voter))
            for each in (stream, public):
                while (await each.next("phase")).data["lag"]["records"] < len(casts):
                    pass
            for cast in casts:
                await env.fold(cast)
            for each in (stream, public):
                while (await each.next("phase")).data["lag"]["records"]:
                    pass
            with pytest.raises(TimeoutError):
                await hidden.next(within_s=0.2)


class AwayLog(NoLog):
    """A log whose ends cannot be read until `is_back`."""

    def __init__(self) -> None:
        self.is_back = False

    async def end_offsets(self, topic: str, partitions: object) -> dict[int, int]:
        if not self.is_back:
            raise LogUnavailable("away")
        return {0: 0}


async def test_counting_stands_still_while_the_log_does_not_respond(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting_lag, "READ_S", 0.01)
    log = AwayLog()
    meter, wanted = LagMeter(log, votes_topic("x", PARTITIONS)), asyncio.Event()
    wanted.set()
    watching = asyncio.create_task(meter.watch(wanted))
    try:
        later = now() + 2 * counting_lag.STOPPED_US
        await eventually(lambda: meter.lag(later).is_stopped)
        assert not meter.lag(now()).is_stopped
        log.is_back = True
        await eventually(lambda: not meter.lag(later).is_stopped)
    finally:
        watching.cancel()
