"""Article feeds and their pages, which only the legacy API has: the pages, as pure functions, tables and routes.

A feed's record holds all of its pages in the server's member `pages`, so one event changes them together. The
newest article is first on the first page. A page with too many items moves its last one to the start of the next;
items never move back, and empty pages are removed except for the first.
"""

import asyncio
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar, Final, NamedTuple

from msgspec import convert, json

from libs.catalogue.resource_table import ARTICLES, FEEDS
from libs.catalogue.schemas.base import MAX_LIMIT, Document
from libs.catalogue.schemas.content import Feed
from libs.contracts.catalogue_events import Stored
from libs.contracts.limits import COMMAND_BODY
from libs.contracts.validation import Problem, ValidationFailed
from libs.legacy.articles import article_schema, shown_articles, style_parameter, style_problems, styled
from libs.legacy.routing import WHOLE, LegacyCall, LegacyRoutes, ResourceHandlers
from libs.legacy.translator import (
    INTEGER,
    TEXT,
    TEXT_OR_NULL,
    TIMES,
    Field,
    JsonSchema,
    Translator,
    array,
    described,
    of,
    or_null,
    shape,
)
from libs.tally.errors import NotFound
from libs.tally.time_conversion import timestamp

PAGE_ITEMS: Final = 20
MAX_ITEMS: Final = 5_000
"""About 200 kB: every change writes all items, and every read checks that their articles still exist."""


class Item(NamedTuple):
    """An article's place in a feed. An article may occur several times."""

    number: int
    article: str


@dataclass(frozen=True, slots=True)
class FeedPage:
    """One page. Times are microseconds since 1970 UTC; `updated` is the last change of its items."""

    number: int
    items: tuple[Item, ...]
    created: int
    updated: int


@dataclass(frozen=True, slots=True)
class Pages:
    """The pages of a feed, at least one. Pages and items share one numbering without reuse.

    The methods return the pages after a change at `at` (us).
    """

    pages: tuple[FeedPage, ...]
    next_number: int

    @classmethod
    def of(cls, document: Mapping[str, Any], created: int) -> "Pages":
        """Read the pages from a feed's document; without any, return one empty page from `created`."""
        kept = document.get("pages")
        return cls((FeedPage(1, (), created, created),), 2) if kept is None else convert(kept, cls)

    def member(self) -> dict[str, Any]:
        """Return the value of the document's member `pages`."""
        member: dict[str, Any] = json.decode(json.encode(self))  # lists, as in the stored document
        return member

    @property
    def items(self) -> list[Item]:
        return [item for page in self.pages for item in page.items]

    @property
    def articles(self) -> set[str]:
        return {item.article for item in self.items}

    def index(self, page: int) -> int:
        """Return the index of the page with this number. Raises `NotFound`."""
        for index, each in enumerate(self.pages):
            if each.number == page:
                return index
        raise NotFound("feed page not found")

    def added(self, article: str, at: int) -> "Pages":
        """Insert the article at the start. Raises `ValidationFailed` if the feed is full."""
        if len(self.items) >= MAX_ITEMS:
            raise ValidationFailed([Problem("", f"a feed can hold at most {MAX_ITEMS:,} articles; remove some")])
        item = Item(self.next_number, article)
        first, *others = (page.items for page in self.pages)
        return replace(self, next_number=item.number + 1)._settled([(item, *first), *others], at)

    def removed(self, number: int, at: int) -> "Pages":
        """Remove the item with this number. Raises `NotFound`."""
        if all(item.number != number for item in self.items):
            raise NotFound("feed item not found")
        return self._settled((_without(page.items, number) for page in self.pages), at)

    def moved(self, number: int, source: int, target: int | None, index: int, at: int) -> "Pages":
        """Move an item of page `source` to `index` on it, or on the neighbouring page `target`.

        An index after the last place means the last place. Raises `NotFound`, and `ValidationFailed` if `target`
        is not a neighbour.
        """
        place = self.index(source)
        to = place if target is None else self.index(target)
        found = [item for item in self.pages[place].items if item.number == number]
        if not found:
            raise NotFound("feed item not found")
        if target is not None and abs(place - to) != 1:
            raise ValidationFailed(
                [Problem("", "to_page_key must be the page's next_page_key or previous_page_key")]
            )
        items = [_without(page.items, number) for page in self.pages]
        index = min(index, PAGE_ITEMS - 1)
        items[to] = (*items[to][:index], *found, *items[to][index:])
        return self._settled(items, at)

    def without(self, articles: Collection[str], at: int) -> "Pages":
        """Remove the items of these articles."""
        kept = (tuple(item for item in page.items if item.article not in articles) for page in self.pages)
        return self._settled(kept, at)

    def _settled(self, items: Iterable[tuple[Item, ...]], at: int) -> "Pages":
        """Set the pages' items, move overflowing items to the next page, and remove empty pages."""
        settled: list[FeedPage] = []
        over: tuple[Item, ...] = ()
        for page, own in zip(self.pages, items, strict=True):
            held, over = (over + own)[:PAGE_ITEMS], (over + own)[PAGE_ITEMS:]
            settled.append(page if held == page.items else replace(page, items=held, updated=at))
        number = self.next_number
        if over:
            settled.append(FeedPage(number, over, at, at))
            number += 1
        return Pages(tuple(page for page in settled if page.items or page is settled[0]), number)


def _without(items: Iterable[Item], number: int) -> tuple[Item, ...]:
    return tuple(item for item in items if item.number != number)


FIELDS: Final = (
    Field("title", "title"),
    Field("is_followable", "is_followable", "legacy only"),
    Field("is_push_enabled", "is_push_enabled", "legacy only"),
    Field("divider_height", "divider_height"),
    Field(
        "header_article_key",
        "header_article_key",
        "legacy only: `header` is free-form; reads show the article itself",
        reads=False,
        names_record=True,
    ),
    Field("footer_article_key", "footer_article_key", "like header_article_key", reads=False, names_record=True),
    Field("topic_key", "topic_key", "legacy only, and not read", reads=False),
    Field("app_keys", "app_keys", "legacy only, and not written", writes=False),
    Field("sups", "sups", "like app_keys", writes=False),
    Field("style", "style", "legacy checks known members and keeps the others"),
    Field("custom_data", "custom_data"),
)

_KEY: Final = re.compile(r"([^~]+)~([1-9][0-9]{0,14})")

FEED: Final = Translator(Feed, FIELDS, style_parameter)
HEAD: Final[JsonSchema] = of(TEXT, "page_key", "feed_key") | {"page_number": INTEGER} | TIMES
ITEM_ID: Final[JsonSchema] = {"feed_item_id": TEXT}


def _page_members() -> dict[str, JsonSchema]:
    entry = shape("FeedEntry", ITEM_ID | {"article": article_schema()})
    return HEAD | of(TEXT_OR_NULL, "next_page_key", "previous_page_key") | {"items": array(entry)}


def page_schema() -> JsonSchema:
    """Return the JSON schema of a feed's page."""
    return shape("FeedPage", _page_members())


def item_schema() -> JsonSchema:
    """Return the JSON schema of a feed's page with the id of a new item."""
    return shape("FeedItem", _page_members() | {"feed_item_id": described(TEXT, "Id of the new item.")})


@cache
def feed_schema() -> JsonSchema:
    """Return the JSON schema of the feed read shape."""
    article = article_schema()
    item = {"allOf": [shape("FeedItemId", ITEM_ID), article]}
    return shape(
        "Feed",
        {"feed_key": TEXT}
        | FEED.shape()
        | of(or_null(article), "header_article", "footer_article")
        | of(INTEGER, "total_pages", "total_count")
        | {"first_page": shape("FirstPage", HEAD | {"articles": array(item)})}
        | TIMES,
    )


Articles = Mapping[str, Mapping[str, Any]]
"""Read shapes of existing articles by key."""


def key_of(feed: str, number: int) -> str:
    """Return the key of a feed's page, or the id of a feed's item."""
    return f"{feed}~{number}"


def split_key(key: str, name: str) -> tuple[str, int]:
    """Split a key made by `key_of` into feed and number. Raises `NotFound` for `name`."""
    match = _KEY.fullmatch(key)
    if match is None:
        raise NotFound(f"{name} not found")
    return match[1], int(match[2])


def article_keys(feed: Feed, *pages: FeedPage) -> set[str]:
    """Return the keys of the articles in a feed's header, footer and these pages."""
    named = {feed.header_article_key, feed.footer_article_key}
    return {key for key in named if key} | {item.article for page in pages for item in page.items}


def feed_written(body: Mapping[str, Any], before: Document | None) -> Document:
    """Apply the parameters to a feed, as `Translator.written`."""
    return styled(FEED.written(body, before, style_problems(body, before)), body, before)


def feed_read(stored: Stored, pages: Pages, articles: Articles) -> Document:
    """Return the feed read shape; `articles` are those of its first page, header and footer."""
    record, first = Feed.model_validate(stored.document), pages.pages[0]
    shown = [
        {"feed_item_id": item["feed_item_id"]} | item["article"] for item in _items(stored.key, first, articles)
    ]
    return (
        {"feed_key": stored.key}
        | FEED.read(record)
        | {
            "header_article": articles.get(record.header_article_key or ""),
            "footer_article": articles.get(record.footer_article_key or ""),
            "total_pages": len(pages.pages),
            "total_count": len(pages.items),
            "first_page": _head(stored.key, pages, 0) | {"articles": shown},
            **stored.times,
        }
    )


def page_read(feed: str, pages: Pages, index: int, articles: Articles) -> Document:
    """Return the read shape of a feed's page, with the keys of its neighbours."""
    around = {"next_page_key": index + 1, "previous_page_key": index - 1}
    keys = {
        name: key_of(feed, pages.pages[place].number) if 0 <= place < len(pages.pages) else None
        for name, place in around.items()
    }
    return _head(feed, pages, index) | keys | {"items": _items(feed, pages.pages[index], articles)}


def _head(feed: str, pages: Pages, index: int) -> Document:
    page = pages.pages[index]
    return {
        "page_key": key_of(feed, page.number),
        "feed_key": feed,
        "page_number": index + 1,
        "created": timestamp(page.created),
        "updated": timestamp(page.updated),
    }


def _items(feed: str, page: FeedPage, articles: Articles) -> list[Document]:
    """Return the read shapes of a page's items, without items whose article was deleted concurrently."""
    return [
        {"feed_item_id": key_of(feed, item.number), "article": articles[item.article]}
        for item in page.items
        if item.article in articles
    ]


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
    row, translator, schema = FEEDS, FEED, staticmethod(feed_schema)
    written = staticmethod(feed_written)
    page_size = WHOLE
    docs: ClassVar[Mapping[str, str]] = {
        "create": "All parameters are optional. Unknown ones are ignored.",
        "get": "Returns a feed with its first page.",
        "delete": "Deletes the feed and its pages; its articles stay.",
    }

    def add_to(self, routes: LegacyRoutes) -> None:
        super().add_to(routes)
        item = "/v2/feedpages/{from_page_key}/items/{feed_item_id}/move_to"
        added = "/v2/articlefeeds/{feed_key}/articles/{article_key}"
        routes.add("POST", added, self.add_article_to_feed, schema=item_schema)
        routes.add("GET", "/v2/feedpages/{page_key}", self.get_feedpage, schema=page_schema)
        routes.add("DELETE", "/v2/feedpages/items/{feed_item_id}", self.remove_feed_item)
        move: dict[str, Any] = {"parameters": lambda: INDEX, "required": tuple(INDEX), "schema": page_schema}
        move["max_bytes"] = COMMAND_BODY
        routes.add("POST", item, self.move_feed_item, **move)
        routes.add("POST", item + "/{to_page_key}", self.move_feed_item_to_page, **move)

    async def body(self, call: LegacyCall) -> Document:
        """Parse the body. Raises `NotFound` if it names an article that the brand does not have."""
        body = await super().body(call)
        for name in ("header_article_key", "footer_article_key"):
            if isinstance(key := body.get(name), str) and key:
                await self.records.get(ARTICLES, call.account, key)
        return body

    async def shown(self, call: LegacyCall, records: Sequence[Stored]) -> list[Document]:
        shapes: list[Document] = []
        for start in range(0, len(records), FEEDS_AT_ONCE):
            some = records[start : start + FEEDS_AT_ONCE]
            laid = await asyncio.gather(*(self._laid(call.account, stored) for stored in some))
            shapes += await asyncio.gather(*(self._shown(call, each) for each in laid))
        return shapes

    async def add_article_to_feed(self, call: LegacyCall) -> Document:
        """Inserts the article at the top of the first page and returns that page with the new item's id.

        A page holds 20 items: surplus items move to the top of the next page. An article may be added again, as
        another item. A feed holds 5,000 items.
        """
        article = call.path("article_key")
        await self.records.get(FEEDS, call.account, call.path("feed_key"))
        await self.records.get(ARTICLES, call.account, article)
        laid = await self._change(call, call.path("feed_key"), lambda pages, at: pages.added(article, at))
        number = laid.pages.pages[0].items[0].number
        return {"feed_item_id": key_of(laid.feed.key, number)} | await self._page(call, laid, 0)

    async def get_feedpage(self, call: LegacyCall) -> Document:
        """Returns a page of a feed, with the keys of its neighbours."""
        feed, number = split_key(call.path("page_key"), "feed page")
        laid = await self._laid(call.account, await self.records.get(FEEDS, call.account, feed))
        return await self._page(call, laid, laid.pages.index(number))

    async def remove_feed_item(self, call: LegacyCall) -> None:
        """Removes the item; its article stays. No item moves up from the next page; a page without items is
        removed.
        """
        feed, number = split_key(call.path("feed_item_id"), "feed item")
        await self._change(call, feed, lambda pages, at: pages.removed(number, at))

    async def move_feed_item(self, call: LegacyCall) -> Document:
        """Moves the item to another index of its page."""
        return await self._moved(call, None)

    async def move_feed_item_to_page(self, call: LegacyCall) -> Document:
        """Moves the item to an index of the next or previous page and returns that page. Surplus items there move
        on.
        """
        return await self._moved(call, call.path("to_page_key"))

    async def _moved(self, call: LegacyCall, to: str | None) -> Document:
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

    async def _change(self, call: LegacyCall, feed: str, change: Callable[[Pages, int], Pages]) -> Laid:
        """Apply `change` to the pages without deleted articles, as readers see them."""
        before = await self.records.get(FEEDS, call.account, feed)
        gone = await self._gone(call.account, Pages.of(before.document, before.created).articles)
        at = self.environment.now()

        def amended(document: Document) -> Document:
            pages = Pages.of(document, before.created).without(gone, at)
            return document | {"pages": change(pages, at).member()}

        stored, _ = await self.records.amend(FEEDS, call.account, feed, amended)
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

    async def _shapes(self, call: LegacyCall, articles: Iterable[str]) -> dict[str, Document]:
        shapes = await shown_articles(self.environment, call, await self._found(call.account, articles))
        return {shape["article_key"]: shape for shape in shapes}

    async def _shown(self, call: LegacyCall, laid: Laid) -> Document:
        keys = article_keys(Feed.model_validate(laid.feed.document), laid.pages.pages[0])
        return feed_read(laid.feed, laid.pages, await self._shapes(call, keys))

    async def _page(self, call: LegacyCall, laid: Laid, index: int) -> Document:
        keys = {item.article for item in laid.pages.pages[index].items}
        return page_read(laid.feed.key, laid.pages, index, await self._shapes(call, keys))
