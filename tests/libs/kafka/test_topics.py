"""Topics: created with the required settings and LogCreated; wrong settings are refused. Settings of brokers."""

import asyncio
from contextlib import aclosing
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from libs.concurrency.tasks import retried
from libs.contracts.codec import vote_codec
from libs.contracts.log_records import LogRecord
from libs.contracts.topics import REQUIRED_SETTINGS, Topic, topics_of, votes_topic
from libs.kafka import topics
from libs.kafka.errors import LogChanged, ReplicasAway, WrongTopic
from libs.kafka.reader import Extent, LogReader
from libs.kafka.security import connection
from libs.kafka.settings import KafkaSettings
from libs.kafka.topics import (
    GIVEN_TIMES,
    check_topics,
    create_missing,
    create_topics,
    create_unbegun,
    examine_topics,
    read_brokers,
    required_settings,
    take_append_times,
)
from libs.tally.errors import LogUnavailable
from libs.tally.events import LogCreated
from tests.support.clients.log_writers import open_writer
from tests.support.servers.topics import alter_topic


async def read(reader: LogReader, topic: Topic, ranges: dict[int, Extent]) -> dict[int, list[LogRecord]]:
    found: dict[int, list[LogRecord]] = {partition: [] for partition in ranges}
    async with aclosing(reader.records(topic.name, ranges)) as batches:
        async for partition, records in batches:
            found[partition] += records
    return found


async def test_a_namespace_is_created_once_and_found_right_again(settings: KafkaSettings, namespace: str) -> None:
    created = topics_of(namespace, 3)
    await create_topics(settings, created)
    await create_topics(settings, created)
    async with LogReader(settings) as reader:
        for topic in created:
            assert set((await reader.end_offsets(topic.name, range(topic.partitions))).values()) == {1}


async def test_a_broker_that_does_not_have_a_new_topic_yet_is_waited_for(
    settings: KafkaSettings, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    describe, created = AIOKafkaAdminClient.describe_topics, topics_of(namespace, 2)
    behind = iter([0, len(created), 1, len(created), 2])
    """Topics that brokers know which are asked one after the other; later ones know all."""

    async def describe_by_brokers(admin: AIOKafkaAdminClient, names: list[str]) -> Any:
        described = await describe(admin, names)
        return described[: next(behind, len(described))]

    monkeypatch.setattr(AIOKafkaAdminClient, "describe_topics", describe_by_brokers)
    await create_topics(settings, created)
    await create_topics(settings, created)
    assert not list(behind)


@pytest.mark.parametrize(
    ("code", "message", "kind"),
    [
        (38, "Unable to replicate the partition 1 time(s): All brokers are currently fenced.", LogUnavailable),
        (7, None, LogUnavailable),
        (
            38,
            "The target replication factor of 3 cannot be reached because only 1 broker(s) are registered.",
            WrongTopic,
        ),
    ],
)
async def test_a_creation_that_kafka_refuses_while_it_starts_may_be_tried_again(
    settings: KafkaSettings,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    message: str | None,
    kind: type,
) -> None:
    refused, create = iter([True]), AIOKafkaAdminClient.create_topics

    async def create_topics_later(admin: AIOKafkaAdminClient, wanted: list[NewTopic], **options: Any) -> Any:
        if not next(refused, False):
            return await create(admin, wanted, **options)
        return SimpleNamespace(topic_errors=[(topic.name, code, message) for topic in wanted])

    monkeypatch.setattr(AIOKafkaAdminClient, "create_topics", create_topics_later)
    topic = votes_topic(namespace, 1)
    if kind is WrongTopic:
        with pytest.raises(WrongTopic, match="cannot be created"):
            await retried(lambda: create_topics(settings, [topic]), 2)
    await retried(lambda: create_topics(settings, [topic]), 2)
    await check_topics(settings, [topic])


async def test_creators_at_once_leave_one_log_id(
    settings: KafkaSettings, namespace: str, reader: LogReader
) -> None:
    topic = votes_topic(namespace, 4)
    await asyncio.gather(*(create_topics(settings, [topic]) for _ in range(3)))
    ids = await reader.log_ids(topic.name, range(4))
    extents = await reader.extents(topic.name, range(4))
    for partition, records in (await read(reader, topic, extents)).items():
        events = [vote_codec.decode(record.value) for record in records]
        assert all(isinstance(event, LogCreated) for event in events)
        assert events[0] == LogCreated(ids[partition])
    assert len(set(ids.values())) == 4


@pytest.mark.parametrize(
    ("setting", "wrong"),
    [
        ("cleanup.policy", "compact"),
        ("retention.ms", "604800000"),
        ("retention.bytes", "1000000"),
        ("message.timestamp.type", "CreateTime"),
        ("unclean.leader.election.enable", "true"),
    ],
)
async def test_a_wrong_setting_is_refused_by_name(
    settings: KafkaSettings, topic: Topic, setting: str, wrong: str
) -> None:
    await alter_topic(settings, topic.name, {setting: wrong})
    with pytest.raises(WrongTopic) as refused:
        await check_topics(settings, [topic])
    assert refused.value.data == {
        "topic": topic.name,
        "setting": setting,
        "found": wrong,
        "wanted": REQUIRED_SETTINGS[setting],
    }


async def test_altered_settings_are_in_force_when_the_call_returns(
    settings: KafkaSettings, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka shows the former ones for a while after its answer."""
    topic, looks = votes_topic(namespace, 1), list[bool]()
    await create_unbegun(settings, [topic])
    current = topics._settings_of

    async def late(admin: Any, names: Any, wanted: Any) -> dict[str, dict[str, str]]:
        looks.append(True)
        found = await current(admin, names, wanted)
        return dict.fromkeys(found, GIVEN_TIMES) if len(looks) < 3 else found

    monkeypatch.setattr(topics, "_settings_of", late)
    await take_append_times(settings, [topic])
    assert len(looks) >= 3


async def test_another_number_of_partitions_is_refused(settings: KafkaSettings, topic: Topic) -> None:
    for attempt in (check_topics, create_topics):
        with pytest.raises(WrongTopic, match="partitions is 4, but must be 8"):
            await attempt(settings, [Topic(topic.name, 8)])


async def test_replicas_that_are_away_are_named_and_waited_for(settings: KafkaSettings, topic: Topic) -> None:
    await alter_topic(settings, topic.name, {"min.insync.replicas": "2"})
    [away] = (await examine_topics(settings, [topic])).problems
    assert isinstance(away, ReplicasAway)
    assert "partition 0 has 1 replicas in sync, and 2 must acknowledge" in away.message
    await check_topics(settings, [topic])


async def test_a_topic_that_was_not_begun_is_refused(settings: KafkaSettings, namespace: str) -> None:
    topic = votes_topic(namespace, 2)
    await create_missing(settings, [topic])
    with pytest.raises(WrongTopic, match="without LogCreated"):
        await check_topics(settings, [topic])


async def test_a_log_that_begins_with_something_else_is_refused(settings: KafkaSettings, namespace: str) -> None:
    topic = votes_topic(namespace, 1)
    await create_missing(settings, [topic])
    async with open_writer(settings) as writer:
        await writer.append(topic.name, 0, b'{"type":"Fence","incarnation":1}')
    with pytest.raises(LogChanged, match="does not begin with LogCreated"):
        await create_topics(settings, [topic])


def test_three_copies_need_two_in_sync() -> None:
    assert required_settings(KafkaSettings(kafka_replication_factor=3))["min.insync.replicas"] == "2"
    assert "min.insync.replicas" not in required_settings(KafkaSettings())


async def test_a_range_is_read_whole_and_no_further(
    settings: KafkaSettings, topic: Topic, reader: LogReader
) -> None:
    async with open_writer(settings) as writer:
        for partition in range(2):
            await asyncio.gather(*(writer.append(topic.name, partition, b"%d" % n) for n in range(1, 2_000)))
    found = await read(reader, topic, {0: Extent(1, 1_500), 1: Extent(700, 701), 2: Extent(1, 1)})
    assert [record.value for record in found[0]] == [b"%d" % n for n in range(1, 1_500)]
    assert [record.offset for record in found[1]] == [700]
    assert found[2] == []


async def test_a_hole_is_noticed(settings: KafkaSettings, topic: Topic, reader: LogReader) -> None:
    """A transaction's marker takes an offset and is no record: no transactions may be used here."""
    async with AIOKafkaProducer(**connection(settings), transactional_id=topic.name) as producer:
        for value in (b"1", b"3"):
            async with producer.transaction():
                await producer.send_and_wait(topic.name, value, partition=0)
    with pytest.raises(LogChanged, match="has an offset gap: expected 2, found 3"):
        await read(reader, topic, {0: Extent(0, 4)})


async def test_the_brokers_settings_are_read(settings: KafkaSettings) -> None:
    found = await read_brokers(settings)
    assert found.number == 1
    assert found.session_ms is not None
    assert found.session_ms >= 1_000
    assert found.shortest_deadline_ms == 0


async def test_the_rack_is_that_of_the_settings() -> None:
    for rack, known in (("eu-1a", "eu-1a"), ("", None)):
        consumer = LogReader(KafkaSettings(kafka_client_rack=rack))._new_consumer(1)
        assert consumer._client_rack == known
        await consumer.stop()
