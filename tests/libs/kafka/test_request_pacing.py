"""Pacing of requests per broker: a single record at once, many records together."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from libs.contracts.topics import Topic
from libs.kafka import partition_queues
from libs.kafka.partition_queues import RequestPace
from libs.kafka.settings import KafkaSettings
from tests.support.clients.log_writers import open_writer
from tests.support.eventually import eventually

NEVER_S = 3600.0


class Broker:
    """Keeps the requests; they carry `records` each."""

    def __init__(self, linger_s: float = 0.0, records: int = 1) -> None:
        self.requests: list[list[str]] = []
        self.records = records
        self.pace = RequestPace[str](self.send, linger_s)

    def send(self, pace: RequestPace[str], partitions: Sequence[str]) -> None:
        self.requests.append(list(partitions))
        pace.records = self.records

    def add(self, *partitions: str) -> None:
        for partition in partitions:
            self.pace.add(partition)

    async def has_sent(self, *requests: list[str]) -> None:
        await eventually(lambda: len(self.requests) >= len(requests))
        assert self.requests == list(requests)


async def a_tick() -> None:
    await asyncio.sleep(0)


async def test_with_nothing_in_flight_a_tick_is_sent_together_at_its_end() -> None:
    broker = Broker(linger_s=NEVER_S)
    broker.add("a", "b", "a")
    assert broker.requests == []
    await a_tick()
    assert broker.requests == [["a", "b"]]


async def test_what_comes_during_a_request_is_sent_after_its_first_acknowledgement() -> None:
    broker = Broker(linger_s=NEVER_S)
    broker.add("a", "b")
    await a_tick()
    for partition in "cda":
        broker.add(partition)
        await a_tick()
    assert broker.requests == [["a", "b"]]
    broker.pace.landed(broker.pace.request)
    await broker.has_sent(["a", "b"], ["c", "d", "a"])


async def test_records_that_come_during_a_request_are_one_batch_for_each_partition(
    settings: KafkaSettings, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted = asyncio.Event()
    async with open_writer(settings) as writer:
        await writer.append(topic.name, 0, b"first")
        monkeypatch.setattr(partition_queues, "LONGEST_WAIT_S", NEVER_S)
        link = writer._producers.link
        assert link is not None
        batches: list[int] = []
        send_batch = link.producer.send_batch

        async def held(batch: object, topic: str, *, partition: int) -> asyncio.Future[Any]:
            """Hold back the acknowledgement of the first batch."""
            batches.append(partition)
            acknowledgement: asyncio.Future[Any] = await send_batch(batch, topic, partition=partition)
            if len(batches) > 1:
                return acknowledgement
            return asyncio.ensure_future(until(submitted, acknowledgement))

        monkeypatch.setattr(link.producer, "send_batch", held)
        appends = [asyncio.create_task(writer.append(topic.name, 0, b"in flight"))]
        await eventually(lambda: batches == [0])
        for n in range(200):
            appends.append(asyncio.create_task(writer.append(topic.name, n % 4, b"%d" % n)))
            await a_tick()
        submitted.set()
        await asyncio.gather(*appends)
    assert sorted(batches) == [0, 0, 1, 2, 3]


async def until(event: asyncio.Event, result: asyncio.Future[Any]) -> Any:
    await event.wait()
    return await result
