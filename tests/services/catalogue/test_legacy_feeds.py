"""Article feeds: a change of their pages is one event, also under concurrent changes."""

import asyncio
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from libs.catalogue.records import RecordService
from libs.catalogue.resource_table import FEEDS
from libs.contracts.catalogue_events import Stored
from libs.legacy.feeds import PAGE_ITEMS, Pages
from tests.services.catalogue.conftest import Place


@dataclass
class Reel:
    """A feed of an account's, and articles for it."""

    record_service: RecordService
    client: httpx.AsyncClient
    key: str

    @property
    def path(self) -> str:
        return f"/legacy/v2/articlefeeds/{self.key}"

    async def article(self) -> str:
        key: str = (await self.client.post("/articles", json={})).json()["key"]
        return key

    async def add(self, article: str) -> dict[str, Any]:
        return answered(await self.client.post(f"{self.path}/articles/{article}"))

    async def page(self, key: str) -> dict[str, Any]:
        return answered(await self.client.get(f"/legacy/v2/feedpages/{key}"))

    async def stored(self) -> Stored:
        return await self.record_service.get(FEEDS, self.client.headers["x-account"], self.key)

    async def pages(self) -> Pages:
        stored = await self.stored()
        return Pages.of(stored.document, stored.created)


def answered(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.fixture
async def reel(place: Place, client: httpx.AsyncClient) -> Reel:
    made = answered(await client.post("/legacy/v2/articlefeeds", json={"title": "News"}))
    return Reel(place.environments["production"].record_service, client, made["feed_key"])


async def test_articles_that_are_added_at_once_are_all_there_once(reel: Reel) -> None:
    article = await reel.article()
    added = await asyncio.gather(*(reel.add(article) for _ in range(2 * PAGE_ITEMS + 5)))
    ids = {each["feed_item_id"] for each in added}
    pages, key = [], added[0]["page_key"]
    while key is not None:
        pages.append(await reel.page(key))
        key = pages[-1]["next_page_key"]
    assert [len(page["items"]) for page in pages] == [PAGE_ITEMS, PAGE_ITEMS, 5]
    assert {item["feed_item_id"] for page in pages for item in page["items"]} == ids
    assert len(ids) == 2 * PAGE_ITEMS + 5


async def test_a_change_that_moves_items_through_all_pages_is_one_event(reel: Reel) -> None:
    article = await reel.article()
    added = [await reel.add(article) for _ in range(2 * PAGE_ITEMS)]
    before = (await reel.stored()).version
    await reel.add(article)
    assert [len(page.items) for page in (await reel.pages()).pages] == [PAGE_ITEMS, PAGE_ITEMS, 1]
    assert (await reel.stored()).version == before + 1
    first, oldest = added[0]["page_key"], added[1]["feed_item_id"]
    second = (await reel.page(first))["next_page_key"]
    path = f"/legacy/v2/feedpages/{second}/items/{oldest}/move_to/{first}"
    answered(await reel.client.post(path, json={"index": 0}))
    assert (await reel.stored()).version == before + 2


async def test_items_of_deleted_articles_are_passed_over_and_go_with_the_next_write(reel: Reel) -> None:
    stays, goes = await reel.article(), await reel.article()
    for article in (stays, goes, *[stays] * (PAGE_ITEMS - 1), *[goes] * PAGE_ITEMS):
        await reel.add(article)
    shown = answered(await reel.client.get(reel.path))
    assert (shown["total_pages"], shown["total_count"]) == (3, 2 * PAGE_ITEMS + 1)
    assert (await reel.client.delete(f"/articles/{goes}")).status_code == 204
    shown = answered(await reel.client.get(reel.path))
    assert (shown["total_pages"], shown["total_count"]) == (3, PAGE_ITEMS)
    assert shown["first_page"]["articles"] == []
    second = await reel.page((await reel.page(shown["first_page"]["page_key"]))["next_page_key"])
    assert [item["article"]["article_key"] for item in second["items"]] == [stays] * (PAGE_ITEMS - 1)
    assert len((await reel.pages()).items) == 2 * PAGE_ITEMS + 1
    await reel.add(stays)
    assert len((await reel.pages()).items) == PAGE_ITEMS + 1


async def test_what_either_generation_writes_leaves_the_pages_alone(reel: Reel) -> None:
    await reel.add(await reel.article())
    before = await reel.pages()
    assert (await reel.client.patch(f"/feeds/{reel.key}", json={"divider_height": 2})).status_code == 200
    answered(await reel.client.post(reel.path, json={"title": "Newer"}))
    assert await reel.pages() == before
    assert "pages" not in (await reel.client.get(f"/feeds/{reel.key}")).json()
