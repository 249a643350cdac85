"""A contest of any size is read from the catalogue's views in short calls, consistently."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import msgpack
import pytest

from libs.contracts.catalogue_events import (
    ContestRecords,
    ContestRestored,
    OutcomeKind,
    RecordChanged,
    RecordCreated,
    RecordDeleted,
)
from libs.contracts.log_records import LogRecord, Position
from libs.contracts.topics import catalogue_topic
from libs.tally.errors import ViewsUnavailable
from libs.tally.events import LogCreated
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.catalogue.stored_records import DELETED_CONTESTS
from libs.views.valkey.client import ValkeyClient
from tests.support.servers.freshness import make_fresh

ACCOUNT, CONTEST = "b", "contest"
PARTITION = catalogue_topic("any").partition_of(ACCOUNT)
THE_CONTEST: dict[str, Any] = {"resource": "contests", "key": CONTEST, "contest": CONTEST}


class Catalogue:
    """One partition of the catalogue's views, folded by hand. `between` is awaited after each full page."""

    def __init__(self, views: CatalogueViews, monkeypatch: pytest.MonkeyPatch) -> None:
        self.views = views
        self.end = 0
        self.sizes: list[int] = []
        self.between: Callable[[], Awaitable[None]] | None = None
        self._read = views.fresh.read_at
        monkeypatch.setattr(views.fresh, "read_at", self._watched)

    async def _watched(self, *args: Any) -> Any:
        position, reply = await self._read(*args)
        if args[0] != "contest":
            return position, reply
        self.sizes.append(len(reply[4]) // 2)
        if self.between is not None and self.sizes[-1] == 250:
            await self.between()
        return position, reply

    async def fold(self, *events: Any) -> None:
        records = [(LogRecord(at, 1_000 + at, b""), event) for at, event in enumerate(events, self.end)]
        await self.views.apply(PARTITION, Position("log", self.end), records, self.end + len(events))
        self.end += len(events)

    async def set_up(self, participants: int) -> None:
        contest = RecordCreated(**self.command(0), **THE_CONTEST, record="{}")
        await self.fold(LogCreated("log"), contest)
        await self.fold(*map(self.created, range(participants)))
        await make_fresh(self.views.fresh, PARTITION)

    async def read(self) -> ContestRecords:
        return await self.views.contest_config(ACCOUNT, CONTEST)

    async def read_while(self, event: Any) -> ContestRecords:
        """Read the contest while this is folded, after the first page."""

        async def fold() -> None:
            self.between = None
            await self.fold(event)

        self.between = fold
        return await self.read()

    def command(self, number: int) -> dict[str, Any]:
        return {"command_id": f"{self.end}.{number}", "account": ACCOUNT, "at": 1_000_000 + self.end}

    def about(self, number: int) -> dict[str, Any]:
        """A command for a participant."""
        return self.command(number) | {"resource": "participants", "key": f"p{number}", "contest": CONTEST}

    def created(self, number: int, record: str = "{}") -> RecordCreated:
        return RecordCreated(**self.about(number), parent=("contests", CONTEST), record=record)

    def changed(self, number: int, version: int) -> RecordChanged:
        of: dict[str, Any] = {"parent": ("contests", CONTEST), "record": '{"new":1}'}
        return RecordChanged(**self.about(number), **of, expected_version=version)

    def deleted(self, number: int) -> RecordDeleted:
        return RecordDeleted(**self.about(number))

    def contest_deleted(self) -> RecordDeleted:
        return RecordDeleted(**self.command(0), **THE_CONTEST)

    def contest_restored(self, due: int | None = None) -> ContestRestored:
        return ContestRestored(**self.command(0), contest=CONTEST, due=due)

    async def delete_image(self) -> OutcomeKind:
        delete = RecordDeleted(**self.command(0), resource="images", key="image")
        await self.fold(delete)
        [outcome] = await self.views.outcomes(PARTITION, [delete.command_id])
        assert outcome is not None
        return outcome.kind


@pytest.fixture
def catalogue(valkey: ValkeyClient, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Catalogue:
    return Catalogue(CatalogueViews(valkey, namespace), monkeypatch)


async def test_it_is_read_in_pages_with_what_changes_meanwhile(catalogue: Catalogue) -> None:
    await catalogue.set_up(600)

    async def change() -> None:
        first = len(catalogue.sizes)
        await catalogue.fold(catalogue.changed(first, 2 + first), catalogue.created(600 + first))

    catalogue.between = change
    config = await catalogue.read()
    assert catalogue.sizes == [250, 250, 104]
    assert [participant.key for participant in config.participants] == [f"p{n}" for n in (*range(600), 601, 602)]
    assert [n for n in range(600) if config.participants[n].record == '{"new":1}'] == [1, 2]
    assert (config.as_of, config.version) == (catalogue.end, catalogue.end - 1)


async def test_a_participant_deleted_meanwhile_is_not_in_it(catalogue: Catalogue) -> None:
    await catalogue.set_up(300)
    config = await catalogue.read_while(catalogue.deleted(5))
    assert [participant.key for participant in config.participants] == [f"p{n}" for n in range(300) if n != 5]
    assert catalogue.sizes == [250, 50, 250, 49]


async def test_a_contest_deleted_meanwhile_is_none(catalogue: Catalogue) -> None:
    await catalogue.set_up(300)
    config = await catalogue.read_while(catalogue.contest_deleted())
    assert (config.contest, config.participants, config.version) == (None, (), catalogue.end - 1)


async def test_a_contest_that_never_holds_still_is_unavailable_for_now(catalogue: Catalogue) -> None:
    await catalogue.set_up(400)

    async def delete() -> None:
        await catalogue.fold(catalogue.deleted(len(catalogue.sizes)))

    catalogue.between = delete
    with pytest.raises(ViewsUnavailable):
        await catalogue.read()


async def test_large_records_are_read_whole_by_short_calls(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many are asked for: a reply has at most 256 KiB of records and one more."""
    await catalogue.set_up(0)
    record, total = f'{{"text": "{"x" * 100_000}"}}', 8
    await catalogue.fold(*(catalogue.created(number, record) for number in range(total)))
    sizes: list[int] = []
    read = catalogue.views.fresh.read_at

    async def weighed(*args: Any) -> Any:
        position, reply = await read(*args)
        sizes.append(len(msgpack.packb(reply)))
        return position, reply

    monkeypatch.setattr(catalogue.views.fresh, "read_at", weighed)
    names = [f"p{number}" for number in range(total)]
    page = await catalogue.views.page(ACCOUNT, "participants", parent=CONTEST, limit=total)
    found = await catalogue.views.records(ACCOUNT, "participants", names)
    for records in (reversed(page), found, (await catalogue.read()).participants):
        assert [(each.key, each.record) for each in records] == [(name, record) for name in names]
    assert len(sizes) >= 9
    assert max(sizes) < 400_000


async def test_a_deleted_contest_is_restored_with_all_that_belonged_to_it(catalogue: Catalogue) -> None:
    await catalogue.set_up(600)
    views = catalogue.views
    before = await catalogue.read()
    await catalogue.fold(catalogue.contest_deleted())
    assert (await catalogue.read()).contest is None
    assert await views.get(ACCOUNT, "participants", "p7") is None
    assert await views.page(ACCOUNT, "participants", parent=CONTEST, limit=9) == []
    await catalogue.fold(catalogue.changed(7, before.participants[7].version), catalogue.created(600))
    [deleted] = await views.page(ACCOUNT, DELETED_CONTESTS, order="updated", limit=9)
    await catalogue.fold(catalogue.contest_restored(due=5))
    after = await catalogue.read()
    assert before.contest is not None
    assert after.contest is not None
    assert deleted.key == CONTEST
    assert after.contest == replace(before.contest, updated=after.contest.updated, version=catalogue.end - 1)
    assert after.contest.updated > deleted.updated > before.contest.updated
    assert after.version == after.contest.version == catalogue.end - 1
    assert after.participants == before.participants
    assert await views.page(ACCOUNT, DELETED_CONTESTS, order="updated", limit=9) == []
    assert await views.due(PARTITION, 9) == [(ACCOUNT, CONTEST)]
    await catalogue.fold(catalogue.created(600))
    assert (await catalogue.read()).participants[-1].number == 601


async def test_a_deleted_contest_keeps_no_picture_from_its_deletion(catalogue: Catalogue) -> None:
    await catalogue.set_up(0)
    refs = (("images", "image"),)
    image = RecordCreated(**catalogue.command(0), resource="images", key="image", record="{}")
    await catalogue.fold(image)
    await catalogue.fold(*(replace(catalogue.created(number), refs=refs) for number in range(120)))
    assert await catalogue.delete_image() is OutcomeKind.IN_USE
    await catalogue.fold(catalogue.contest_deleted())
    await catalogue.fold(catalogue.contest_restored())
    assert await catalogue.delete_image() is OutcomeKind.IN_USE
    await catalogue.fold(catalogue.contest_deleted())
    assert await catalogue.delete_image() is OutcomeKind.OK
    await catalogue.fold(catalogue.contest_restored())
    assert len((await catalogue.read()).participants) == 120
    await catalogue.fold(replace(image, command_id="again"))
    assert await catalogue.delete_image() is OutcomeKind.OK, (
        "references to what was deleted are not taken up again"
    )


async def test_participants_are_read_without_their_free_form_data(catalogue: Catalogue) -> None:
    await catalogue.set_up(0)
    record = '{"title":"data","data":{"x":[1]},"color":"#fff"}'
    await catalogue.fold(catalogue.created(1, record), catalogue.created(2, '{"title":"data"}'))
    config = await catalogue.read()
    assert [stored.document for stored in config.participants] == [
        {"title": "data", "color": "#fff"},
        {"title": "data"},
    ]
    assert config.shortened == {"p1"}
    [whole] = await catalogue.views.records(ACCOUNT, "participants", ["p1"])
    assert whole.record == record
