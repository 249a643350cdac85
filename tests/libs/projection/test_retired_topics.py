"""Views of retired topics: rebuilt from the archive after a loss, by themselves."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from libs.contracts.votes_log import VotesLog
from libs.deployment import votes_archive
from libs.deployment.votes_archive import FOLDER, VotesArchive, write_index, write_segments
from libs.kafka.reader import LogReader
from libs.kafka.topics import delete_topic
from libs.projection.retired_topics import RetiredTopics
from libs.projection.votes_projection import VotesProjection
from libs.storage.object_store import Store, open_store
from libs.views.generations import Generations
from tests.support.builders import a_cast
from tests.support.eventually import eventually
from tests.support.folded_log import PARTITIONS, FoldedLog, folded_log

VOTES = 300


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "objects"))


@pytest.fixture
async def log(
    kafka: str, valkey_address: str, namespace: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[FoldedLog]:
    """A topic that was folded in part, and then moved to the archive."""
    monkeypatch.setattr(votes_archive, "ASK_S", 0.0)
    async with folded_log(kafka, valkey_address, namespace) as log:
        for partition in range(PARTITIONS):
            await log.append([a_cast(voter=f"v{number}") for number in range(VOTES)], partition)
            await log.fold(partition)
            await log.append([a_cast(voter="last")], partition)
        votes, settings = VotesLog(namespace, PARTITIONS), log.stack.kafka_settings
        async with LogReader(settings, place=votes.place) as reader:
            index = await write_segments(store, reader, votes, votes.topic_from(0), lambda _: None)
        await write_index(store, index)
        await delete_topic(settings, votes.name)
        yield log


@asynccontextmanager
async def kept(log: FoldedLog, store: Store) -> AsyncIterator[RetiredTopics]:
    """The retired topic, as a projector keeps it."""
    votes = VotesLog(log.stack.namespace, PARTITIONS)
    votes.retire(votes.topics)
    archive = VotesArchive(lambda: store, votes)
    generations = Generations(log.valkey, log.stack.namespace, "votes", votes)
    async with LogReader(log.stack.kafka_settings, place=votes.place, archive=archive) as reader:
        projection = VotesProjection(votes, log.views, None)
        retired = RetiredTopics(votes, log.views, projection, generations, reader, archive, lambda: True)
        task = asyncio.create_task(retired.run())
        try:
            yield retired
        finally:
            task.cancel()
            await asyncio.wait([task])


async def is_complete(log: FoldedLog, partition: int) -> bool:
    """True once the view has all votes, and voters can read theirs."""
    state = await log.views.state(partition)
    return state.open and state.position.offset == VOTES + 2


async def lose(log: FoldedLog, partition: int) -> None:
    """Delete the partition's keys."""
    keys = await log.valkey.call("KEYS", log.key("*", partition))
    await log.valkey.call("DEL", *keys)


async def test_what_was_not_folded_and_what_was_lost_is_rebuilt_from_the_archive(
    log: FoldedLog, store: Store
) -> None:
    async with kept(log, store) as retired:
        assert retired.partitions == [0, 1]
        for partition in range(PARTITIONS):
            await eventually(partial(is_complete, log, partition))
        await lose(log, 1)
        await eventually(lambda: is_complete(log, 1))
        counts = await log.views.counts(1, "contest")
    assert counts is not None
    assert counts.figures["a", "c-free"].unique == VOTES + 1


async def test_a_damaged_partition_delays_no_other(log: FoldedLog, store: Store) -> None:
    [segment] = await store.names(f"{FOLDER}/{log.topic.name}/0")
    whole = await store.get(segment)
    assert whole is not None
    await store.replace(segment, b"damaged")
    async with kept(log, store):
        await eventually(lambda: is_complete(log, 1))
        assert not await is_complete(log, 0)
        await store.replace(segment, whole)
        await eventually(lambda: is_complete(log, 0))
