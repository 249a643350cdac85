"""Topics that the votes log grows by: complete ones are found, and new contests get those that all found."""

import time

import pytest
from aiokafka import AIOKafkaProducer

from libs.contracts.codec import vote_codec
from libs.contracts.topics import Topic, VotesLog
from libs.deployment.votes_topics import CLOCK_DIFFERENCE_S, VotesTopics, create_next_topic, find_topics
from libs.kafka.errors import WrongTopic
from libs.kafka.reader import LogReader
from libs.kafka.security import connection
from libs.kafka.topics import append_first, create_missing, create_unbegun
from libs.tally.errors import LogUnavailable
from libs.tally.events import LogCreated
from tests.libs.deployment.conftest import Place
from tests.support.eventually import eventually


async def found(place: Place, log: VotesLog) -> list[Topic]:
    async with LogReader(place.settings, log.place) as reader:
        return await find_topics(place.settings, reader, log)


async def grown(place: Place, log: VotesLog, partitions: int) -> Topic:
    """Grow as an operator does, who repeats the command while a busy broker does not answer in time.

    The command does not wait here until the topic has settled: the tests have a clock of their own.
    """
    settings = place.settings.model_copy(update={"votes_topic_settle_s": 0.0})

    async def created() -> Topic:
        try:
            return await create_next_topic(settings, log, partitions)
        except LogUnavailable as error:
            raise AssertionError(str(error)) from error

    return await eventually(created)


async def test_a_topic_counts_once_each_of_its_partitions_has_its_first_record(place: Place) -> None:
    await place.create()
    log = place.log()
    topic = log.next_topic(2)
    await create_missing(place.settings, [topic])
    await append_first(place.settings, [(topic.name, 0, LogCreated("first", partitions=2))])
    assert await found(place, log) == []
    assert await grown(place, place.log(), 2) == topic
    assert await found(place, log) == [topic]
    log.add([topic])
    assert await found(place, log) == []
    with pytest.raises(WrongTopic, match="partitions is 2, but must be 3"):
        await grown(place, place.log(), 3)
    await place.check()


async def test_a_topic_that_was_given_more_partitions_is_refused(place: Place) -> None:
    await place.create()
    log = place.log()
    topic = log.next_topic(2)
    await create_missing(place.settings, [topic])
    records = [(topic.name, partition, LogCreated(f"{partition}", partitions=1)) for partition in range(2)]
    await append_first(place.settings, records)
    with pytest.raises(WrongTopic, match="was created with others"):
        await found(place, log)


async def test_new_contests_get_a_topic_only_after_all_processes_had_time_to_find_it(place: Place) -> None:
    await place.create()
    now = 0.0
    topics = VotesTopics(place.settings, place.log(), place.reader(), clock=lambda: now)
    first = topics.for_new_contests()
    assert first.first == 0
    second = await grown(place, place.log(), 1)
    await topics.refresh()
    now = place.settings.votes_topic_settle_s - 0.1
    assert topics.for_new_contests() == first
    now = place.settings.votes_topic_settle_s
    assert topics.for_new_contests() == second
    restarted = VotesTopics(place.settings, place.log(), place.reader(), clock=lambda: now)
    third = await grown(place, topics.log, 1)
    await restarted.refresh()
    assert restarted.for_new_contests() == second
    now += place.settings.votes_topic_settle_s
    assert restarted.for_new_contests() == third
    await topics.close()
    await restarted.close()


async def test_a_started_process_uses_a_topic_at_once_that_the_brokers_have_had_for_long(place: Place) -> None:
    await place.create()
    log = place.log()
    topic = log.next_topic(2)
    await create_unbegun(place.settings, [topic])
    long_ago = int((time.time() - place.settings.votes_topic_settle_s - CLOCK_DIFFERENCE_S) * 1000) - 1
    async with AIOKafkaProducer(**connection(place.settings)) as producer:
        for partition in range(2):
            first = vote_codec.encode(LogCreated(f"{partition}", partitions=2))
            await producer.send_and_wait(topic.name, first, partition=partition, timestamp_ms=long_ago)
    started = VotesTopics(place.settings, place.log(), place.reader())
    await started.refresh()
    assert started.for_new_contests() == topic
    await started.close()


async def test_a_running_process_finds_several_growths_without_the_list_of_all_topics(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await place.create()
    log = place.log()
    topics = VotesTopics(place.settings, place.log(), place.reader())
    await topics.refresh()
    assert topics.log.topics == log.topics
    monkeypatch.setattr(LogReader, "topics", _refused)
    first, second, third = log.topic_from(0), await grown(place, log, 1), await grown(place, log, 2)
    await topics.refresh()
    assert topics.log.topics == [first, second, third]
    await topics.close()


async def _refused(_: LogReader) -> set[str]:
    raise AssertionError("all topics are listed")
