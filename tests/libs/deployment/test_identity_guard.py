"""A process serves only on the log and the object store of its deployment, from its start to its end."""

from collections.abc import Collection
from dataclasses import replace

import pytest

from libs.contracts.log_records import Position
from libs.contracts.topics import CATALOGUE_PARTITIONS
from libs.deployment import identity_guard
from libs.kafka.errors import LogChanged, WrongTopic
from libs.kafka.reader import LogReader
from libs.storage.object_store import STORE_ID, find_store_id
from libs.tally.errors import AppendUnknown, LogUnavailable, NotAppended
from libs.tally.events import LogCreated
from tests.libs.deployment.conftest import Place
from tests.support.clients.log_writers import open_writer
from tests.support.clients.vote_views import VoteViews
from tests.support.eventually import eventually
from tests.support.servers.permissive_guard import UnguardedLog


async def test_after_the_first_check_it_serves_and_appends(place: Place) -> None:
    await place.create()
    async with place.guard().watching() as guard:
        await guard.check()
        assert guard.refusal() is None
        async with open_writer(place.settings, guard) as writer:
            assert (await writer.append(place.votes.name, 1, b"{}")).offset == 1
        with pytest.raises(WrongTopic, match="partitions is 3, but must be 2"):
            guard.check_partitions(place.votes.name, 3)


async def test_another_number_of_partitions_is_refused_at_the_start(place: Place) -> None:
    await place.create()
    async with place.beside(partitions=3).guard().watching() as guard:
        with pytest.raises(WrongTopic, match="partitions is 2, but must be 3"):
            await guard.check()
        assert guard.refusal() is not None
        async with open_writer(place.settings, guard) as writer:
            with pytest.raises(NotAppended, match="does not match its stored data"):
                await writer.append(place.votes.name, 1, b"{}")


async def test_while_kafka_is_away_at_the_start_nothing_is_appended_and_nothing_is_wrong(place: Place) -> None:
    away = place.settings.model_copy(update={"kafka_bootstrap_servers": "127.0.0.1:1"})
    async with replace(place, settings=away).guard().watching() as guard:
        with pytest.raises(LogUnavailable):
            await guard.check()
        assert guard.refusal() is None
        refusal = guard.append_refusal()
        assert refusal is not None
        assert refusal.retry_after_s is not None


async def test_partitions_added_while_it_runs_end_its_service(place: Place) -> None:
    await place.create()
    async with place.guard().watching() as guard:
        await guard.check()
        await place.add_partitions(3)
        await eventually(lambda: guard.refusal() is not None)
        with pytest.raises(WrongTopic, match="partitions is 3, but must be 2"):
            await guard.check()


async def test_a_writer_notices_added_partitions_by_its_own_metadata(place: Place) -> None:
    class Strict(UnguardedLog):
        def check_partitions(self, topic: str, found: int) -> None:
            asked.append((topic, found))
            raise WrongTopic("no")

    asked: list[tuple[str, int]] = []
    await place.create()
    async with open_writer(place.settings, Strict()) as writer:
        with pytest.raises(NotAppended, match="no"):
            await writer.append(place.votes.name, 1, b"{}")
    assert asked == [(place.votes.name, 2)]


async def test_first_records_of_many_partitions_are_read_in_turn_and_those_of_a_recreated_log_are_noticed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity_guard, "READ_IN_TURN", CATALOGUE_PARTITIONS)
    read = list[tuple[int, ...]]()
    first_records = LogReader.first_records

    async def noted(reader: LogReader, topic: str, partitions: Collection[int]) -> dict[int, LogCreated]:
        if topic == larger.votes.name:
            read.append(tuple(partitions))
        return await first_records(reader, topic, partitions)

    larger = place.beside(partitions=2 * CATALOGUE_PARTITIONS)
    await larger.create()
    monkeypatch.setattr(LogReader, "first_records", noted)
    async with larger.guard().watching() as guard:
        await eventually(lambda: {(0, 2, 4, 6), (1, 3, 5, 7)} <= {*read})
        assert read[0] == tuple(range(2 * CATALOGUE_PARTITIONS))
        assert guard.refusal() is None
        await larger.recreate_votes()
        await eventually(lambda: guard.refusal() is not None)
        with pytest.raises(LogChanged, match="was recreated while this process ran"):
            await guard.check()


async def test_a_record_at_an_offset_that_was_given_before_is_not_acknowledged(place: Place) -> None:
    class Noting(UnguardedLog):
        def report_shortened(self, topic: str, partition: int) -> None:
            noted.append((topic, partition))

    noted: list[tuple[str, int]] = []
    await place.create()
    async with open_writer(place.settings, Noting()) as writer:
        for offset in range(1, 6):
            assert (await writer.append(place.votes.name, 1, b"{}")).offset == offset
        await place.recreate_votes()

        async def is_unknown() -> bool:
            try:
                appended = await writer.append(place.votes.name, 1, b"{}")
            except AppendUnknown as error:
                return "the log was truncated or recreated" in str(error)
            except NotAppended:
                return False
            raise RuntimeError(f"acknowledged: {appended}")

        await eventually(is_unknown)
        assert noted == [(place.votes.name, 1)]
        await writer.stop(timeout_s=1)


async def test_a_view_of_another_log_ends_its_service(place: Place) -> None:
    await place.create()
    await VoteViews(place.valkey, place.namespace, place.partitions).apply(
        1, Position("the log of before", 0), [], 5
    )
    async with place.guard().watching() as guard:
        with pytest.raises(LogChanged, match="folded from another log"):
            await guard.check()
        assert guard.refusal() is not None


async def test_a_process_ends_once_a_view_begins_again_without_records_that_it_may_remember(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []
    monkeypatch.setattr(identity_guard, "end_process", ended.append)
    await place.create()
    views = VoteViews(place.valkey, place.namespace, place.partitions)
    [log_id] = (await place.reader().log_ids(place.votes.name, [1])).values()
    await views.apply(1, Position(log_id, 0), [], 1)
    async with place.guard().watching() as guard:
        await guard.check()
        assert await views.generations.begin_again(1, Position(log_id, 1), 1)
        await eventually(lambda: ended)
        assert f"{place.votes.name}/1 lost records" in ended[0]
        await guard.check()
    async with place.guard().watching() as guard:
        await guard.check()
    assert len(ended) <= 3, "one that started after the loss ends, too"


async def test_a_store_that_comes_back_is_served_again(place: Place) -> None:
    await place.create()
    known = await find_store_id(place.store)
    assert known is not None
    async with place.guard().watching() as guard:
        await place.store.delete(STORE_ID)
        await eventually(lambda: guard.refusal() is not None)
        await place.store.replace(STORE_ID, known.encode())
        await eventually(lambda: guard.refusal() is None)
        await guard.check()
