"""No client creates a topic by asking for it, on a broker that permits it, as Kafka does by default."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from libs.contracts.topics import topics_of, votes_topic
from libs.kafka.reader import LogReader
from libs.kafka.settings import KafkaSettings
from libs.kafka.topics import (
    TopicPresence,
    check_topics,
    create_topics,
    find_topics,
    number_of_partitions,
    open_admin,
)
from libs.local_stack import ports
from libs.local_stack.child_process import Reaper
from libs.local_stack.kafka import NativeKafka
from libs.local_stack.startup_report import Silence
from libs.projection.projector import Projector
from libs.projection.settings import VOTES, ProjectorSettings
from libs.tally.errors import TallyError
from tests.libs.projection.in_memory_projection import MemoryProjection, Views
from tests.support.clients.log_writers import open_writer

pytestmark = pytest.mark.stack

ASKING_S = 3.0
"""Longer than a client waits between two requests for metadata."""


class PermissiveKafka(NativeKafka):
    """Creates each topic that a client asks for, unless the request forbids it."""

    def _properties(self) -> dict[str, object]:
        return super()._properties() | {"auto.create.topics.enable": "true"}


@pytest.fixture(scope="module")
async def permissive(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[KafkaSettings]:
    port, controller_port = ports.free_ports(2)
    data_dir, reaper = tmp_path_factory.mktemp("permissive"), Reaper()
    kafka = PermissiveKafka(port, controller_port, data_dir, data_dir / "kafka.log", reaper, report=Silence())
    try:
        await kafka.start()
        yield KafkaSettings(kafka_bootstrap_servers=kafka.address, kafka_request_timeout_ms=1_000)
    finally:
        await kafka.stop()
        reaper.close()


async def existing(settings: KafkaSettings) -> set[str]:
    """Return the topics of the tests; the broker creates its own, too."""
    async with open_admin(settings) as admin:
        return {name for name in await admin.list_topics() if not name.startswith("__")}


@pytest.fixture
def missing() -> str:
    return f"t{uuid.uuid4().hex[:8]}"


async def test_commands_ask_for_topics_without_creating_them(permissive: KafkaSettings, missing: str) -> None:
    before, topics = await existing(permissive), topics_of(missing, 2)
    names = [topic.name for topic in topics]
    presence = TopicPresence(permissive)
    assert await find_topics(permissive, topics) == {}
    assert await number_of_partitions(permissive, names) == {}
    assert await presence.existing(names) == set()
    with pytest.raises(TallyError, match="does not exist"):
        await check_topics(permissive, topics)
    await presence.close()
    assert await existing(permissive) == before


async def test_readers_and_writers_create_no_topic(permissive: KafkaSettings, missing: str) -> None:
    before = await existing(permissive)
    async with open_writer(permissive) as writer, LogReader(permissive) as reader:
        errors = await asyncio.gather(
            writer.append(f"{missing}.votes", 0, b"{}", deadline_s=ASKING_S),
            *(ask(f"{missing}.votes", [0]) for ask in (reader.end_offsets, reader.extents, reader.log_ids)),
            return_exceptions=True,
        )
    assert all(isinstance(error, TallyError) for error in errors), errors
    assert await existing(permissive) == before


async def test_a_projector_creates_no_topic_and_folds_it_once_it_is_created(
    permissive: KafkaSettings, missing: str
) -> None:
    before, topic, views = await existing(permissive), votes_topic(missing, 2), Views()
    settings = ProjectorSettings(projector_check_interval_ms=100)
    projector = Projector(MemoryProjection(topic, views), permissive, settings, VOTES)
    running = asyncio.create_task(projector.run())
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.shield(running), ASKING_S)
    assert await existing(permissive) == before
    running.cancel()
    await asyncio.wait([running])
    await create_topics(permissive, [topic])
    assert await number_of_partitions(permissive, [topic.name]) == {topic.name: 2}
