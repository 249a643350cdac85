"""Legacy API: mapping of article feeds and their pages, which only the legacy API has."""

import re
from collections.abc import Mapping
from typing import Any, Final

from libs.catalogue.feed_pages import Page, Pages
from libs.catalogue.resource_definition import Document
from libs.catalogue.schemas.content import Feed
from libs.contracts.catalogue_events import Stored
from libs.legacy.parameters.articles import SHAPE as ARTICLE
from libs.legacy.parameters.read_shapes import (
    INTEGER,
    TEXT,
    TEXT_OR_NULL,
    TIMES,
    array,
    described,
    of,
    or_null,
    shape,
)
from libs.legacy.parameters.styles import STYLE, style_problems, styled
from libs.legacy.parameters.translator import Field, JsonSchema, Translator
from libs.tally.errors import NotFound
from libs.tally.time_conversion import timestamp

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

FEED: Final = Translator(Feed, FIELDS, {"style": STYLE})
HEAD: Final[JsonSchema] = of(TEXT, "page_key", "feed_key") | {"page_number": INTEGER} | TIMES
ITEM_ID: Final[JsonSchema] = {"feed_item_id": TEXT}
LISTED: Final = {"allOf": [shape("FeedItemId", ITEM_ID), ARTICLE]}
ENTRY: Final = shape("FeedEntry", ITEM_ID | {"article": ARTICLE})
PAGE_MEMBERS: Final = HEAD | of(TEXT_OR_NULL, "next_page_key", "previous_page_key") | {"items": array(ENTRY)}
PAGE: Final = shape("FeedPage", PAGE_MEMBERS)
NEW_ITEM: Final = shape("FeedItem", PAGE_MEMBERS | {"feed_item_id": described(TEXT, "Id of the new item.")})
SHAPE: Final = shape(
    "Feed",
    {"feed_key": TEXT}
    | FEED.shape()
    | of(or_null(ARTICLE), "header_article", "footer_article")
    | of(INTEGER, "total_pages", "total_count")
    | {"first_page": shape("FirstPage", HEAD | {"articles": array(LISTED)})}
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


def article_keys(feed: Feed, *pages: Page) -> set[str]:
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
            "created": timestamp(stored.created),
            "updated": timestamp(stored.updated),
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


def _items(feed: str, page: Page, articles: Articles) -> list[Document]:
    """Return the read shapes of a page's items, without items whose article was deleted concurrently."""
    return [
        {"feed_item_id": key_of(feed, item.number), "article": articles[item.article]}
        for item in page.items
        if item.article in articles
    ]
