"""Repeated writes of records: idempotency keys, lost races, and unknown appends."""

import asyncio
from typing import Any

import pytest

from libs.catalogue.commands import CommandReader, CommandWriter, WriteRequest
from libs.catalogue.records import RecordService
from libs.catalogue.schemas.base import Document
from libs.contracts.catalogue_events import CatalogueCommand, Outcome, OutcomeKind, RecordChanged, Stored
from libs.contracts.log_records import Appended
from libs.kafka.writer import LogWriter
from libs.tally.errors import (
    AppendUnknown,
    IdempotencyKeyReused,
    LogUnavailable,
    NotAppended,
    TallyError,
    ViewsUnavailable,
)
from tests.libs.catalogue.conftest import CRATES, TABLE
from tests.libs.catalogue.test_record_service import CONTESTS
from tests.support.builders.catalogue import Catalogue


async def test_an_idempotency_key_makes_one_record_however_often_it_is_sent(
    catalogue: Catalogue, account: str
) -> None:
    asked = WriteRequest.repeatable(account, "POST", "/contests", "key-1", b'{"title": "x"}')
    engines = [catalogue.record_service, catalogue.another_record_service()]
    results = await asyncio.gather(
        *(engines[n % 2].create(CONTESTS, account, {"title": "x"}, asked) for n in range(20))
    )
    assert len({written.stored.key for written in results}) == 1
    assert sum(not written.replayed for written in results) == 1
    made = results[0].stored
    await catalogue.record_service.patch(CONTESTS, account, made.key, {"title": "changed"})
    later = await catalogue.record_service.create(CONTESTS, account, {"title": "x"}, asked)
    assert (later.replayed, later.stored.document) == (True, {"title": "x"})
    other = WriteRequest.repeatable(account, "POST", "/contests", "key-1", b'{"title": "y"}')
    with pytest.raises(IdempotencyKeyReused):
        await catalogue.record_service.create(CONTESTS, account, {"title": "y"}, other)


async def test_what_a_repeated_request_wrote_is_read_from_the_log_and_not_kept_beside_the_records(
    catalogue: Catalogue, account: str
) -> None:
    body = {"description": "x" * 20_000}
    asked = WriteRequest.repeatable(account, "POST", "/contests", "key-1", b"large")
    made = (await catalogue.record_service.create(CONTESTS, account, body, asked)).stored
    await catalogue.record_service.delete(CONTESTS, account, made.key)
    partition = catalogue.topic.partition_of(account)
    outcomes = f"{catalogue.views.generations.base(partition)}:g1:outcomes"
    packed = await catalogue.valkey.call("HGET", outcomes, asked.command_id)
    assert 0 < len(packed) < 500
    later = await catalogue.record_service.create(CONTESTS, account, body, asked)
    assert (later.replayed, later.stored) == (True, made)


async def test_a_key_of_the_account_s_own_is_taken_once_by_many_processes(
    catalogue: Catalogue, account: str
) -> None:
    engines = [catalogue.record_service, catalogue.another_record_service()]
    for number in range(5):
        placed = await asyncio.gather(
            *(
                record_service.place(CRATES, account, f"k{number}", {"title": title}, WriteRequest.once())
                for title, record_service in zip("ab", engines, strict=True)
            )
        )
        first, second = sorted((written.stored for written in placed), key=lambda stored: stored.version)
        assert first.created == first.updated == second.created < second.updated
        assert second == await catalogue.record_service.get(CRATES, account, f"k{number}")


async def test_a_placing_sent_again_by_its_idempotency_key_takes_effect_once(
    catalogue: Catalogue, account: str
) -> None:
    engines = [catalogue.record_service, catalogue.another_record_service()]
    for number in range(5):
        asked = WriteRequest.repeatable(account, "POST", f"/crates/k{number}", "key", b"{}")
        both = await asyncio.gather(*(one.place(CRATES, account, f"k{number}", {}, asked) for one in engines))
        assert both[0].stored == both[1].stored
        await catalogue.record_service.patch(CRATES, account, f"k{number}", {"title": "changed"})
        later = await engines[1].place(CRATES, account, f"k{number}", {}, asked)
        assert (later.stored, later.replayed) == (both[0].stored, True)


async def test_a_request_that_lost_a_race_is_known_by_its_last_command(catalogue: Catalogue, account: str) -> None:
    """It changed a version that had passed, and then the one that had come."""
    asked = WriteRequest.repeatable(account, "POST", "/crates/k", "key", b"{}")
    made = await catalogue.record_service.place(CRATES, account, "k", {}, WriteRequest.once())
    await catalogue.record_service.patch(CRATES, account, "k", {"title": "meanwhile"})
    given: dict[str, Any] = {"account": account, "command_id": asked.command_id, "content": asked.content, "at": 1}
    lost = RecordChanged(**given, resource="crates", key="k", record="{}", expected_version=made.stored.version)
    assert (await catalogue.writer.record(lost)).kind is OutcomeKind.CONFLICT
    placed, again = [await catalogue.record_service.place(CRATES, account, "k", {}, asked) for _ in range(2)]
    assert (placed.replayed, again.replayed, again.stored) == (False, True, placed.stored)
    other = WriteRequest(asked.command_id, "other content")
    with pytest.raises(IdempotencyKeyReused):
        await catalogue.record_service.place(CRATES, account, "k", {"title": "x"}, other)


async def test_an_attempt_is_repeated_from_the_write_that_it_lost_against(
    catalogue: Catalogue, account: str
) -> None:
    made = await catalogue.create("crates", account, {"title": "0"})
    seen: list[Stored] = []

    async with catalogue.writer.attempts(account, "crates", made.key) as attempts:
        async for head in attempts:
            found = await catalogue.record_service.get(CRATES, account, made.key)
            seen.append(found)
            if len(seen) < 4:
                await catalogue.another_record_service(TABLE).patch(
                    CRATES, account, made.key, {"title": str(len(seen))}
                )
            command = RecordChanged(
                **head,
                resource="crates",
                key=made.key,
                record='{"title": "last"}',
                expected_version=found.version,
            )
            await attempts.append(command)
    assert [each.document["title"] for each in seen] == ["0", "1", "2", "3"]
    assert attempts.outcome.kind is OutcomeKind.OK
    assert (await catalogue.record_service.get(CRATES, account, made.key)).document == {"title": "last"}


async def test_a_request_that_lost_a_race_and_was_finished_by_another_process_is_answered_from_the_log(
    catalogue: Catalogue, account: str
) -> None:
    """Its own attempt, which lost, had read another title."""
    made = await catalogue.create("crates", account, {"title": "first"})
    asked = WriteRequest.repeatable(account, "POST", "/crates", "key", b"{}")
    other = catalogue.another_record_service(TABLE)

    def shelved(before: Document) -> Document:
        return before | {"shelves": []}

    class Overtaken(CommandWriter):
        async def record(self, command: CatalogueCommand) -> Outcome:
            await other.patch(CRATES, account, made.key, {"title": "second"})
            outcome = await super().record(command)
            await other.amend(CRATES, account, made.key, shelved, asked)
            return outcome

    writer = Overtaken(catalogue.topic, catalogue.log, catalogue.views)
    earlier = CommandReader(catalogue.topic, catalogue.reader)
    overtaken = RecordService(TABLE, catalogue.views, writer, earlier=earlier)
    written = await overtaken.amend(CRATES, account, made.key, shelved, asked)
    assert (written.replayed, written.stored.document) == (True, {"title": "second", "shelves": []})
    assert written.stored == await catalogue.record_service.get(CRATES, account, made.key)


async def test_nothing_is_computed_from_a_view_that_is_not_fresh(catalogue: Catalogue, account: str) -> None:
    made = await catalogue.create("crates", account, {"title": "kept"})
    await catalogue.destroy_view(account)
    called: list[dict[str, Any]] = []
    for write in (
        catalogue.record_service.patch(CRATES, account, made.key, {"shelves": []}),
        catalogue.record_service.change(CRATES, account, made.key, called.append),
        catalogue.record_service.amend(CRATES, account, made.key, lambda before: before | {"title": "lost"}),
        catalogue.record_service.put(CRATES, account, made.key, {}, parent=""),
        catalogue.record_service.delete(CRATES, account, made.key),
    ):
        with pytest.raises(ViewsUnavailable):
            await write
    assert called == []
    await catalogue.create("crates", account, {})  # makes the projector fold the log again
    assert (await catalogue.record_service.get(CRATES, account, made.key)).document == {"title": "kept"}


class TroubledLog(LogWriter):
    """A log whose acknowledgements get lost, or that takes nothing."""

    def __init__(self, catalogue: Catalogue, error: TallyError, *, takes: bool) -> None:
        self._catalogue, self._error, self._takes = catalogue, error, takes

    async def append(self, topic: str, partition: int, *record: Any, **options: Any) -> Appended:
        if self._takes:
            await self._catalogue.log.append(topic, partition, *record)
        raise self._error


def engine_over(catalogue: Catalogue, error: TallyError, *, takes: bool) -> RecordService:
    log = TroubledLog(catalogue, error, takes=takes)
    writer = CommandWriter(catalogue.topic, log, catalogue.views, deadline_s=60 if takes else 0.3)
    return RecordService(TABLE, catalogue.views, writer)


async def test_an_unknown_append_is_answered_by_the_fold(catalogue: Catalogue, account: str) -> None:
    record_service = engine_over(catalogue, AppendUnknown("lost"), takes=True)
    written = await record_service.create(CONTESTS, account, {}, WriteRequest.once())
    assert await catalogue.record_service.get(CONTESTS, account, written.stored.key) == written.stored


async def test_a_log_that_takes_nothing_is_said_to_be_away(catalogue: Catalogue, account: str) -> None:
    record_service = engine_over(catalogue, NotAppended("away"), takes=False)
    with pytest.raises(LogUnavailable):
        await record_service.create(CONTESTS, account, {}, WriteRequest.once())
