"""A contest of any size is read from the catalogue's views in short calls, consistently."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import msgpack
import pytest

from libs.contracts.catalogue_events import (
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
from tests.support.freshness import make_fresh

ACCOUNT, CONTEST = "b", "contest"
PARTITION = catalogue_topic("any").partition_of(ACCOUNT)


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
        contest = RecordCreated(**self.command(0), resource="contests", key=CONTEST, record="{}", contest=CONTEST)
        await self.fold(LogCreated("log"), contest)
        await self.fold(*map(self.created, range(participants)))
        await make_fresh(self.views.fresh, PARTITION)

    def command(self, number: int) -> dict[str, Any]:
        return {"command_id": f"{self.end}.{number}", "account": ACCOUNT, "at": 1_000_000 + self.end}

    def created(self, number: int, record: str = "{}") -> RecordCreated:
        what: dict[str, Any] = {
            "resource": "participants",
            "key": f"p{number}",
            "record": record,
            "contest": CONTEST,
        }
        return RecordCreated(**self.command(number), **what, parent=("contests", CONTEST))

    def changed(self, number: int, version: int) -> RecordChanged:
        what: dict[str, Any] = {
            "resource": "participants",
            "key": f"p{number}",
            "record": '{"new":1}',
            "contest": CONTEST,
        }
        parent = ("contests", CONTEST)
        return RecordChanged(**self.command(number), **what, parent=parent, expected_version=version)

    def deleted(self, number: int) -> RecordDeleted:
        what: dict[str, Any] = {"resource": "participants", "key": f"p{number}", "contest": CONTEST}
        return RecordDeleted(**self.command(number), **what)

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
    config = await catalogue.views.contest_config(ACCOUNT, CONTEST)
    assert catalogue.sizes == [250, 250, 104]
    assert [participant.key for participant in config.participants] == [f"p{n}" for n in (*range(600), 601, 602)]
    assert [n for n in range(600) if config.participants[n].record == '{"new":1}'] == [1, 2]
    assert (config.as_of, config.version) == (catalogue.end, catalogue.end - 1)


async def test_a_participant_deleted_meanwhile_is_not_in_it(catalogue: Catalogue) -> None:
    await catalogue.set_up(300)

    async def delete() -> None:
        catalogue.between = None
        await catalogue.fold(catalogue.deleted(5))

    catalogue.between = delete
    config = await catalogue.views.contest_config(ACCOUNT, CONTEST)
    assert [participant.key for participant in config.participants] == [f"p{n}" for n in range(300) if n != 5]
    assert catalogue.sizes == [250, 50, 250, 49]


async def test_a_contest_that_never_holds_still_is_unavailable_for_now(catalogue: Catalogue) -> None:
    await catalogue.set_up(400)

    async def delete() -> None:
        await catalogue.fold(catalogue.deleted(len(catalogue.sizes)))

    catalogue.between = delete
    with pytest.raises(ViewsUnavailable):
        await catalogue.views.contest_config(ACCOUNT, CONTEST)


async def test_a_contest_deleted_meanwhile_is_none(catalogue: Catalogue) -> None:
    await catalogue.set_up(300)

    async def delete() -> None:
        catalogue.between = None
        await catalogue.fold(
            RecordDeleted(**catalogue.command(0), resource="contests", key=CONTEST, contest=CONTEST)
        )

    catalogue.between = delete
    config = await catalogue.views.contest_config(ACCOUNT, CONTEST)
    assert (config.contest, config.participants, config.version) == (None, (), catalogue.end - 1)


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
    assert [(each.key, each.record) for each in page] == [(name, record) for name in reversed(names)]
    found = await catalogue.views.records(ACCOUNT, "participants", names)
    assert [(each.key, each.record) for each in found] == [(name, record) for name in names]
    config = await catalogue.views.contest_config(ACCOUNT, CONTEST)
    assert [(each.key, each.record) for each in config.participants] == [(name, record) for name in names]
    assert len(sizes) >= 9
    assert max(sizes) < 400_000


async def test_a_deleted_contest_is_restored_with_all_that_belonged_to_it(catalogue: Catalogue) -> None:
    await catalogue.set_up(600)
    views = catalogue.views
    before = await views.contest_config(ACCOUNT, CONTEST)
    about: dict[str, Any] = {"resource": "contests", "key": CONTEST, "contest": CONTEST}
    await catalogue.fold(RecordDeleted(**catalogue.command(0), **about))
    assert (await views.contest_config(ACCOUNT, CONTEST)).contest is None
    assert await views.get(ACCOUNT, "participants", "p7") is None
    assert await views.page(ACCOUNT, "participants", parent=CONTEST, limit=9) == []
    await catalogue.fold(catalogue.changed(7, before.participants[7].version), catalogue.created(600))
    [deleted] = await views.page(ACCOUNT, DELETED_CONTESTS, order="updated", limit=9)
    await catalogue.fold(ContestRestored(**catalogue.command(0), contest=CONTEST, due=5))
    after = await views.contest_config(ACCOUNT, CONTEST)
    assert before.contest is not None
    assert after.contest is not None
    assert (after.contest.key, after.contest.record, after.contest.created) == (
        deleted.key,
        before.contest.record,
        before.contest.created,
    )
    assert after.contest.updated > deleted.updated > before.contest.updated
    assert after.version == after.contest.version == catalogue.end - 1
    assert after.participants == before.participants
    assert await views.page(ACCOUNT, DELETED_CONTESTS, order="updated", limit=9) == []
    assert await views.due(PARTITION, 9) == [(ACCOUNT, CONTEST)]
    await catalogue.fold(catalogue.created(600))
    assert (await views.contest_config(ACCOUNT, CONTEST)).participants[-1].number == 601


async def test_a_deleted_contest_keeps_no_picture_from_its_deletion(catalogue: Catalogue) -> None:
    await catalogue.set_up(0)
    refs = (("images", "image"),)
    image = RecordCreated(**catalogue.command(0), resource="images", key="image", record="{}")
    await catalogue.fold(image)
    for number in range(120):
        await catalogue.fold(replace(catalogue.created(number), refs=refs))
    assert await catalogue.delete_image() is OutcomeKind.IN_USE
    about: dict[str, Any] = {"resource": "contests", "key": CONTEST, "contest": CONTEST}
    delete, restore = RecordDeleted(**catalogue.command(1), **about), ContestRestored
    await catalogue.fold(delete)
    await catalogue.fold(restore(**catalogue.command(2), contest=CONTEST))
    assert await catalogue.delete_image() is OutcomeKind.IN_USE
    await catalogue.fold(RecordDeleted(**catalogue.command(3), **about))
    assert await catalogue.delete_image() is OutcomeKind.OK
    await catalogue.fold(restore(**catalogue.command(4), contest=CONTEST))
    assert len((await catalogue.views.contest_config(ACCOUNT, CONTEST)).participants) == 120
    await catalogue.fold(replace(image, command_id="again"))
    assert await catalogue.delete_image() is OutcomeKind.OK, (
        "references to what was deleted are not taken up again"
    )
