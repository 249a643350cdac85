"""Lists: newest first, stable under writes, filtered."""

import pytest

from libs.catalogue import pagination
from libs.catalogue.pagination import ListRequest
from libs.contracts.catalogue_events import Stored
from libs.tally.errors import NotFound
from tests.libs.catalogue.conftest import TABLE
from tests.support.builders.catalogue import Catalogue

LARGE_BYTES = 60_000
CONTESTS, PARTICIPANTS = TABLE["contests"], TABLE["participants"]


async def keys_of(catalogue: Catalogue, account: str, request: ListRequest) -> tuple[list[str], str | None]:
    page = await catalogue.record_service.page(CONTESTS, account, request)
    return [stored.key for stored in page.records], page.next


async def made(catalogue: Catalogue, account: str, *tags: list[str]) -> list[Stored]:
    return [await catalogue.create("contests", account, {"tags": one}) for one in tags]


async def test_pages_hold_still_while_records_come_and_go(catalogue: Catalogue, account: str) -> None:
    keys = [stored.key for stored in await made(catalogue, account, *[[]] * 5)]
    first, token = await keys_of(catalogue, account, ListRequest(limit=2))
    assert first == [keys[4], keys[3]]
    await made(catalogue, account, [], [])
    await catalogue.record_service.delete(CONTESTS, account, keys[3])
    await catalogue.record_service.patch(CONTESTS, account, keys[1], {"title": "changed"})
    second, token = await keys_of(catalogue, account, ListRequest(limit=2, next=token))
    assert second == [keys[2], keys[1]]
    for limit in (1, 2):  # a full last page, and one that is not
        third, last = await keys_of(catalogue, account, ListRequest(limit=limit, next=token))
        assert (third, last) == ([keys[0]], None)


async def test_updated_since_orders_by_the_last_change(catalogue: Catalogue, account: str) -> None:
    first, second, third = await made(catalogue, account, [], [], [])
    changed = await catalogue.record_service.patch(CONTESTS, account, first.key, {"title": "changed"})
    found, _ = await keys_of(catalogue, account, ListRequest(limit=9, updated_since=second.updated))
    assert found == [first.key, third.key, second.key]
    found, _ = await keys_of(catalogue, account, ListRequest(limit=9, updated_since=changed.updated))
    assert found == [first.key]


async def test_participants_are_listed_by_contest(catalogue: Catalogue, account: str) -> None:
    one, other = await made(catalogue, account, [], [])
    stored = await catalogue.create("participants", account, {}, one.key)
    page = await catalogue.record_service.page(PARTICIPANTS, account, ListRequest(limit=5), one.key)
    assert page.records == [stored]
    assert (
        await catalogue.record_service.page(PARTICIPANTS, account, ListRequest(limit=5), other.key)
    ).records == []
    with pytest.raises(NotFound):
        await catalogue.record_service.page(PARTICIPANTS, account, ListRequest(limit=5), "nothing")


async def test_a_page_ends_at_its_largest_size_and_its_successor_follows(
    catalogue: Catalogue, account: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pagination, "PAGE_BYTES", 3 * LARGE_BYTES)
    large = {"custom_data": {"x": "a" * LARGE_BYTES}}
    keys = [(await catalogue.create("contests", account, large)).key for _ in range(7)]
    found: list[list[str]] = []
    token = None
    while token is not None or not found:
        page, token = await keys_of(catalogue, account, ListRequest(limit=5, next=token))
        found.append(page)
    assert [key for page in found for key in page] == keys[::-1]
    assert [len(page) for page in found] == [2, 2, 2, 1]


async def test_a_filter_finds_records_behind_many_bytes_of_others(
    catalogue: Catalogue, account: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pagination, "PAGE_BYTES", 3 * LARGE_BYTES)
    wanted = await catalogue.create("contests", account, {"tags": ["a"]})
    for _ in range(4):
        await catalogue.create("contests", account, {"custom_data": {"x": "a" * LARGE_BYTES}})
    assert await keys_of(catalogue, account, ListRequest(limit=5, tags=("a",))) == ([wanted.key], None)
