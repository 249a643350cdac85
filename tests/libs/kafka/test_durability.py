"""What acknowledged records rest on: topics flush each append by default, and weaker choices are named."""

from collections.abc import Mapping, Sequence

import pytest

from libs.contracts.topics import Topic
from libs.kafka.durability import partitions_in_one_place, read_durability, recorded_on
from libs.kafka.errors import WrongTopic
from libs.kafka.settings import KafkaSettings
from libs.kafka.topics import FLUSH_EACH, check_topics
from tests.support.servers.topics import alter_topic

NEVER = str(2**63 - 1)


async def test_topics_flush_each_append_unless_the_replicas_are_chosen(
    settings: KafkaSettings, topic: Topic
) -> None:
    await check_topics(settings, [topic])
    await alter_topic(settings, topic.name, {FLUSH_EACH: NEVER})
    with pytest.raises(WrongTopic, match=r"flush\.messages is 9223372036854775807, but must be 1"):
        await check_topics(settings, [topic])
    await check_topics(settings.model_copy(update={"log_flush": "replicas"}), [topic])


async def test_one_copy_in_memory_is_a_risk_and_its_disk_is_none(settings: KafkaSettings, topic: Topic) -> None:
    text, risk = await read_durability(settings, [topic])
    assert (text, risk) == ("each record is on the disk of its only replica, before it is acknowledged", None)
    text, risk = await read_durability(settings.model_copy(update={"log_flush": "replicas"}), [topic])
    assert "in the memory of its only replica" in text
    assert risk is not None
    assert "of 4 of 4 partitions the only replica stands there" in risk


@pytest.mark.parametrize(
    ("replicas", "racks", "least", "together"),
    [
        ([[1, 2, 3]], {1: "a", 2: "b", 3: "c"}, 2, 0),
        ([[1, 2, 3], [1, 3, 4]], {1: "a", 2: "b", 3: "c", 4: "a"}, 2, 1),
        ([[1, 2, 3]], {1: None, 2: None, 3: "c"}, 2, 1),
        ([[1, 2]], {1: "a", 2: "b"}, 1, 1),
    ],
)
def test_a_rack_that_has_as_many_replicas_as_acknowledge_a_record_can_lose_it(
    replicas: Sequence[Sequence[int]], racks: Mapping[int, str | None], least: int, together: int
) -> None:
    assert partitions_in_one_place(replicas, racks, least) == together


def test_the_sentence_names_how_many_replicas_have_a_record() -> None:
    three = KafkaSettings(kafka_replication_factor=3)
    assert "disks of all in-sync replicas, at least 2," in recorded_on(three)
    assert "memory of all in-sync replicas, at least 2," in recorded_on(
        three.model_copy(update={"log_flush": "replicas"})
    )
