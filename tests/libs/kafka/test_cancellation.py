"""Cancellation around aiokafka: ours always ends our tasks, its own never does."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaConnectionError, KafkaError
from aiokafka.protocol.fetch import FetchRequest

import libs.kafka.reader
from libs.contracts.topics import Topic
from libs.kafka.cancellation import call
from libs.kafka.reader import Extent, LogReader
from libs.kafka.settings import KafkaSettings
from libs.tally.errors import LogUnavailable


async def wait_deaf(released: asyncio.Event) -> None:
    """Wait without regard to cancellation."""
    while not released.is_set():
        with suppress(asyncio.CancelledError):
            await released.wait()


async def test_a_caller_that_is_cancelled_ends_though_the_client_does_not() -> None:
    released = asyncio.Event()
    task = asyncio.create_task(call(wait_deaf(released)))
    await asyncio.sleep(0)
    task.cancel()
    assert (await asyncio.wait({task}, timeout=60))[0] == {task}
    assert task.cancelled()
    released.set()


async def test_work_that_the_client_cancels_is_an_error_of_the_log() -> None:
    async def cancelled() -> None:
        raise asyncio.CancelledError

    with pytest.raises(KafkaError):
        await call(cancelled())


async def test_a_failed_fetch_that_pauses_does_not_cancel_who_reads(
    topic: Topic, reader: LogReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    send: Callable[..., Awaitable[Any]] = AIOKafkaClient.send

    async def failing(self: AIOKafkaClient, node: int, request: object, *rest: Any, **more: Any) -> object:
        if isinstance(request, FetchRequest):
            raise KafkaConnectionError
        return await send(self, node, request, *rest, **more)

    monkeypatch.setattr(AIOKafkaClient, "send", failing)
    monkeypatch.setattr(libs.kafka.reader, "SILENCE_S", 0.5)
    async with aclosing(reader.records(topic.name, {0: Extent(0, 1)})) as batches:
        with pytest.raises(LogUnavailable):
            await anext(batches)


async def test_a_question_that_is_cancelled_while_its_consumer_closes_ends(
    settings: KafkaSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    closing, released = asyncio.Event(), asyncio.Event()

    async def failing(*_: Any) -> object:
        raise KafkaConnectionError

    async def deaf(self: AIOKafkaConsumer) -> None:
        closing.set()
        await wait_deaf(released)
        await stop(self)

    stop = AIOKafkaConsumer.stop
    monkeypatch.setattr(AIOKafkaConsumer, "end_offsets", failing)
    monkeypatch.setattr(AIOKafkaConsumer, "stop", deaf)
    reader = LogReader(settings)
    task = asyncio.create_task(reader.end_offsets("none", [0]))
    await closing.wait()
    task.cancel()
    assert (await asyncio.wait({task}, timeout=60))[0] == {task}
    assert task.cancelled()
    released.set()
