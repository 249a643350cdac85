"""Routes of article feeds and their pages in the legacy API."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

from libs.catalogue.feed_pages import Pages
from libs.catalogue.resource_definition import Document
from libs.catalogue.resource_table import ARTICLES, FEEDS
from libs.catalogue.schemas.base import MAX_LIMIT
from libs.catalogue.schemas.content import Feed
from libs.contracts.catalogue_events import Stored
from libs.contracts.validation import Problem, ValidationFailed
from libs.legacy.parameters.articles import ARTICLE
from libs.legacy.parameters.feeds import (
    FEED,
    NEW_ITEM,
    PAGE,
    SHAPE,
    article_keys,
    feed_read,
    feed_written,
    key_of,
    page_read,
    split_key,
)
from libs.legacy.parameters.translator import JsonSchema
from libs.legacy.records import WHOLE
from libs.legacy.routes.embedding import shown_articles
from libs.legacy.routes.resource_handlers import ResourceHandlers
from libs.legacy.routes.route_builder import Call, LegacyEnvironment, LegacyRoutes
from libs.tally.errors import NotFound

AT_ONCE: Final = 200
"""Articles read in one round."""
FEEDS_AT_ONCE: Final = 20
"""Feeds of a list that are read concurrently."""
INDEX: Final[dict[str, JsonSchema]] = {
    "index": {
        "type": "integer",
        "minimum": 0,
        "maximum": MAX_LIMIT,
        "description": "Index in the page; beyond the end means the last place.",
    }
}


class Laid(NamedTuple):
    """A feed and its pages, without the items of deleted articles."""

    feed: Stored
    pages: Pages


class Feeds(ResourceHandlers):
    name, several, one = "articlefeed", "/dev/v2/articlefeeds", "/dev/v2/articlefeeds/{feed_key}"
    row, translator, shape = FEEDS, FEED, SHAPE
    written = staticmethod(feed_written)
    page_size = WHOLE
    docs: ClassVar[Mapping[str, str]] = {
        "create": "All parameters are optional. Unknown ones are ignored.",
        "get": "Returns a feed with its first page.",
        "delete": "Deletes the feed and its pages; its articles stay.",
    }

    def __init__(self, environment: LegacyEnvironment) -> None:
        super().__init__(environment)
        self._articles = environment.records(ARTICLES, ARTICLE)

    def add_to(self, routes: LegacyRoutes) -> None:
        super().add_to(routes)
        item = "/v2/feedpages/{from_page_key}/items/{feed_item_id}/move_to"
        added = "/v2/articlefeeds/{feed_key}/articles/{article_key}"
        routes.add("POST", added, self.add_article_to_feed, shape=NEW_ITEM)
        routes.add("GET", "/v2/feedpages/{page_key}", self.get_feedpage, shape=PAGE)
        routes.add("DELETE", "/v2/feedpages/items/{feed_item_id}", self.remove_feed_item)
        move: dict[str, Any] = {"parameters": INDEX, "required": tuple(INDEX), "shape": PAGE}
        routes.add("POST", item, self.move_feed_item, **move)
        routes.add("POST", item + "/{to_page_key}", self.move_feed_item_to_page, **move)

    async def body(self, call: Call) -> Document:
        """Parse the body. Raises `NotFound` if it names an article that the brand does not have."""
        body = await super().body(call)
        for name in ("header_article_key", "footer_article_key"):
            if isinstance(key := body.get(name), str) and key:
                await self._articles.get(call.account, key)
        return body

    async def shown(self, call: Call, records: Sequence[Stored]) -> list[Document]:
        shapes: list[Document] = []
        for start in range(0, len(records), FEEDS_AT_ONCE):
            some = records[start : start + FEEDS_AT_ONCE]
            laid = await asyncio.gather(*(self._laid(call.account, stored) for stored in some))
            shapes += await asyncio.gather(*(self._shown(call, each) for each in laid))
        return shapes

    async def add_article_to_feed(self, call: Call) -> Document:
        """Inserts the article at the top of the first page and returns that page with the new item's id.

        A page holds 20 items: surplus items move to the top of the next page. An article may be added again, as
        another item. A feed holds 5,000 items.
        """
        article = call.path("article_key")
        await self.records.get(call.account, call.path("feed_key"))
        await self._articles.get(call.account, article)
        laid = await self._change(call, call.path("feed_key"), lambda pages, at: pages.added(article, at))
        number = laid.pages.pages[0].items[0].number
        return {"feed_item_id": key_of(laid.feed.key, number)} | await self._page(call, laid, 0)

    async def get_feedpage(self, call: Call) -> Document:
        """Returns a page of a feed, with the keys of its neighbours."""
        feed, number = split_key(call.path("page_key"), "feed page")
        laid = await self._laid(call.account, await self.records.get(call.account, feed))
        return await self._page(call, laid, laid.pages.index(number))

    async def remove_feed_item(self, call: Call) -> None:
        """Removes the item; its article stays. No item moves up from the next page; a page without items is
        removed.
        """
        feed, number = split_key(call.path("feed_item_id"), "feed item")
        await self._change(call, feed, lambda pages, at: pages.removed(number, at))

    async def move_feed_item(self, call: Call) -> Document:
        """Moves the item to another index of its page."""
        return await self._moved(call, None)

    async def move_feed_item_to_page(self, call: Call) -> Document:
        """Moves the item to an index of the next or previous page and returns that page. Surplus items there move
        on.
        """
        return await self._moved(call, call.path("to_page_key"))

    async def _moved(self, call: Call, to: str | None) -> Document:
        index = (await call.parameters(INDEX)).get("index")
        if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index <= MAX_LIMIT:
            raise ValidationFailed([Problem("/index", "must be a valid integer, 0 or more")])
        feed, source = split_key(call.path("from_page_key"), "feed page")
        of_item, number = split_key(call.path("feed_item_id"), "feed item")
        of_target, target = (feed, None) if to is None else split_key(to, "feed page")
        if of_item != feed:
            raise NotFound("feed item not found")
        if of_target != feed:
            raise NotFound("feed page not found")
        laid = await self._change(call, feed, lambda pages, at: pages.moved(number, source, target, index, at))
        return await self._page(call, laid, laid.pages.index(source if target is None else target))

    async def _change(self, call: Call, feed: str, change: Callable[[Pages, int], Pages]) -> Laid:
        """Apply `change` to the pages without deleted articles, as readers see them."""
        before = await self.records.get(call.account, feed)
        gone = await self._gone(call.account, Pages.of(before.document, before.created).articles)
        at = self.environment.now()

        def amended(document: Document) -> Document:
            pages = Pages.of(document, before.created).without(gone, at)
            return document | {"pages": change(pages, at).member()}

        stored, _ = await self.environment.record_service.amend(FEEDS, call.account, feed, amended)
        return Laid(stored, Pages.of(stored.document, stored.created))

    async def _laid(self, account: str, stored: Stored) -> Laid:
        pages = Pages.of(stored.document, stored.created)
        return Laid(stored, pages.without(await self._gone(account, pages.articles), stored.updated))

    async def _gone(self, account: str, articles: set[str]) -> set[str]:
        """Return the deleted ones of `articles`."""
        gone, keys = set[str](), sorted(articles)
        for start in range(0, len(keys), AT_ONCE):
            some = keys[start : start + AT_ONCE]
            gone |= set(some) - {stored.key for stored in await self._found(account, some)}
        return gone

    async def _found(self, account: str, articles: Iterable[str]) -> list[Stored]:
        found = await asyncio.gather(
            *(self.environment.views.get(account, ARTICLES.name, key) for key in articles)
        )
        return [stored for stored in found if stored is not None]

    async def _shapes(self, call: Call, articles: Iterable[str]) -> dict[str, Document]:
        shapes = await shown_articles(self.environment, call, await self._found(call.account, articles))
        return {shape["article_key"]: shape for shape in shapes}

    async def _shown(self, call: Call, laid: Laid) -> Document:
        keys = article_keys(Feed.model_validate(laid.feed.document), laid.pages.pages[0])
        return feed_read(laid.feed, laid.pages, await self._shapes(call, keys))

    async def _page(self, call: Call, laid: Laid, index: int) -> Document:
        keys = {item.article for item in laid.pages.pages[index].items}
        return page_read(laid.feed.key, laid.pages, index, await self._shapes(call, keys))
